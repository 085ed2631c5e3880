"""A plain directory as a source: its content stands for a commit.

Listed are regular files, symbolic links (not followed), and, as one entry with a slash at its end, each directory that
is ignored or cannot be read. Pipes, sockets and devices are not files, and the records of version control are not
content: neither is listed. A directory with a `.git` in it is a repository of its own and listed as a submodule.
`.gitignore` and `.knowingignore` count in every directory; where both speak of a path, `.knowingignore` wins.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Self

from knowing_protocol.vocabulary import Coverage

from knowingd.errors import NotFoundError
from knowingd.source.classify import MAXIMUM_FILE_BYTES, classify, classify_path
from knowingd.source.disk import Beneath
from knowingd.source.errors import SourceError, printable
from knowingd.source.ignore import GIT_IGNORE, KNOWING_IGNORE, IgnoreFile, IgnoreRules
from knowingd.source.ignore import MAXIMUM_BYTES as MAXIMUM_IGNORE_BYTES
from knowingd.source.interface import Entry
from knowingd.source.paths import path_bytes, path_text

METADATA: Final = frozenset((b".git", b".hg", b".svn", b".bzr", b".jj", b".pijul", b"_darcs", b"CVS"))
"""Where version control keeps its records."""


class DirectorySource:
    """The files of a directory as they are when they are first listed."""

    branch = ""

    def __init__(self, root: Path, notes: tuple[str, ...] = ()) -> None:
        self.root = Path(os.path.realpath(root))
        self.notes = notes
        try:
            self._beneath = Beneath(self.root)
        except OSError as error:
            raise NotFoundError(
                f"the directory {printable(str(root))} cannot be opened: {error.strerror}", hint="check the path"
            ) from None
        self._listed: list[Entry] | None = None

    @property
    def commit(self) -> str:
        """A digest of every path with what is at it; what is not extracted counts by its reason alone."""
        digest = hashlib.sha256(b"knowing directory\0")
        for entry in self.entries():
            # No text in here holds a newline or NUL, so two different lists never give the same bytes.
            digest.update(f"{entry.path}\0{entry.content_id}\0{entry.reason or ''}\n".encode())
        return digest.hexdigest()

    def entries(self) -> list[Entry]:
        """Everything in the directory, sorted by path; the first call reads every file once."""
        if self._listed is None:
            self._listed = sorted(_Walk(self._beneath).entries(), key=lambda entry: entry.path)
        return list(self._listed)

    def read(self, entries: Iterable[Entry]) -> Iterator[tuple[Entry, bytes]]:
        """The content of entries, in their order; see `Source`."""
        for entry in entries:
            if entry.reason is not None:
                yield entry, b""
                continue
            content = self._beneath.read(path_bytes(entry.path), MAXIMUM_FILE_BYTES)
            if content is None or _content_id(content) != entry.content_id:
                yield entry._replace(reason=Coverage.FAILED), b""
            else:
                yield entry, content

    def close(self) -> None:
        """Close the descriptors."""
        self._beneath.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Walk:
    """One pass over a directory. What vanishes on the way is simply not there."""

    def __init__(self, beneath: Beneath) -> None:
        self._beneath = beneath
        self._git = IgnoreRules({})
        self._knowing = IgnoreRules({})

    def entries(self) -> Iterator[Entry]:
        waiting = [b""]
        while waiting:
            directory = waiting.pop()
            try:
                with os.scandir(self._beneath.directory(directory)) as found:
                    items = list(found)
            except FileNotFoundError:
                continue
            except OSError as error:
                if not directory:
                    raise SourceError(f"the directory cannot be read: {error.strerror}") from None
                yield Entry(path_text(directory) + "/", "", 0, Coverage.FAILED)
                continue
            names = {os.fsencode(item.name) for item in items}
            if directory and b".git" in names:
                yield Entry(path_text(directory), "", 0, Coverage.SUBMODULE)
                continue
            prefix = directory + b"/" if directory else b""
            self._add_rules(directory, prefix, names)
            for item in items:
                name = os.fsencode(item.name)
                if name in METADATA:
                    continue
                path = prefix + name
                if item.is_symlink():
                    yield from self._link(path)
                elif item.is_dir(follow_symlinks=False):
                    if self._ignored(path, is_directory=True):
                        yield Entry(path_text(path) + "/", "", 0, Coverage.IGNORED)
                    else:
                        waiting.append(path)
                elif item.is_file(follow_symlinks=False):
                    yield from self._file(path)

    def _add_rules(self, directory: bytes, prefix: bytes, names: set[bytes]) -> None:
        for name, rules in ((GIT_IGNORE, self._git), (KNOWING_IGNORE, self._knowing)):
            if name in names:
                content = self._beneath.read(prefix + name, MAXIMUM_IGNORE_BYTES + 1)
                if content is not None:
                    rules.add(directory, IgnoreFile(content, path_text(prefix + name)))

    def _ignored(self, path: bytes, *, is_directory: bool = False) -> bool | None:
        decision = self._knowing.decides(path, is_directory=is_directory)
        if decision is not None:
            return decision
        return self._git.decides(path, is_directory=is_directory) or None

    def _link(self, path: bytes) -> Iterator[Entry]:
        directory, _, name = path.rpartition(b"/")
        try:
            target = os.readlink(name, dir_fd=self._beneath.directory(directory))
        except OSError:
            return
        yield Entry(path_text(path), _content_id(target), len(target), Coverage.SYMLINK)

    def _file(self, raw: bytes) -> Iterator[Entry]:
        path = path_text(raw)
        try:
            size = self._beneath.status(raw).st_size
        except OSError:
            return
        reason = classify_path(path, size, self._ignored(raw))
        if reason is not None:
            yield Entry(path, "", size, reason)
            return
        content = self._beneath.read(raw, MAXIMUM_FILE_BYTES)
        if content is None:
            yield Entry(path, "", size, Coverage.FAILED)
        else:
            yield Entry(path, _content_id(content), len(content), classify(path, content, len(content)))


def _content_id(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
