"""Errors of sources: what cannot be read, and what cannot be fetched."""

from __future__ import annotations

import re
from typing import Final

from knowingd.errors import KnowingError

_USER_INFO: Final = re.compile(r"(?<=://)[^/@\s]*@")
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]+")


class SourceError(KnowingError):
    """A repository or directory that cannot be read as it stands."""

    code = "source"


class FetchError(KnowingError):
    """A remote repository that could not be mirrored."""

    code = "fetch"
    exit_code = 5


def printable(text: bytes | str, limit: int = 300) -> str:
    """A foreign text on one line, without control characters and without the user info of URLs."""
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    text = _UNPRINTABLE.sub(" ", _USER_INFO.sub("", text)).strip()
    return text if len(text) <= limit else text[:limit] + "…"
