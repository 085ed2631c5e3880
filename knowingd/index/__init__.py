"""Indexing: from a source to the records of a snapshot, reading only what changed."""

from __future__ import annotations

from collections.abc import Callable

Report = Callable[[str, int, int], None]
"""Hears of progress: the stage, how much is done, and of how much (0 where nobody knows)."""


def silent(_stage: str, _done: int, _of: int) -> None:
    """Nobody listens."""
