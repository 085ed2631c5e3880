"""The languages that are read, and the id of them all together."""

from __future__ import annotations

from functools import cache

from knowing_protocol.hashing import tagged

from knowingd.extract.interface import Language
from knowingd.extract.python.language import Python
from knowingd.source import RULES


@cache
def languages() -> tuple[Language, ...]:
    """All languages."""
    return (Python(),)


@cache
def language_of(path: str) -> Language | None:
    """The language that reads a path, if any does."""
    return next((language for language in languages() if language.handles(path)), None)


@cache
def extractor_id() -> bytes:
    """What a snapshot's records depend on besides the tree."""
    return tagged("extractors", RULES, *(language.extractor_id() for language in languages()))
