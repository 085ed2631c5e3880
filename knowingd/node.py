"""A node: the stages wired together, one method a verb. Surfaces call these and nothing deeper."""

from __future__ import annotations

import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar

from knowing_protocol.errors import InvalidNameError
from knowing_protocol.hashing import snapshot_hash
from knowing_protocol.history import DEFAULT_REF, Header
from knowing_protocol.keys import KeyChain, NewEpoch, Revocation, Rotation, epoch_text, revocation_text, rotation_text
from knowing_protocol.urls import canonical_url

from knowingd import keys
from knowingd.config import Home
from knowingd.errors import KnowingError, NotFoundError, StoreError, UsageError
from knowingd.index import Report, silent
from knowingd.keyfile import KeyRing, read_seed
from knowingd.query.scope import Repository, Scope
from knowingd.query.working import above, current_view, working_json
from knowingd.resolve.catalog import Catalog
from knowingd.resolve.graph import CatalogedGraph, StoredGraph
from knowingd.resolve.sessions import MovedError, Sessions
from knowingd.snapshot.snapshots import Origin, Told, paused_collection, publish_again, recover, take, withdraw
from knowingd.store.catalog import CatalogStore
from knowingd.store.database import translated
from knowingd.store.locks import DEFAULT_WAIT, exclusive
from knowingd.store.nodestore import NodeStore, RosterRow, database_name
from knowingd.store.pool import Pool
from knowingd.store.repository import RepositoryStore
from knowingd.store.rows import Changes, SnapshotRow
from knowingd.store.working import drop_strays, drop_views, listed

if TYPE_CHECKING:  # a verb loads what it needs: a question should not wait for git, parsers and checks
    from knowingd.snapshot.diff import Diff
    from knowingd.snapshot.fsck import RepositoryCheck
    from knowingd.source import Location, Source

MAX_OPEN: Final = 32
"""How many repository databases are open at once, however many are registered."""
MAX_ASKED: Final = 5
"""How often a question is asked anew because repositories move on meanwhile."""
DELETED_FOR: Final = 30 * 86400
"""How many seconds a symbol that is gone stays before `gc` takes its row."""

T = TypeVar("T")
Visible = Callable[[str], bool]
"""Which repositories, by their URLs, somebody may know of: for them the others are not there."""


class Options(NamedTuple):
    """How to index."""

    jobs: int = 1
    full: bool = False
    wait: float = DEFAULT_WAIT
    report: Report = silent


class Result(NamedTuple):
    """What indexing a repository led to."""

    repo: str
    ref: str
    commit: str
    files: int
    parsed: int
    failed: int
    skipped: int
    nodes: int
    edges: int
    seconds: float
    snapshot: str
    notes: tuple[str, ...]
    working: dict[str, Any] | None = None
    """Of a work tree with uncommitted changes: the view that local questions are asked of."""


class Node:
    """A node on its data directory."""

    def __init__(self, home: Home) -> None:
        """Open the node; its key and directories are made where they are missing."""
        self.home = home
        with translated(home.path):
            home.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        with translated(home.path), exclusive(home.lock("node"), "the node"):
            self.keys = KeyRing.create(home.key)
            self.store = NodeStore(home.node_database)
        self._open: Pool[RepositoryStore] = Pool(MAX_OPEN)
        self._catalog: CatalogStore | None = None
        self._catalog_lock = threading.Lock()

    def close(self) -> None:
        """Close every database."""
        self._open.close()
        if self._catalog is not None:
            self._catalog.close()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def origin(self) -> Origin:
        """The node as the writer of its log."""
        epoch, key = self.store.epoch, self.key_chain.current
        return Origin(self.keys.origin, lambda text: self.keys.sign_log(text, epoch, key))

    @property
    def key_chain(self) -> KeyChain:
        """Which keys the node had and has."""
        chain = KeyChain(self.keys.first_key)
        chain.add(self.store.key_notes(), keys.verify)
        return chain

    def repository(self, row: RosterRow) -> RepositoryStore:
        """The database of a repository; the one used longest ago is closed when too many are open."""
        return self._open.get(row.id, lambda: self._opened(row))

    def _opened(self, row: RosterRow) -> RepositoryStore:
        return RepositoryStore(self._path_of(row), row.url, row.ref, row.origin)

    def _close(self, row: RosterRow) -> None:
        self._open.discard(row.id)

    def _rows(self, visible: Visible | None) -> Iterator[RosterRow]:
        return (row for row in self.store.roster() if visible is None or visible(row.url))

    def find(self, text: str, visible: Visible | None = None) -> RosterRow:
        """The repository that a person means: a URL in any spelling, a path, or a unique tail, perhaps `@ORIGIN`.

        Where several nodes publish it, this node's own is meant, or the one that was here first.
        """
        name, origin = _split_origin(text)
        rows = [
            row for row in self._rows(visible) if row.ref == DEFAULT_REF and row.origin.hex().startswith(origin or "")
        ]
        try:
            url = canonical_url(name)
        except InvalidNameError:
            url = ""
        # Where things lie on this machine is for those who use it.
        exact = [row for row in rows if row.url == url or (visible is None and row.path == name)]
        found = exact or [row for row in rows if row.url.endswith("/" + name)]
        if not found:
            raise NotFoundError(f"no repository is called {text!r}", hint="`knowing list` shows what there is")
        if len({row.url for row in found}) > 1:
            choices = ", ".join(sorted({row.url for row in found})[:8])
            raise UsageError(f"{text!r} may be any of {choices}", code="ambiguous", hint="write more of it")
        return one_origin(found)[0]

    def snapshot(
        self,
        url: str,
        changes: Sequence[Changes],
        told: Told,
        *,
        ref: str = DEFAULT_REF,
        path: str | None = None,
        wait: float = DEFAULT_WAIT,
    ) -> Header | None:
        """Apply changes to a local repository and sign the snapshot; None where nothing is new."""
        now = int(time.time())
        row = self.store.register(url, ref, self.keys.origin, path=path, local=True, now=now)
        with exclusive(self.home.lock(row.database), row.url, wait):
            return take(self.repository(row), self.store, self.origin, changes, told, now)

    def add(self, location: Location, *, url: str | None = None, ref: str | None = None, options: Options) -> Result:
        """Register a repository and index it; adding it again indexes it again."""
        from knowingd.source import given_name, open_source, repository_url

        path, remote = location.path, location.url
        if remote is not None:
            url = given_name(url) if url else canonical_url(remote)
            path = self._mirror(remote, url, options)
        assert path is not None
        name = repository_url(path, given=url)
        known = {row.url: row for row in self.store.roster() if row.local}
        other = known.get(name)
        where = str(path.resolve())
        if other is not None and other.path not in (None, where) and name.startswith("local/"):
            raise UsageError(
                f"{name} is already the repository at {other.path}",
                code="exists",
                hint="give this one a name with --url",
            )
        with open_source(path, ref) as source:
            return self._index(source, name, ref or DEFAULT_REF, where, remote, options)

    def index(self, row: RosterRow, *, ref: str | None = None, fetch: bool = False, options: Options) -> Result:
        """Index a registered repository again."""
        from knowingd.source import open_source

        if row.path is None:
            raise UsageError(
                f"{row.url} is not on this machine, it is a replica", hint="`knowing sync` brings it up to date"
            )
        if fetch and row.remote is not None:
            self._mirror(row.remote, row.url, options)
        asked = ref or (None if row.ref == DEFAULT_REF else row.ref)
        with open_source(Path(row.path), asked) as source:
            return self._index(source, row.url, asked or DEFAULT_REF, row.path, row.remote, options)

    def stale(self, text: str | None = None) -> list[dict[str, Any]]:
        """How the snapshots of repositories on this machine compare with what is there now."""
        from knowingd.index.languages import extractor_id
        from knowingd.index.working import unseen
        from knowingd.source import open_source

        found = []
        views = listed(self.home.repository(""))
        for row in [self.find(text)] if text else self.store.roster():
            if not row.local or row.path is None:
                continue
            reasons: list[str] = []
            commit: str | None = None
            with self.repository(row).read() as session:
                last = session.last_snapshot(finished=True)
            try:
                with open_source(Path(row.path), None if row.ref == DEFAULT_REF else row.ref) as source:
                    commit = source.commit
                    if last is not None and row.ref == DEFAULT_REF:
                        known = (last.commit, last.extractor) == (commit, extractor_id())
                        with current_view(row, last, views) as view:
                            count = unseen(view or self.repository(row), source) if known else 0
                        if count:
                            reasons.append(f"uncommitted changes are not indexed (files: {count})")
            except KnowingError as error:
                reasons.append(f"cannot be read: {error.message}")
            if last is None:
                reasons.append("never indexed")
            else:
                if commit is not None and commit != last.commit:
                    reasons.append("the source is at another commit")
                if last.extractor != extractor_id():
                    reasons.append("it was read by another version")
            found.append(
                {
                    "repo": row.url,
                    "ref": row.ref,
                    "indexed": last.commit if last else None,
                    "current": commit,
                    "stale": bool(reasons),
                    "reasons": reasons,
                    "working": working_json(row, last, views),
                }
            )
        return found

    def _mirror(self, remote: str, url: str, options: Options) -> Path:
        from knowingd.source import mirror

        options.report("fetching", 0, 0)
        return mirror(remote, self.home.mirror(database_name(url, "", b"").removesuffix(".db") + ".git"))

    def _index(self, source: Source, url: str, ref: str, path: str, remote: str | None, options: Options) -> Result:
        from knowingd.index.driver import index
        from knowingd.index.languages import extractor_id
        from knowingd.index.working import Refreshed, refresh
        from knowingd.source import without_secret

        start = time.monotonic()
        now = int(time.time())
        row = self.store.register(
            url, ref, self.keys.origin, path=path, local=True, now=now, remote=remote and without_secret(remote)
        )
        with exclusive(self.home.lock(row.database), row.url, options.wait), paused_collection():
            store = self.repository(row)
            found = index(store, source, jobs=options.jobs, full=options.full, report=options.report)
            options.report("writing", 0, sum(one.edges for one in found.changes))
            told = Told(source.commit, source.branch, extractor_id())
            take(store, self.store, self.origin, found.changes, told, now, found.keep, options.jobs)
            with store.read() as session:
                last = session.last_snapshot(finished=True)
            fresh = Refreshed()
            if ref == DEFAULT_REF:
                fresh = refresh(store, source, jobs=options.jobs, full=options.full, report=options.report)
            self._close(row)  # a writer that has just filled its cache is not kept
        assert last is not None
        return Result(
            row.url,
            row.ref,
            last.commit,
            found.counts.files,
            found.counts.parsed,
            found.counts.failed,
            found.counts.skipped,
            last.nodes,
            last.edges,
            time.monotonic() - start,
            snapshot_hash(last.source_root).hex(),
            (*source.notes, *((f"uncommitted changes were not read: {fresh.problem}",) if fresh.problem else ())),
            None if fresh.working is None else {**fresh.working.as_json(), "parsed": fresh.parsed},
        )

    def recover(self) -> dict[str, StoreError]:
        """Finish what a crash left half done; one damaged database does not hold the others up, and is given back."""
        damaged: dict[str, StoreError] = {}
        for row in self.store.roster():
            if row.local:
                try:
                    with exclusive(self.home.lock(row.database), row.url), self.lend(row) as store:
                        now = int(time.time())
                        recover(store, self.store, self.origin, now)
                        publish_again(store, self.store, self.origin, now)
                except StoreError as error:
                    if error.code == "signing-held":
                        raise
                    damaged[row.url] = error
        return damaged

    def remove(self, text: str, *, purge: bool = False, wait: float = DEFAULT_WAIT) -> RosterRow:
        """Withdraw a repository from the log and the roster; `purge` deletes its database as well."""
        row = self.find(text)
        with exclusive(self.home.lock(row.database), row.url, wait):
            now = int(time.time())
            if row.local and not self.store.held():
                withdraw(self.store, row.url, row.ref, self.origin, now)
            self.store.unregister(row, now)
            self._close(row)
            drop_views(self.home.repository(row.database))
            if purge:
                self.purge(row)
        return row

    def purge(self, row: RosterRow) -> None:
        """Delete a repository's database; whoever calls has the right to write it."""
        self._close(row)
        for suffix in ("", "-wal", "-shm"):
            self.home.repository(row.database + suffix).unlink(missing_ok=True)

    def diff(self, text: str, old: str | None = None, new: str | None = None) -> Diff:
        """What differs between two snapshots of a repository: by default the newest two."""
        from knowingd.snapshot.diff import diff

        row = self.find(text)
        with self.repository(row).read() as session:
            rows = [one for one in session.snapshots() if one.log_index is not None]
            if not rows:
                raise NotFoundError(f"{row.url} has no snapshot yet", hint="`knowing index` takes one")
            newer = _snapshot(rows, new, rows[-1])
            before = [one for one in rows if one.sequence < newer.sequence]
            return diff(session, _snapshot(rows, old, before[-1] if before else newer), newer)

    def gc(self, keep: int, *, wait: float = DEFAULT_WAIT) -> list[dict[str, Any]]:
        """Keep so many snapshots of each repository openable, and give the space of the others back."""
        found = []
        for row in self.store.roster():
            with exclusive(self.home.lock(row.database), row.url, wait):
                removed = self.repository(row).collect(keep, int(time.time()) - DELETED_FOR)
                drop_views(self.home.repository(row.database))
            found.append({"repo": row.url, "ref": row.ref, **removed._asdict()})
        drop_strays(self.home.repository(""), lambda: [row.database for row in self.store.roster()])
        return found

    def backup(self, target: Path, *, with_key: bool = False) -> dict[str, Any]:
        """A consistent copy of everything, beside running writers."""
        from knowingd.snapshot.backup import write_backup

        databases = ((row, self.repository(row).database) for row in self.store.roster())
        return write_backup(target, self.home, self.store, self.keys, databases, with_key=with_key)

    def begin_epoch(self) -> int:
        """Begin a new log that names the last known state of the old one, with the newest snapshot of everything."""
        epoch = self.store.epoch + 1
        size, root = self.store.log_state()
        text = epoch_text(NewEpoch(self.keys.origin, epoch, size, root))
        self.store.begin_epoch(epoch, self.keys.sign_node(text, self.key_chain.current))
        self.recover()
        return epoch

    def rotate_key(self) -> bytes:
        """Sign with a new key from the log's present size on."""
        with exclusive(self.home.lock("node"), "the node"):
            old = self.key_chain.current
            new = self.keys.add(secrets.token_bytes(32))
            rotation = Rotation(self.keys.origin, self.store.epoch, self.store.size(), old, new)
            # The key is on disk before the note that makes it sign; a crash between the two leaves it unused.
            self.store.add_key_note(self.keys.sign_node(rotation_text(rotation), old, new))
        return new

    def revoke_key(self, prefix: str, size: int | None) -> bytes:
        """Declare void what a former key signed beyond a size of the log."""
        chain = self.key_chain
        found = [key for key in chain.keys if key.hex().startswith(prefix)] if prefix else []
        if len(found) != 1:
            raise NotFoundError(f"{prefix!r} names no key of this node", hint="`knowing key show` lists them")
        if found[0] == chain.current:
            raise UsageError(
                "the key that signs now cannot be revoked, because nothing could be signed any more",
                code="key-in-use",
                hint="run `knowing key rotate` first, then revoke the old key",
            )
        last = self.store.size() if size is None else size
        revocation = Revocation(self.keys.origin, self.store.epoch, last, found[0])
        self.store.add_key_note(self.keys.sign_node(revocation_text(revocation), chain.current))
        return found[0]

    def import_key(self, path: Path) -> bytes:
        """Take a key from a file: the node's identity if it has signed nothing yet, else one of its own keys."""
        seed = read_seed(path)
        with exclusive(self.home.lock("node"), "the node"):
            if not self.store.size() and not self.store.epoch and not self.store.roster():
                return self.keys.replace(seed)
            if keys.public_key_of(seed) not in self.key_chain.keys:
                raise UsageError(
                    "this node has signed with other keys, and this is none of them",
                    code="foreign-key",
                    hint="import it into an empty data directory (--home)",
                )
            return self.keys.add(seed)

    def stats(self, text: str | None = None, visible: Visible | None = None) -> list[dict[str, Any]]:
        """What is in the databases, and how much room it takes."""
        found = []
        for row in [self.find(text, visible)] if text else self._rows(visible):
            with self.lend(row) as store, store.read() as session:
                counts = session.statistics()
            size = self.home.repository(row.database).stat().st_size
            found.append({"repo": row.url, "ref": row.ref, "bytes": size, **counts})
        return found

    def repositories(self, visible: Visible | None = None) -> list[dict[str, Any]]:
        """All repositories with their newest snapshots; working views only for those who see everything."""
        found = []
        views = listed(self.home.repository("")) if visible is None else {}
        for row in self._rows(visible):
            error = None
            try:
                with self.lend(row) as store, store.read() as session:
                    last = session.last_snapshot(finished=True)
                    working = working_json(row, last, views)
            except StoreError as problem:  # one damaged database does not hide the others
                last, error, working = None, problem.message, None
            found.append(
                {
                    "repo": row.url,
                    "ref": row.ref,
                    "origin": row.origin.hex(),
                    "local": row.local,
                    "path": row.path,
                    "commit": last.commit if last else None,
                    "index": last.log_index if last else None,
                    "nodes": last.nodes if last else 0,
                    "edges": last.edges if last else 0,
                    "time": last.timestamp if last else None,
                    "working": working,
                    "error": error,
                }
            )
        return found

    def ask(
        self,
        question: Callable[[Scope], T],
        pattern: str | None = None,
        *,
        working: bool = False,
        visible: Visible | None = None,
        check: Callable[[], None] | None = None,
    ) -> T:
        """The answer to a question over all repositories; asked anew if one of them moves on meanwhile.

        `check` is called again and again meanwhile; what it raises ends the question.
        """
        doubted: set[str] = set()
        for _ in range(MAX_ASKED):
            try:
                with self.scope(pattern, doubted, working=working, visible=visible, check=check) as scope:
                    return question(scope)
            except MovedError as error:
                last = error
                doubted.add(error.database)
        raise last

    @contextmanager
    def scope(
        self,
        pattern: str | None = None,
        doubted: Collection[str] = (),
        *,
        working: bool = False,
        visible: Visible | None = None,
        check: Callable[[], None] | None = None,
    ) -> Iterator[Scope]:
        """All repositories at one state each, for as long as a question lasts.

        Whoever holds it meets a `MovedError` if a repository is written to before it is first looked into; `ask` deals
        with that. `doubted` are databases that the catalog looks into whatever their files look like. `working` asks
        working views in place of the bases beneath them: for local questions, never for proofs or peers. What is not
        `visible` is not opened either, so that not even a damaged database tells of itself.
        """
        known_rows = one_origin([row for row in self.store.roster() if row.ref == DEFAULT_REF])
        rows = [row for row in known_rows if visible is None or visible(row.url)]
        views = listed(self.home.repository("")) if working else {}
        with ExitStack() as stack:
            sessions = stack.enter_context(Sessions(self.lend, self._path_of, MAX_OPEN, check))
            catalog = Catalog(self._current_catalog(), self._path_of)
            known, entries = stack.enter_context(catalog.at_one_state(rows, sessions, doubted, known_rows))
            found = []
            for row, number, snapshot in entries:
                view = stack.enter_context(above(row, snapshot, views))
                if view is not None:  # the catalog knows nothing of it
                    found.append(Repository(StoredGraph(view.session), view.snapshot, view.working))
                else:
                    graph = CatalogedGraph(row.url, number, known, partial(sessions.using, row))
                    found.append(Repository(graph, snapshot))
            yield Scope(tuple(found), pattern)

    def _current_catalog(self) -> CatalogStore:
        """The catalog, opened again if its file was deleted under us."""
        with self._catalog_lock:
            if self._catalog is None or not self._catalog.is_in_place:
                if self._catalog is not None:
                    self._catalog.close()
                self._catalog = CatalogStore(self.home.catalog)
            return self._catalog

    def _path_of(self, row: RosterRow) -> Path:
        return self.home.repository(row.database)

    def lend(self, row: RosterRow) -> AbstractContextManager[RepositoryStore]:
        """The database of a repository, open for as long as it is lent."""
        return self._open.lend(row.id, lambda: self._opened(row))

    def log(self, text: str) -> list[dict[str, Any]]:
        """The snapshots of a repository, newest first, with the roots of the source graph."""
        row = self.find(text)
        with self.repository(row).read() as session:
            rows = [one for one in session.snapshots() if one.log_index is not None]
        by_index = {header.index: header for header in self.store.headers(row.url, row.ref)}
        return [
            {
                "index": one.log_index,
                "epoch": one.epoch,
                "snapshot": snapshot_hash(one.source_root).hex(),
                "ref": row.ref,
                "commit": one.commit,
                "generation": one.generation,
                "parent": by_index[one.log_index].previous if one.log_index in by_index else None,
                "nodes": one.nodes,
                "edges": one.edges,
                "time": one.timestamp,
                "submitter": one.submitter,
                "roots": json.loads(one.map_roots)["0"],
            }
            for one in reversed(rows)
            if one.log_index is not None
        ]

    def fsck(self, text: str | None = None, *, repair: bool = False) -> dict[str, Any]:
        """Check a repository, or all of them and the log."""
        from knowingd.snapshot.fsck import RepositoryCheck

        rows = [self.find(text)] if text else self.store.roster()
        found = []
        for row in rows:
            try:
                check = self._fsck(row, repair=repair)
            except StoreError as error:
                check = RepositoryCheck(0, 0, [f"{error.message}; {error.hint}"])
            found.append({"repo": row.url, "ref": row.ref, **check._asdict()})
        errors = self.check_log()
        return {"ok": not errors and not any(one["errors"] for one in found), "repos": found, "log": errors}

    def _fsck(self, row: RosterRow, *, repair: bool) -> RepositoryCheck:
        from knowingd.snapshot import fsck

        store = self.repository(row)
        check = fsck.check_repository(store)
        if check.errors and repair:
            with exclusive(self.home.lock(row.database), row.url):
                fsck.repair_repository(store)
            check = fsck.check_repository(store)
        return check

    def check_log(self) -> list[str]:
        """Everything that is wrong with the node's log."""
        from knowingd.snapshot import fsck

        return fsck.check_log(self.store, self.keys.first_key)


_ORIGIN = re.compile(r"(.+)@([0-9a-f]{4,64})")


def _split_origin(text: str) -> tuple[str, str | None]:
    """`REPO@ORIGIN` as its two parts."""
    found = _ORIGIN.fullmatch(text)
    return (found[1], found[2]) if found else (text, None)


def one_origin(rows: Sequence[RosterRow]) -> list[RosterRow]:
    """Each repository once, so that nothing counts twice: this node's own, or the one that was here first."""
    found: dict[str, RosterRow] = {}
    for row in sorted(rows, key=lambda row: (not row.local, row.added_at, row.id)):
        found.setdefault(row.url, row)
    return sorted(found.values(), key=lambda row: row.url)


def _snapshot(rows: Sequence[SnapshotRow], text: str | None, default: SnapshotRow) -> SnapshotRow:
    """The snapshot that a person means: an index of the log, a commit, or the beginning of a snapshot's hash."""
    if text is None:
        return default
    for row in reversed(rows):
        if text == str(row.log_index) or (
            len(text) >= 4 and (row.commit.startswith(text) or snapshot_hash(row.source_root).hex().startswith(text))
        ):
            return row
    raise NotFoundError(f"no snapshot is called {text!r}", hint="`knowing log REPO` shows them")
