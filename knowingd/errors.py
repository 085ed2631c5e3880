"""Errors of the node; the root is the kernel's, so that surfaces handle one family."""

from __future__ import annotations

from knowing_protocol.errors import KnowingError

__all__ = ["BusyError", "KnowingError", "NotFoundError", "PeerError", "StoreError", "UsageError"]


class UsageError(KnowingError):
    """What was asked makes no sense as it was asked."""

    code = "usage"
    exit_code = 2


class NotFoundError(KnowingError):
    """A repository, snapshot or symbol that is not here."""

    code = "not-found"
    exit_code = 4


class StoreError(KnowingError):
    """A database that cannot be used; the message names the file, the hint the way out."""

    code = "store"


class BusyError(KnowingError):
    """Somebody else is writing, and went on for longer than we waited."""

    code = "busy"


class PeerError(KnowingError):
    """A peer that cannot be reached, refuses, or sends what cannot be believed."""

    code = "peer"
    exit_code = 5
    retry_after = ""
