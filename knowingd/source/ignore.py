"""Ignore files: the language of `.gitignore`, over the bytes of paths.

Promises: what git decides with the same files and no other configuration, always with case, on every machine. Matching
takes time proportional to pattern times path whatever the pattern: each wildcard but the last commits to its first
match, which loses nothing because what follows it can always reach as far. Must never: read a file, or know a user's
own ignore files.

A pattern that git would never match (an unclosed bracket, a backslash at its end) matches nothing here either.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from knowingd.source.errors import SourceError, printable

KNOWING_IGNORE: Final = b".knowingignore"
GIT_IGNORE: Final = b".gitignore"
MAXIMUM_BYTES: Final = 256 << 10
MAXIMUM_PATTERNS: Final = 2000

_POSIX_CLASSES: Final = {
    b"alnum": rb"[0-9A-Za-z]",
    b"alpha": rb"[A-Za-z]",
    b"blank": rb"[ \t]",
    b"cntrl": rb"[\x00-\x1f\x7f]",
    b"digit": rb"[0-9]",
    b"graph": rb"[!-~]",
    b"lower": rb"[a-z]",
    b"print": rb"[ -~]",
    b"punct": rb"[!-/:-@\[-`{-~]",
    b"space": rb"[ \t-\r]",
    b"upper": rb"[A-Z]",
    b"xdigit": rb"[0-9A-Fa-f]",
}
_EVERY_BYTE: Final = tuple(bytes((value,)) for value in range(256))
_SLASH: Final = ord("/")


@dataclass(frozen=True, slots=True)
class _Pattern:
    regex: re.Pattern[bytes]
    ignores: bool  # False for `!`
    directories_only: bool
    by_name: bool  # against the last segment alone


class IgnoreFile:
    """The patterns of one ignore file; paths are relative to its directory."""

    def __init__(self, content: bytes, name: str) -> None:
        if len(content) > MAXIMUM_BYTES:
            raise _excessive(name, f"{MAXIMUM_BYTES >> 10} KiB")
        patterns = [_parsed(line) for line in _lines(content)]
        self._patterns = [pattern for pattern in patterns if pattern is not None]
        self._patterns.reverse()  # the last one that matches decides
        if len(self._patterns) > MAXIMUM_PATTERNS:
            raise _excessive(name, f"{MAXIMUM_PATTERNS} patterns")

    def decides(self, path: bytes, *, is_directory: bool) -> bool | None:
        """Whether a path is ignored (True), kept by a `!` (False), or not spoken of."""
        name = path.rpartition(b"/")[2]
        for pattern in self._patterns:
            if pattern.directories_only and not is_directory:
                continue
            if pattern.regex.fullmatch(name if pattern.by_name else path):
                return pattern.ignores
        return None


class IgnoreRules:
    """The ignore files of one kind in a tree, each with the directory it stands in."""

    def __init__(self, files: Mapping[bytes, IgnoreFile]) -> None:
        """`files` maps directories (empty for the root, no slash at the end) to what stands in them."""
        self._files = dict(files)
        self._directories: dict[bytes, bool | None] = {b"": None}

    def add(self, directory: bytes, file: IgnoreFile) -> None:
        """Add what a directory holds, before asking about anything in it."""
        self._files[directory] = file

    def decides(self, path: bytes, *, is_directory: bool = False) -> bool | None:
        """Whether a path or a directory above it is ignored, kept by a `!`, or not spoken of.

        As in git, nothing in an ignored directory can be kept. What is in a directory that was kept counts as kept.
        """
        if not self._files:
            return None
        above = self._directory(path.rpartition(b"/")[0])
        if above is True:
            return True
        own = self._nearest(path, is_directory=is_directory)
        return above if own is None else own

    def _directory(self, directory: bytes) -> bool | None:
        if directory not in self._directories:
            parents = [directory]
            while (parent := parents[-1].rpartition(b"/")[0]) not in self._directories:
                parents.append(parent)
            for one in reversed(parents):
                above = self._directories[one.rpartition(b"/")[0]]
                own = None if above else self._nearest(one, is_directory=True)
                self._directories[one] = above if own is None else own
        return self._directories[directory]

    def _nearest(self, path: bytes, *, is_directory: bool) -> bool | None:
        directory = path
        while directory:
            directory = directory.rpartition(b"/")[0]
            file = self._files.get(directory)
            if file is not None:
                relative = path[len(directory) + 1 :] if directory else path
                decision = file.decides(relative, is_directory=is_directory)
                if decision is not None:
                    return decision
        return None


def _excessive(name: str, limit: str) -> SourceError:
    return SourceError(
        f"{printable(name)} has more than {limit}", code="ignore-file", hint="ignore whole directories instead of files"
    )


def _lines(content: bytes) -> list[bytes]:
    return [line.removesuffix(b"\r") for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n")]


def _parsed(line: bytes) -> _Pattern | None:
    if line.startswith(b"#"):
        return None
    glob = _without_trailing_spaces(line)
    ignores = not glob.startswith(b"!")
    if not ignores:
        glob = glob[1:]
    directories_only = glob.endswith(b"/")
    if directories_only:
        glob = glob[:-1]
    by_name = b"/" not in glob
    glob = glob.removeprefix(b"/")
    if not glob or b"\0" in glob:
        return None
    tokens = _tokens(glob, by_name=by_name)
    if tokens is None:
        return None
    return _Pattern(re.compile(_regex(tokens), re.DOTALL), ignores, directories_only, by_name)


def _without_trailing_spaces(line: bytes) -> bytes:
    stripped = line.rstrip(b" ")
    backslashes = len(stripped) - len(stripped.rstrip(b"\\"))
    # An odd number of backslashes escapes the first of the spaces.
    return stripped + b" " if backslashes % 2 and len(stripped) < len(line) else stripped


_STAR: Final = b"*"  # anything within a segment
_ANY: Final = b"**"  # anything
_ANY_DIRECTORIES: Final = b"**/"  # nothing, or anything up to a slash
_WILD: Final = (_STAR, _ANY, _ANY_DIRECTORIES)


def _tokens(glob: bytes, *, by_name: bool) -> list[bytes] | None:
    """The glob as wildcards and regular expressions of one byte each; None where nothing can match."""
    tokens: list[bytes] = []
    at = 0
    only_literals = True  # git compares what is literal first, so a wildcard after it stands at a start
    while at < len(glob):
        byte = glob[at : at + 1]
        if byte == b"*":
            end = at + 1
            while glob[end : end + 1] == b"*":
                end += 1
            starts = only_literals or glob[at - 1 : at] == b"/"
            rest = glob[end:]
            spans = end - at > 1 and not by_name and starts and (not rest or rest.startswith((b"/", b"\\/")))
            if spans and rest.startswith(b"/"):
                tokens.append(_ANY_DIRECTORIES)
                end += 1
            else:
                tokens.append(_ANY if spans else _STAR)
            at = end
            only_literals = False
            continue
        if byte == b"?":
            tokens.append(b"[^/]")
            only_literals = False
        elif byte == b"[":
            bracket = _bracket(glob, at + 1)
            if bracket is None:
                return None
            members, at = bracket
            tokens.append(_class_of(members))
            only_literals = False
            continue
        elif byte == b"\\":
            at += 1
            if at == len(glob):
                return None
            tokens.append(re.escape(glob[at : at + 1]))
            only_literals = False
        else:
            tokens.append(re.escape(byte))
        at += 1
    return tokens


def _bracket(glob: bytes, at: int) -> tuple[set[int], int] | None:
    """The bytes that a bracket expression matches and where it ends; None if it does not close."""
    negated = glob[at : at + 1] in (b"!", b"^")
    at += negated
    members: set[int] = set()
    previous: int | None = None
    first = True
    while first or glob[at : at + 1] != b"]":
        first = False
        if at >= len(glob):
            return None
        byte = glob[at]
        if byte == ord("-") and previous is not None and glob[at + 1 : at + 2] not in (b"", b"]"):
            at += 1
            if glob[at : at + 1] == b"\\":
                at += 1
            if at >= len(glob):
                return None
            members.update(range(previous, glob[at] + 1))
            previous = None
        elif glob.startswith(b"[:", at) and (close := glob.find(b"]", at + 2)) != at + 2:
            if close < 0:
                return None
            if glob[close - 1 : close] == b":":
                named = _POSIX_CLASSES.get(glob[at + 2 : close - 1])
                if named is None:
                    return None
                members.update(byte[0] for byte in _EVERY_BYTE if re.fullmatch(named, byte))
                previous = None
                at = close
            else:
                members.add(byte)
                previous = byte
        else:
            if byte == ord("\\"):
                at += 1
                if at >= len(glob):
                    return None
                byte = glob[at]
            members.add(byte)
            previous = byte
        at += 1
    if negated:
        members = set(range(256)) - members
    return members - {_SLASH}, at + 1


def _class_of(members: set[int]) -> bytes:
    if not members:
        return rb"(?!)"
    return b"[" + b"".join(b"\\x%02x" % member for member in sorted(members)) + b"]"


def _regex(tokens: list[bytes]) -> bytes:
    """A regular expression that never tries a wildcard's later matches where its first one serves as well."""
    parts: list[bytes] = []
    groups = _split(tokens, (_ANY, _ANY_DIRECTORIES))
    for number, (wildcard, group) in enumerate(groups):
        last = number == len(groups) - 1
        body = _group_regex(group, ends=last)
        if wildcard == _ANY_DIRECTORIES:
            body = rb"(?:.*?/)??" + body
        elif wildcard == _ANY:
            body = rb".*?" + body
        parts.append(body if last or wildcard is None else rb"(?>" + body + rb")")
    return b"".join(parts) + rb"\Z"


def _group_regex(tokens: list[bytes], *, ends: bool) -> bytes:
    """The part between two wildcards that span directories."""
    parts: list[bytes] = []
    chunks = _split(tokens, (_STAR,))
    for number, (wildcard, chunk) in enumerate(chunks):
        body = b"".join(chunk)
        if wildcard is None:
            parts.append(body)
        elif ends and number == len(chunks) - 1:
            parts.append(rb"[^/]*" + body)
        else:
            parts.append(rb"(?>[^/]*?" + body + rb")")
    return b"".join(parts)


def _split(tokens: list[bytes], separators: tuple[bytes, ...]) -> list[tuple[bytes | None, list[bytes]]]:
    """The tokens cut before each separator; each piece with its separator."""
    pieces: list[tuple[bytes | None, list[bytes]]] = [(None, [])]
    for token in tokens:
        if token in separators:
            pieces.append((token, []))
        else:
            pieces[-1][1].append(token)
    return pieces
