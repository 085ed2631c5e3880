"""Frozen tables are written as words."""

from __future__ import annotations


def words(text: str) -> tuple[str, ...]:
    """The words of a text, in their order."""
    return tuple(text.split())
