"""A node: the stages wired together, one method a verb. Surfaces call these and nothing deeper."""

from __future__ import annotations

import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

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
from knowingd.resolve.graph import StoredGraph
from knowingd.snapshot import fsck
from knowingd.snapshot.backup import write_backup
from knowingd.snapshot.diff import Diff, diff
from knowingd.snapshot.fsck import RepositoryCheck
from knowingd.snapshot.snapshots import Origin, Told, paused_collection, publish_again, recover, take, withdraw
from knowingd.source import Location, Source, given_name, mirror, open_source, repository_url, without_secret
from knowingd.store.database import translated
from knowingd.store.locks import DEFAULT_WAIT, exclusive
from knowingd.store.nodestore import NodeStore, RosterRow, database_name
from knowingd.store.repository import RepositoryStore
from knowingd.store.rows import Changes, SnapshotRow

MAX_OPEN: Final = 32
"""How many repository databases are open at once, however many are registered."""
DELETED_FOR: Final = 30 * 86400
"""How many seconds a symbol that is gone stays before `gc` takes its row."""


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
        self._open: OrderedDict[int, RepositoryStore] = OrderedDict()

    def close(self) -> None:
        """Close every database."""
        for store in self._open.values():
            store.close()
        self._open.clear()
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
        if row.id in self._open:
            self._open.move_to_end(row.id)
            return self._open[row.id]
        store = RepositoryStore(self.home.repository(row.database), row.url, row.ref, row.origin)
        self._open[row.id] = store
        if len(self._open) > MAX_OPEN:
            _, oldest = self._open.popitem(last=False)
            oldest.close()
        return store

    def _close(self, row: RosterRow) -> None:
        store = self._open.pop(row.id, None)
        if store is not None:
            store.close()

    def find(self, text: str) -> RosterRow:
        """The repository that a person means: a URL in any spelling, a path, or a unique tail."""
        rows = [row for row in self.store.roster() if row.ref == DEFAULT_REF]
        try:
            url = canonical_url(text)
        except InvalidNameError:
            url = ""
        exact = [row for row in rows if row.url == url or row.path == text]
        found = exact or [row for row in rows if row.url.endswith("/" + text)]
        if not found:
            raise NotFoundError(f"no repository is called {text!r}", hint="`knowing list` shows what there is")
        if len(found) > 1:
            choices = ", ".join(row.url for row in found[:8])
            raise UsageError(f"{text!r} may be any of {choices}", code="ambiguous", hint="write more of it")
        return found[0]

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
        from knowingd.index.languages import extractor_id  # noqa: PLC0415 - parsers load only for whoever needs them

        found = []
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
                }
            )
        return found

    def _mirror(self, remote: str, url: str, options: Options) -> Path:
        options.report("fetching", 0, 0)
        return mirror(remote, self.home.mirror(database_name(url, "", b"").removesuffix(".db") + ".git"))

    def _index(self, source: Source, url: str, ref: str, path: str, remote: str | None, options: Options) -> Result:
        from knowingd.index.driver import index  # noqa: PLC0415 - parsers load only for whoever indexes
        from knowingd.index.languages import extractor_id  # noqa: PLC0415

        start = time.monotonic()
        now = int(time.time())
        row = self.store.register(
            url, ref, self.keys.origin, path=path, local=True, now=now, remote=remote and without_secret(remote)
        )
        with exclusive(self.home.lock(row.database), row.url, options.wait), paused_collection():
            store = self.repository(row)
            found = index(store, source, jobs=options.jobs, full=options.full, report=options.report)
            options.report("writing", 0, 0)
            told = Told(source.commit, source.branch, extractor_id())
            take(store, self.store, self.origin, found.changes, told, now, found.keep)
            with store.read() as session:
                last = session.last_snapshot(finished=True)
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
            source.notes,
        )

    def recover(self) -> None:
        """Finish what a crash left half done."""
        for row in self.store.roster():
            if row.local:
                with exclusive(self.home.lock(row.database), row.url):
                    now = int(time.time())
                    recover(self.repository(row), self.store, self.origin, now)
                    publish_again(self.repository(row), self.store, self.origin, now)

    def remove(self, text: str, *, purge: bool = False, wait: float = DEFAULT_WAIT) -> RosterRow:
        """Withdraw a repository from the log and the roster; `purge` deletes its database as well."""
        row = self.find(text)
        with exclusive(self.home.lock(row.database), row.url, wait):
            now = int(time.time())
            if row.local and not self.store.held():
                withdraw(self.store, row.url, row.ref, self.origin, now)
            self.store.unregister(row, now)
            self._close(row)
            if purge:
                for suffix in ("", "-wal", "-shm"):
                    self.home.repository(row.database + suffix).unlink(missing_ok=True)
        return row

    def diff(self, text: str, old: str | None = None, new: str | None = None) -> Diff:
        """What differs between two snapshots of a repository: by default the newest two."""
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
            found.append({"repo": row.url, "ref": row.ref, **removed._asdict()})
        return found

    def backup(self, target: Path, *, with_key: bool = False) -> dict[str, Any]:
        """A consistent copy of everything, beside running writers."""
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

    def stats(self, text: str | None = None) -> list[dict[str, Any]]:
        """What is in the databases, and how much room it takes."""
        found = []
        for row in [self.find(text)] if text else self.store.roster():
            with self.repository(row).read() as session:
                counts = session.statistics()
            size = self.home.repository(row.database).stat().st_size
            found.append({"repo": row.url, "ref": row.ref, "bytes": size, **counts})
        return found

    def repositories(self) -> list[dict[str, Any]]:
        """All repositories with their newest snapshots."""
        found = []
        for row in self.store.roster():
            error = None
            try:
                with self.repository(row).read() as session:
                    last = session.last_snapshot(finished=True)
            except StoreError as problem:  # one damaged database does not hide the others
                last, error = None, problem.message
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
                    "error": error,
                }
            )
        return found

    @contextmanager
    def scope(self, pattern: str | None = None) -> Iterator[Scope]:
        """All repositories at one state each, for as long as a question lasts."""
        found = []
        with ExitStack() as stack:
            stores = []
            for row in self.store.roster():
                if row.ref == DEFAULT_REF:
                    store = RepositoryStore(self.home.repository(row.database), row.url, row.ref, row.origin)
                    stack.callback(store.close)
                    stores.append(store)
            for store in stores:
                session = stack.enter_context(store.read())
                last = session.last_snapshot(finished=True)
                if last is not None:
                    found.append(Repository(StoredGraph(session), last))
            yield Scope(tuple(found), pattern)

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
                "roots": json.loads(one.map_roots)["0"],
            }
            for one in reversed(rows)
            if one.log_index is not None
        ]

    def fsck(self, text: str | None = None, *, repair: bool = False) -> dict[str, Any]:
        """Check a repository, or all of them and the log."""
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
        store = self.repository(row)
        check = fsck.check_repository(store)
        if check.errors and repair:
            with exclusive(self.home.lock(row.database), row.url):
                fsck.repair_repository(store)
            check = fsck.check_repository(store)
        return check

    def check_log(self) -> list[str]:
        """Everything that is wrong with the node's log."""
        return fsck.check_log(self.store, self.keys.first_key)


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
