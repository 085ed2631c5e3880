"""Errors of the node; the root is the kernel's, so that surfaces handle one family."""

from __future__ import annotations

from knowing_protocol.errors import KnowingError

__all__ = ["KnowingError"]
