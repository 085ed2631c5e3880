"""A dirty work tree as a source, for local questions: the same interface, on top of HEAD.

Files that are as the index has them are read as blobs, so that line endings and smudge filters change nothing; changed
and untracked ones are read from disk, ignored ones are left out, deleted ones are gone. Git is asked only what the
index holds and which files are untracked: comparing is done here, because git would run the repository's clean
filters.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, Self

from knowing_protocol.vocabulary import Coverage

from knowingd.errors import UsageError
from knowingd.source.classify import MAXIMUM_FILE_BYTES
from knowingd.source.disk import Beneath
from knowingd.source.errors import SourceError, printable
from knowingd.source.gitsource import TreeFile, classified, make_entries, resolve, tree_files, tree_of
from knowingd.source.gitview import Found, GitView
from knowingd.source.ignore import KNOWING_IGNORE
from knowingd.source.ignore import MAXIMUM_BYTES as MAXIMUM_IGNORE_BYTES
from knowingd.source.interface import Entry
from knowingd.source.objects import object_id, read_objects
from knowingd.source.paths import path_bytes, path_text

_REGULAR: Final = b"100644"
_SYMLINK: Final = b"120000"
_SUBMODULE: Final = b"160000"
_SKIPPED: Final = 1 << 30  # git's flag for what a sparse checkout leaves out
_INTENDED: Final = 1 << 29  # git's flag for `git add --intent-to-add`
_INDEX_LINE: Final = re.compile(
    rb"(\d{6}) ([0-9a-f]{40,64}) (\d)\t([^\0]+)\0"
    rb"\s+ctime: (\d+):(\d+)\s+mtime: (\d+):(\d+)\s+dev: \d+\s+ino: (\d+)\s+uid: \d+\s+gid: \d+"
    rb"\s+size: (\d+)\s+flags: ([0-9a-f]+)\n"
)


class _Indexed(NamedTuple):
    path: bytes
    mode: bytes
    id: str
    is_merged: bool
    flags: int
    status: tuple[int, int, int, int]  # modification and change in nanoseconds, inode, size


class WorkingView:
    """The work tree of a repository as it is when it is first listed; `commit` is the HEAD beneath it.

    `unsettled` are the files that changed or vanished between being listed and being read: somebody is at work.
    """

    def __init__(self, found: Found, notes: tuple[str, ...] = ()) -> None:
        if found.work_tree is None:
            raise UsageError(f"{printable(str(found.root))} is bare, so it has no working view")
        self.root: Path = found.work_tree
        self.notes = notes
        self._view = GitView(found)
        self._disk: set[str] = set()  # the paths that are read from disk
        self._known: list[Entry] | None = None
        self.unsettled: set[str] = set()
        try:
            commit = resolve(self._view, None)
            self.commit, self._tree = commit.id, tree_of(commit)
            self.branch = self._view.branch
            self._beneath = Beneath(self.root)
        except BaseException:
            self._view.close()
            raise

    def entries(self) -> list[Entry]:
        """Everything in the work tree that is tracked, or untracked and not ignored, sorted by path."""
        if self._known is None:
            self._known = self._list()
        return list(self._known)

    def _list(self) -> list[Entry]:
        sizes = {file.id: file.size for file in tree_files(self._view, self._tree, check=False)}
        files: list[TreeFile] = []
        failed: set[str] = set()
        ignore_files: dict[bytes, bytes] = {}
        limit = self._index_time()
        for item in self._index():
            if item.mode == _SUBMODULE:
                files.append(TreeFile(item.path, item.mode, item.id, 0))
            elif item.flags & _SKIPPED:
                files.append(TreeFile(item.path, item.mode, item.id, sizes.get(item.id, item.status[3])))
            else:
                files += self._from_disk(item.path, item, limit, sizes, failed)
        for path in self._untracked():
            if path.endswith(b"/"):  # another repository
                files.append(TreeFile(path.rstrip(b"/"), _SUBMODULE, "", 0))
            else:
                files += self._from_disk(path, None, limit, sizes, failed)
        for file in files:
            if file.path.endswith(KNOWING_IGNORE) and path_text(file.path) in self._disk:
                content = self._beneath.read(file.path, MAXIMUM_IGNORE_BYTES + 1)
                ignore_files[file.path] = bytes(MAXIMUM_IGNORE_BYTES + 1) if content is None else content
        entries = make_entries(files, self._view, ignore_files)
        return [
            entry._replace(reason=Coverage.FAILED) if entry.path in failed and entry.reason is None else entry
            for entry in entries
        ]

    def read(self, entries: Iterable[Entry]) -> Iterator[tuple[Entry, bytes]]:
        """The content of entries, in their order; see `Source`."""
        asked = list(entries)
        wanted = [entry.content_id for entry in asked if entry.reason is None and entry.path not in self._disk]
        blobs = read_objects(wanted, self._view.environment, self._view.object_format)
        try:
            for entry in asked:
                if entry.reason is not None:
                    yield entry, b""
                elif entry.path not in self._disk:
                    yield classified(entry, next(blobs).content)
                else:
                    content = self._beneath.read(path_bytes(entry.path), MAXIMUM_FILE_BYTES)
                    if content is None or self._blob_id(content) != entry.content_id:
                        self.unsettled.add(entry.path)
                        yield entry._replace(reason=Coverage.FAILED), b""
                    else:
                        yield classified(entry, content)
        finally:
            blobs.close()

    def close(self) -> None:
        """Close the descriptors and remove the view of the repository."""
        self._beneath.close()
        self._view.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _blob_id(self, content: bytes) -> str:
        return object_id("blob", content, self._view.object_format)

    def _index_time(self) -> int:
        try:
            return (self._view.found.git_directory / "index").stat().st_mtime_ns
        except OSError:
            return 0

    def _listed(self, *options: str) -> bytes:
        extra = {
            "GIT_INDEX_FILE": str(self._view.found.git_directory / "index"),
            "GIT_WORK_TREE": str(self.root),
        }
        return self._view.run("ls-files", "-z", *options, directory=self.root, extra=extra)

    def _index(self) -> Iterator[_Indexed]:
        """What the index holds; of a path with conflicts one line."""
        listing = self._listed("--cached", "--stage", "--debug")
        lines = _INDEX_LINE.findall(listing)
        if len(lines) != listing.count(b"\0"):
            raise SourceError(
                "this version of git describes its index in a way that is not known here",
                code="git-failed",
                hint="commit, and index the commit instead",
            )
        previous = b""
        for mode, identity, stage, path, ctime, ctime_ns, mtime, mtime_ns, inode, size, flags in lines:
            if path == previous:
                continue
            previous = path
            status = (
                int(mtime) * 10**9 + int(mtime_ns),
                int(ctime) * 10**9 + int(ctime_ns),
                int(inode),
                int(size),
            )
            yield _Indexed(path, mode, identity.decode(), stage == b"0", int(flags, 16), status)

    def _untracked(self) -> list[bytes]:
        options = ["--others", "--exclude-per-directory=.gitignore"]
        exclude = self._view.found.common_directory / "info" / "exclude"
        if exclude.is_file():
            options.append(f"--exclude-from={exclude}")
        return self._listed(*options).split(b"\0")[:-1]

    def _from_disk(
        self, path: bytes, item: _Indexed | None, limit: int, sizes: dict[str, int], failed: set[str]
    ) -> list[TreeFile]:
        """The line of a file as it is on disk; none if it was deleted, or is neither a file nor a link."""
        try:
            status = self._beneath.status(path)
        except OSError:
            return []
        if stat.S_ISLNK(status.st_mode):
            return [TreeFile(path, _SYMLINK, self._link_id(path), status.st_size)]
        if not stat.S_ISREG(status.st_mode):
            return []
        if item is not None and _is_unchanged(item, status, limit):
            return [TreeFile(path, _REGULAR, item.id, sizes.get(item.id, status.st_size))]
        text = path_text(path)
        if status.st_size > MAXIMUM_FILE_BYTES:
            self._disk.add(text)
            return [TreeFile(path, _REGULAR, "", status.st_size)]
        content = self._beneath.read(path, MAXIMUM_FILE_BYTES)
        if content is None:
            failed.add(text)
            return [TreeFile(path, _REGULAR, "", status.st_size)]
        identity = self._blob_id(content)
        if item is None or identity != item.id:
            self._disk.add(text)
        return [TreeFile(path, _REGULAR, identity, len(content))]

    def _link_id(self, path: bytes) -> str:
        directory, _, name = path.rpartition(b"/")
        try:
            return self._blob_id(os.readlink(name, dir_fd=self._beneath.directory(directory)))
        except OSError:
            return ""


def _is_unchanged(item: _Indexed, status: os.stat_result, limit: int) -> bool:
    """Whether the index vouches for a file: same times, inode and size, and not written as late as the index itself."""
    modified, changed, inode, size = item.status
    return (
        item.is_merged
        and item.mode not in (_SYMLINK, _SUBMODULE)
        and not item.flags & _INTENDED
        and modified < limit
        and (status.st_mtime_ns, status.st_ctime_ns) == (modified, changed)
        and (status.st_ino & 0xFFFFFFFF, status.st_size & 0xFFFFFFFF) == (inode, size)
    )
