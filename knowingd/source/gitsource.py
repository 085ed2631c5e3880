"""The tree of a commit, read from the object database alone: what signed snapshots are made of.

The work tree, the index and every configuration are out of the picture: no filters, no line endings, no smudging.
Commit, trees and files are checked against their ids, so that what is listed and read is what the commit says.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, Self

from knowing_protocol.vocabulary import Coverage

from knowingd.errors import NotFoundError, UsageError
from knowingd.source.classify import classify, classify_path
from knowingd.source.errors import SourceError, printable
from knowingd.source.gitview import Found, GitView
from knowingd.source.ignore import KNOWING_IGNORE, IgnoreFile, IgnoreRules
from knowingd.source.ignore import MAXIMUM_BYTES as MAXIMUM_IGNORE_BYTES
from knowingd.source.interface import Entry
from knowingd.source.objects import Object, read_objects
from knowingd.source.paths import path_text

_SYMLINK: Final = b"120000"
_SUBMODULE: Final = b"160000"
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_LINE: Final = re.compile(rb"(\d+) (\w+) ([0-9a-f]+) +(-|\w+)\t([^\0]+)\0")
_TREE_LINE: Final = re.compile(rb"tree ([0-9a-f]{40}(?:[0-9a-f]{24})?)\n")


class TreeFile(NamedTuple):
    """A line of a tree: everything but directories."""

    path: bytes
    mode: bytes
    id: str
    size: int


class GitSource:
    """A commit of a repository. `notes` are passed on to the user."""

    def __init__(self, found: Found, ref: str | None = None, notes: tuple[str, ...] = ()) -> None:
        self._view = GitView(found)
        self.notes = notes
        try:
            commit = resolve(self._view, ref)
            self.commit = commit.id
            self._tree = tree_of(commit)
            self.branch = self._view.branch if ref is None else _branch_of(self._view, ref)
        except BaseException:
            self._view.close()
            raise

    @property
    def found(self) -> Found:
        """The repository that the commit is of."""
        return self._view.found

    @property
    def root(self) -> Path:
        """The directory of the repository."""
        return self._view.found.root

    def entries(self) -> list[Entry]:
        """Everything in the commit's tree, sorted by path."""
        return make_entries(tree_files(self._view, self._tree), self._view)

    def read(self, entries: Iterable[Entry]) -> Iterator[tuple[Entry, bytes]]:
        """The content of entries, in their order; see `Source`."""
        return read_blobs(list(entries), self._view)

    def close(self) -> None:
        """Remove the view of the repository."""
        self._view.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def tree_files(view: GitView, tree: str, *, check: bool = True) -> list[TreeFile]:
    """The files of a tree; `check` holds each directory's object against its id."""
    listing = view.run("ls-tree", "-r", "-t", "-z", "--long", "--full-tree", tree)
    files: list[TreeFile] = []
    trees = {tree}
    lines = _LINE.findall(listing)
    if len(lines) != listing.count(b"\0"):
        raise SourceError("git lists a tree in a way that is not known here", code="git-failed")
    for mode, kind, identity, size, path in lines:
        if kind == b"tree":
            trees.add(identity.decode())
        elif kind == b"commit":
            files.append(TreeFile(path, mode, identity.decode(), 0))
        elif not size.isdigit():
            raise SourceError(
                f"the object {identity.decode()} of {printable(path_text(path))} is not in the repository",
                code="missing-object",
                hint="a partial clone lacks files; run `git fetch --refetch` without a filter, or clone anew",
            )
        else:
            files.append(TreeFile(path, mode, identity.decode(), int(size)))
    for _ in read_objects(sorted(trees) if check else (), view.environment, view.object_format):
        pass
    return files


def make_entries(files: Iterable[TreeFile], view: GitView, from_disk: dict[bytes, bytes] | None = None) -> list[Entry]:
    """Entries with the reasons that paths, sizes and the tree's own ignore files give.

    `from_disk` has the content of ignore files that are not objects. Of two lines with one path, which only a damaged
    tree has, the one with the smaller id counts.
    """
    files = list(files)
    rules = IgnoreRules(_ignore_files(files, view, from_disk or {}))
    found: dict[str, Entry] = {}
    for file in files:
        path = path_text(file.path)
        entry = Entry(path, file.id, file.size, _reason(file, path, rules.decides(file.path)))
        other = found.setdefault(path, entry)
        if other is not entry:
            found[path] = min(entry, other, key=lambda one: (one.content_id, one.reason or ""))
    return [found[path] for path in sorted(found)]


def _reason(file: TreeFile, path: str, ignored: bool | None) -> Coverage | None:
    if file.mode == _SUBMODULE:
        return Coverage.SUBMODULE
    if file.mode == _SYMLINK:
        return Coverage.SYMLINK
    return classify_path(path, file.size, ignored)


def read_blobs(entries: list[Entry], view: GitView) -> Iterator[tuple[Entry, bytes]]:
    """The content of entries whose ids are objects, in their order."""
    wanted = [entry.content_id for entry in entries if entry.reason is None]
    blobs = read_objects(wanted, view.environment, view.object_format)
    try:
        for entry in entries:
            if entry.reason is not None:
                yield entry, b""
                continue
            content = next(blobs).content
            yield classified(entry, content)
    finally:
        blobs.close()


def classified(entry: Entry, content: bytes) -> tuple[Entry, bytes]:
    """An entry with the reason that its content gives."""
    reason = classify(entry.path, content, len(content))
    return (entry if reason is None else entry._replace(reason=reason)), content


def _ignore_files(files: list[TreeFile], view: GitView, from_disk: dict[bytes, bytes]) -> dict[bytes, IgnoreFile]:
    rules: dict[bytes, IgnoreFile] = {}
    named = [
        file
        for file in files
        if file.path.endswith(KNOWING_IGNORE)
        and file.path.rpartition(b"/")[2] == KNOWING_IGNORE
        and file.mode not in (_SYMLINK, _SUBMODULE)
    ]
    objects = [file for file in named if file.path not in from_disk and file.size <= MAXIMUM_IGNORE_BYTES]
    contents = dict(from_disk)
    blobs = read_objects([file.id for file in objects], view.environment, view.object_format)
    for file, blob in zip(objects, blobs, strict=True):
        contents[file.path] = blob.content
    for file in named:
        # One that is too large is not read, and refused there by its size.
        content = contents.get(file.path, bytes(MAXIMUM_IGNORE_BYTES + 1))
        rules[file.path.rpartition(b"/")[0]] = IgnoreFile(content, path_text(file.path))
    return rules


def resolve(view: GitView, ref: str | None) -> Object:
    """The commit that a ref, tag or id leads to, HEAD for None; a clear refusal where there is none."""
    name = "HEAD" if ref is None else ref
    if not name or name.startswith("-") or "@{" in name or _CONTROL.search(name) or len(name) > 1000:
        # What `@{…}` means depends on configuration and on the history of this clone.
        raise UsageError(f"{printable(name)!r} is not the name of a ref or commit")
    try:
        (commit,) = read_objects([f"{name}^{{commit}}"], view.environment, view.object_format)
    except SourceError as error:
        if error.code != "missing-object":
            raise
    else:
        if commit.kind == "commit":
            return commit
    place = printable(str(view.found.root))
    if ref is None:
        if view.branch and not _has_commits(view):
            raise SourceError(
                f"the repository {place} has no commits yet", code="empty-repository", hint="commit something first"
            )
        raise SourceError(
            f"HEAD of {place} leads to no commit",
            code="broken-head",
            hint="check out a branch, or name a ref with --ref",
        )
    raise NotFoundError(
        f"{place} has no branch, tag or commit {printable(ref)!r}", hint="`git branch -a` and `git tag` list them"
    )


def holds_files(found: Found, directory: bytes) -> bool:
    """Whether HEAD has anything in a directory; no commit has nothing."""
    view = GitView(found)
    try:
        tree = tree_of(resolve(view, None))
        return bool(view.run("ls-tree", "-z", "--full-tree", tree, "--", os.fsdecode(directory)))
    except SourceError as error:
        if error.code == "empty-repository":
            return False
        raise
    finally:
        view.close()


def _has_commits(view: GitView) -> bool:
    return bool(view.run("for-each-ref", "--count=1", "--format=x"))


def tree_of(commit: Object) -> str:
    """The id of a commit's tree."""
    match = _TREE_LINE.match(commit.content)
    if match is None:
        raise SourceError(f"the object {commit.id} is damaged: a commit without a tree", code="corrupt-object")
    return match[1].decode()


def _branch_of(view: GitView, ref: str) -> str:
    full = view.run("rev-parse", "--symbolic-full-name", ref).decode(errors="replace").strip()
    return full.removeprefix("refs/heads/") if full.startswith("refs/heads/") else ""
