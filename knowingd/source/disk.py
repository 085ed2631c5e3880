"""Reads files beneath a directory without ever leaving it: no symbolic link on the way is followed.

Every segment is opened relative to the directory before it, so that a directory that is replaced by a link in between
does not lead out. Only regular files are opened, and without waiting, so that no pipe or device can hold us.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final, Self

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_KEPT_DEPTH: Final = 32
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class Beneath:
    """A directory and what is beneath it; the paths are bytes with slashes, relative to it."""

    def __init__(self, root: Path) -> None:
        self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        # The way to the directory used last stays open: neighbours are asked for in turn.
        self._near = b""
        self._way: list[tuple[bytes, int]] = []
        self._end: int | None = None  # a directory deeper than the way that is kept

    def directory(self, path: bytes) -> int:
        """A descriptor of a directory, valid until the next call; OSError if it is none, or behind a link."""
        if path != self._near or not path:
            segments = path.split(b"/") if path else []
            shared = 0
            for (name, _), segment in zip(self._way, segments, strict=False):
                if name != segment:
                    break
                shared += 1
            self._forget(shared)
            for segment in segments[shared:_KEPT_DEPTH]:
                self._way.append((segment, os.open(segment, _DIRECTORY, dir_fd=self._last())))
            for segment in segments[_KEPT_DEPTH:]:
                deeper = os.open(segment, _DIRECTORY, dir_fd=self._last())
                self._close_end()
                self._end = deeper
            self._near = path
        return self._last()

    def _last(self) -> int:
        if self._end is not None:
            return self._end
        return self._way[-1][1] if self._way else self._root

    def _close_end(self) -> None:
        if self._end is not None:
            os.close(self._end)
        self._end = None

    def _forget(self, kept: int) -> None:
        self._near = b""  # also where opening fails halfway
        self._close_end()
        while len(self._way) > kept:
            os.close(self._way.pop()[1])

    def status(self, path: bytes) -> os.stat_result:
        """What `lstat` says; OSError if it is not there, or behind a link."""
        directory, _, name = path.rpartition(b"/")
        return os.stat(name, dir_fd=self.directory(directory), follow_symlinks=False)

    def read(self, path: bytes, limit: int) -> bytes | None:
        """The content of a regular file of at most `limit` bytes; None if it is not one, or cannot be read now."""
        directory, _, name = path.rpartition(b"/")
        try:
            parent = self.directory(directory)
            if not stat.S_ISREG(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                return None
            descriptor = os.open(name, _FILE, dir_fd=parent)
        except OSError:
            return None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
                return None
            content = _read_up_to(descriptor, limit + 1, status.st_size)
        except OSError:
            return None
        finally:
            os.close(descriptor)
        return content if len(content) <= limit else None

    def close(self) -> None:
        """Close the descriptors."""
        self._forget(0)
        if self._root >= 0:
            os.close(self._root)
        self._root = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _read_up_to(descriptor: int, limit: int, expected: int) -> bytes:
    """At most `limit` bytes; one call where the file has the size it said."""
    content = os.read(descriptor, min(limit, expected + 1))
    while len(content) < limit and (more := os.read(descriptor, min(limit - len(content), 1 << 20))):
        content += more
    return content
