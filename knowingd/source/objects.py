"""Reads git objects by their ids, in order, and checks that each has the content that its id promises.

Git itself does not hash what it reads from a pack. Checking here costs little and makes a commit mean the same files
whatever was done to the object directory. One process answers one request, however many objects it names.
"""

from __future__ import annotations

import hashlib
import os
import select
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import IO, Final, NamedTuple

from knowingd.source.errors import SourceError, printable
from knowingd.source.gitrun import end, start_reader

FORMATS: Final = {"sha1": 40, "sha256": 64}
"""The object formats of git and the length of their ids in hex."""

STALLED_SECONDS: Final = 120
"""How long git may take over one object."""

_HINT: Final = "`git fsck` shows the damage; fetch the object again, or clone anew"


class Object(NamedTuple):
    """A git object."""

    id: str
    kind: str
    content: bytes


def object_id(kind: str, content: bytes, object_format: str) -> str:
    """The id that git gives to a content."""
    return _hasher(object_format)(b"%s %d\0" % (kind.encode(), len(content)) + content).hexdigest()


def read_objects(
    names: Sequence[str], environment: Mapping[str, str], object_format: str
) -> Generator[Object, None, None]:
    """The objects of these names (ids, or whatever git resolves), in this order, one in memory at a time."""
    if not names:
        return
    requests = "".join(f"{name}\n" for name in names).encode()
    with tempfile.TemporaryFile() as errors:
        process = start_reader(("cat-file", "--batch", "--buffer"), requests, errors, environment)
        assert process.stdout is not None
        try:
            hasher = _hasher(object_format)
            stream = _Stream(process.stdout.fileno())
            for name in names:
                yield _read_one(stream, name, hasher, errors)
        finally:
            process.stdout.close()
            end(process)


class _Stream:
    """What comes out of a pipe, a line or a count of bytes at a time, without waiting for ever."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)
        self._chunk = b""
        self._at = 0

    def line(self) -> bytes:
        """Up to and without the next newline; shorter than it should be at the end."""
        pieces = []
        while (end := self._chunk.find(b"\n", self._at)) < 0:
            pieces.append(self._chunk[self._at :])
            if not self._filled():
                return b"".join(pieces)
        pieces.append(self._chunk[self._at : end])
        self._at = end + 1
        return b"".join(pieces)

    def exactly(self, size: int) -> bytes:
        """So many bytes; fewer at the end."""
        if len(self._chunk) - self._at >= size:
            self._at += size
            return self._chunk[self._at - size : self._at]
        pieces = []
        missing = size
        while missing:
            piece = self._chunk[self._at : self._at + missing]
            pieces.append(piece)
            missing -= len(piece)
            self._at += len(piece)
            if missing and not self._filled():
                break
        return b"".join(pieces)

    def _filled(self) -> bool:
        # A file in the object directory may be a pipe that nobody writes to; git would wait on it for ever.
        if not self._poll.poll(STALLED_SECONDS * 1000):
            raise TimeoutError
        self._chunk = os.read(self._descriptor, 1 << 20)
        self._at = 0
        return bool(self._chunk)


def _read_one(stream: _Stream, name: str, hasher: Callable[[bytes], hashlib._Hash], errors: IO[bytes]) -> Object:
    try:
        identity, _, rest = stream.line().rpartition(b" ")
        if not rest.isdigit():
            raise _unreadable(name, rest.decode(errors="replace"), errors)
        size = int(rest)
        content = stream.exactly(size)
        if stream.exactly(1) != b"\n":
            raise _unreadable(name, "", errors)
    except TimeoutError:
        raise _unreadable(name, "git does not come back from reading it", errors) from None
    digest, _, kind = identity.partition(b" ")
    # Two updates instead of one concatenation: a copy of every file is saved.
    hashed = hasher(kind + b" " + rest + b"\0")
    hashed.update(content)
    if hashed.hexdigest().encode() != digest:
        raise SourceError(
            f"the object {digest.decode(errors='replace')} is damaged: its content has another hash",
            code="corrupt-object",
            hint=_HINT,
        )
    return Object(digest.decode(), kind.decode(), content)


def _unreadable(name: str, word: str, errors: IO[bytes]) -> SourceError:
    shown = printable(name, 120)
    if word == "missing":
        return SourceError(
            f"the object {shown} is not in the repository",
            code="missing-object",
            hint="a partial clone lacks files; run `git fetch --refetch` without a filter, or clone anew",
        )
    errors.seek(0)
    said = printable(errors.read(2000)) or word
    return SourceError(
        f"the object {shown} cannot be read" + (f": {said}" if said else ""), code="corrupt-object", hint=_HINT
    )


def _hasher(object_format: str) -> Callable[[bytes], hashlib._Hash]:
    if object_format == "sha256":
        return hashlib.sha256
    # Not for security: it is how git names objects, and the constructor is faster than `hashlib.new`.
    return lambda start: hashlib.sha1(start, usedforsecurity=False)
