r"""File paths as text: git's are bytes, the graph's are UTF-8 of at most 4096 bytes.

The rule, the same everywhere and without exceptions. A path that is UTF-8, has no backslash and nothing invisible in
it is written as it is. Otherwise each of these bytes is written `\xHH` in upper case: bytes that are not UTF-8,
backslashes, control characters (newlines too), line separators and bidirectional marks, the dots of a segment that is
`.` or `..`, and a slash that would make a segment empty. So no text leads out of the tree, two paths never share a
text, and `path_bytes` gives the path back. A text that would be longer than the limit is cut and ends in `\~` and the
SHA-256 of the path: still unique, but no longer readable; files of such names are listed, never extracted.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

MAXIMUM_BYTES: Final = 4096

_CUT_MARK: Final = "\\~"
# Segments of visible ASCII without a backslash, none of them empty or made of one or two dots: nearly every path.
_PLAIN: Final = re.compile(rb"(?:(?!\.{1,2}(?:/|\Z))[ -.0-\[\]-~]+(?:/(?=[^/])|\Z))+")
_ODD_SEGMENT: Final = re.compile(rb"(?:\A|/)(?:\.{1,2})?(?:/|\Z)")
_EMPTY_BEFORE: Final = re.compile(r"(?:\A|(?<=/))/|/\Z")
_DOTS: Final = re.compile(r"(?:\A|(?<=/))\.{1,2}(?=/|\Z)")
_SPECIAL: Final = re.compile(
    "[\\\\\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]", re.ASCII
)
_ESCAPE: Final = re.compile(rb"\\x([0-9A-F]{2})")


def path_text(raw: bytes) -> str:
    """The text of a path, by the rule above."""
    if len(raw) <= MAXIMUM_BYTES and _PLAIN.fullmatch(raw):
        return raw.decode("ascii")
    text = _SPECIAL.sub(_escaped, raw.decode("utf-8", "surrogateescape"))
    if _ODD_SEGMENT.search(raw):
        text = _DOTS.sub(_escaped, text)
        # After the dots, which look at the slashes around them.
        text = _EMPTY_BEFORE.sub(r"\\x2F", text)
    return text if len(text.encode()) <= MAXIMUM_BYTES else _cut(text, raw)


def path_bytes(text: str) -> bytes:
    """The path that a text stands for; a text that was cut has none (ValueError)."""
    if _CUT_MARK in text:
        raise ValueError("the path was too long to be kept")
    return _ESCAPE.sub(lambda match: bytes.fromhex(match[1].decode()), text.encode())


def was_cut(text: str) -> bool:
    """Whether a text stands for a path that was too long."""
    return _CUT_MARK in text


def _escaped(match: re.Match[str]) -> str:
    return "".join(f"\\x{byte:02X}" for byte in match[0].encode("utf-8", "surrogateescape"))


def _cut(text: str, raw: bytes) -> str:
    end = _CUT_MARK + hashlib.sha256(raw).hexdigest()
    return text.encode()[: MAXIMUM_BYTES - len(end)].decode(errors="ignore") + end
