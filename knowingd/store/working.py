"""Working views on disk: what they are called, what they say of themselves, and which one is still true.

A working view is a database beside a repository's: a copy of it that was brought up to date with uncommitted files. It
is derived and signed by nobody. Each copy has a name of its own that is never used again, so that whoever still reads
one that was removed never meets the journal of its successor. A view without its note, or whose note names another
base, is as good as none.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from knowingd.errors import StoreError
from knowingd.store.interface import GraphSession
from knowingd.store.repository import RepositoryStore
from knowingd.store.rows import SnapshotRow

_SUFFIX: Final = ".working.db"
_NAME: Final = re.compile(r"(.+)\.[0-9a-f]{16}\.working\.db")
_UNFINISHED: Final = ".unfinished"
_NOTE: Final = "working view"


class Base(NamedTuple):
    """The signed state that a view stands on."""

    commit: str
    source: str
    overlay: str
    extractor: str


class Working(NamedTuple):
    """What a view says of itself.

    `time` is when the work tree was looked at, `files` how many differ from the base, `snapshot` the hash that the
    snapshot of a commit of them would have.
    """

    base: Base
    snapshot: str
    time: int
    files: int
    nodes: int
    edges: int
    coverage: str

    def as_json(self) -> dict[str, Any]:
        """The view as answers show it."""
        names = ("snapshot", "time", "files", "nodes", "edges")
        return {name: getattr(self, name) for name in names}


def base_of(snapshot: SnapshotRow) -> Base:
    """What a view of a snapshot must name."""
    roots = (snapshot.source_root.hex(), snapshot.overlay_root.hex())
    return Base(snapshot.commit, *roots, snapshot.extractor.hex())


def put_working(session: GraphSession, about: Working) -> None:
    """Make a view valid: written in the transaction that makes it true."""
    session.put_note(_NOTE, json.dumps(about), about.time)


def working_of(session: GraphSession) -> Working | None:
    """What the database behind a session says of itself, if it is a view."""
    text = session.note(_NOTE)
    if text is None:
        return None
    try:
        base, *rest = json.loads(text)
        return Working(Base(*base), *rest)
    except (TypeError, ValueError):  # of another version
        return None


def is_working(name: str) -> bool:
    """Whether a file is a view, or a part of one."""
    return _SUFFIX in name


def new_path(database: Path) -> Path:
    """A place for a view of a repository's database that nothing was at before."""
    return database.with_name(f"{database.stem}.{secrets.token_hex(8)}{_SUFFIX}")


def listed(directory: Path) -> dict[str, list[Path]]:
    """The views of all repositories in a directory, by the names of their databases; one look at the directory."""
    found: dict[str, list[Path]] = {}
    try:
        names = sorted(path.name for path in directory.iterdir() if path.name.endswith(_SUFFIX))
    except OSError:
        return {}
    for name in names:
        match = _NAME.fullmatch(name)
        if match is not None:
            found.setdefault(f"{match[1]}.db", []).append(directory / name)
    return found


def views_of(database: Path) -> list[Path]:
    """The views of one repository."""
    return listed(database.parent).get(database.name, [])


def copy_of(base: RepositoryStore) -> Path:
    """A copy of a repository's database under the name of a view; without a note it is none yet."""
    path = new_path(base.path)
    unfinished = path.with_name(path.name + _UNFINISHED)
    base.copy_to(unfinished)
    return unfinished.rename(path)


def open_view(paths: Iterable[Path], base: SnapshotRow, identity: tuple[str, str, bytes]) -> RepositoryStore | None:
    """The view among these that stands on a snapshot, open; None where there is none any more.

    A view never changes its base, so what is true of it when it is opened stays true while it is read.
    """
    wanted = base_of(base)
    for path in paths:
        try:
            view = RepositoryStore(path, *identity, create=False)
        except StoreError:  # removed a moment ago, or damaged: the base answers
            continue
        try:
            with view.read() as session:
                about = working_of(session)
        except StoreError:
            about = None
        if about is not None and about.base == wanted:
            return view
        view.close()
    return None


def drop_views(database: Path, keep: Path | None = None) -> None:
    """Remove the views of a repository and what a crash left of them, but for one."""
    for path in _parts(database.parent, f"{database.stem}."):
        if keep is None or not path.name.startswith(keep.name):
            path.unlink(missing_ok=True)


def drop_strays(directory: Path, databases: Callable[[], Iterable[str]]) -> None:
    """Remove the views of databases that nobody knows; asked after looking, so that a new one is among the known."""
    parts = _parts(directory, "")
    known = tuple(f"{name.removesuffix('.db')}." for name in databases())
    for path in parts:
        if not path.name.startswith(known):
            path.unlink(missing_ok=True)


def _parts(directory: Path, prefix: str) -> list[Path]:
    """Files of views: databases first, so that none is opened whose journal is gone."""
    try:
        found = [path for path in directory.iterdir() if path.name.startswith(prefix) and is_working(path.name)]
    except OSError:
        return []
    return sorted(found, key=lambda path: (len(path.name), path.name))
