"""The database of one repository and ref, as one origin publishes it: the SQLite implementation of `GraphStore`."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from knowing_protocol.hashing import repo_hash
from knowing_protocol.records import Records

from knowingd.errors import StoreError
from knowingd.store import history, search
from knowingd.store.apply import Applier
from knowingd.store.caches import Caches
from knowingd.store.compact import compact
from knowingd.store.database import Database
from knowingd.store.firstload import FirstLoad
from knowingd.store.indexcache import IndexCache
from knowingd.store.packing import unpack_ids
from knowingd.store.rows import BranchEvent, Changes, EdgeRow, Event, Hit, Removed, Touched, signed_slot
from knowingd.store.session import Session

T = TypeVar("T")


_TO_HASH = (
    "SELECT n.id, n.package_id, n.name, n.kind, i.layer, i.sources FROM nodes n "
    "LEFT JOIN inbound i ON i.target = n.id AND i.type = ? WHERE n.slot = ?"
)


class RepositorySession(Session):
    """Everything that one transaction offers: rows, caches, history, search and writing."""

    @cached_property
    def caches(self) -> Caches:
        """The kept roots."""
        return Caches(self)

    @cached_property
    def index(self) -> IndexCache:
        """What indexing keeps."""
        return IndexCache(self)

    def apply(
        self, changes: Iterable[Changes], now: int, sequence: int, *, with_events: bool
    ) -> tuple[Touched, Touched]:
        """Write changes; what the maps of both graphs must look at again."""
        touched = (Touched(), Touched())
        rest = list(changes)
        load = self.first_load(rest[0]) if rest and not with_events else None
        if load is not None:
            load.write()
            touched[rest.pop(0).layer].searchable = None
        if rest:
            applier = Applier(self, now, sequence, touched, with_events=with_events)
            for one in rest:
                applier.apply(one)
        return touched

    def first_load(self, changes: Changes) -> FirstLoad | None:
        """Changes as the first load of this database; None if something is there, if only the maps of nothing."""
        there = any(self.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() for table in ("nodes", "trees"))
        if there or changes.attributes or changes.removed != Records():
            return None
        return FirstLoad(self, changes.layer, changes.first or [compact(changes.added, changes.layer)])

    def edges_to(self, target: int, edge_type: int) -> list[EdgeRow]:
        """The edges of one type to a target, of both graphs."""
        rows = self.execute(
            "SELECT layer, sources FROM inbound WHERE target = ? AND type = ?", (target, edge_type)
        ).fetchall()
        found = []
        for layer, packed in rows:
            codes = unpack_ids(packed) if packed is not None else self.caches.sources(layer, edge_type, target)
            found += [EdgeRow(code >> 4, edge_type, target, code & 15) for code in codes]
        return found

    def edges_to_hash(self, key: bytes, edge_type: int) -> list[EdgeRow]:
        """The edges of one type to the node with a hash, in one step: who calls this."""
        found: list[EdgeRow] = []
        for node, package, name, kind, layer, packed in self.execute(_TO_HASH, (edge_type, signed_slot(key))):
            if layer is None or self.identity_hash(package, name, kind) != key:
                continue
            codes = unpack_ids(packed) if packed is not None else self.caches.sources(layer, edge_type, node)
            found += [EdgeRow(code >> 4, edge_type, node, code & 15) for code in codes]
        return found

    def refresh_search(self, nodes: Collection[int] | None) -> None:
        """Make the search rows of nodes again, or of all."""
        search.refresh(self, nodes)

    def search(self, text: str, limit: int, kinds: Collection[str] = ()) -> list[Hit]:
        """Symbols that fit a text, best first."""
        return search.find(self, text, limit, kinds)

    def edge_events(self, after: int, upto: int) -> Iterator[tuple[int, int, int, int, int]]:
        """Edges that came and went between two snapshots: whether one came, source, type, target, provenance."""
        return history.edge_events(self, after, upto)

    def events(self, after: int, upto: int) -> Iterator[Event]:
        """Everything else that came and went."""
        return history.events(self, after, upto)

    def branch_events(self, after: int, upto: int) -> Iterator[BranchEvent]:
        """Branches whose roots changed."""
        return history.branch_events(self, after, upto)

    def put_branch_event(self, sequence: int, event: BranchEvent) -> None:
        """Keep what root a branch had before a snapshot, and after it."""
        history.put_branch_event(self, sequence, event)

    def drop_events(self, sequence: int) -> None:
        """Forget what a snapshot would have changed that is not taken."""
        history.drop_events(self, sequence)


class RepositoryStore:
    """One graph database."""

    def __init__(self, path: Path, url: str, ref: str, origin: bytes, *, create: bool = True) -> None:
        """Open it, or create it unless told otherwise; refuses a file that is another repository's."""
        self.path = path
        self.url = url
        self.ref = ref
        self.origin = origin
        self.database = Database(path, "repository", durable=False, create=create)
        mine = (repo_hash(url), url, ref, origin)
        query = "SELECT repo_hash, repo_url, ref, origin FROM repos"
        with self.read() as session:
            found = session.execute(query).fetchone()
        if found is None:  # another process may be making it at this moment
            insert = "INSERT OR IGNORE INTO repos VALUES (1, ?, ?, ?, ?)"
            self.write(lambda session: session.execute(insert, mine).close())
            with self.read() as session:
                found = session.execute(query).fetchone()
        if found != mine:
            self.close()
            raise StoreError(
                f"{path} holds {found[1]} ({found[2]}), not {url} ({ref})",
                code="wrong-database",
                hint="remove the repository and add it again",
            )

    @contextmanager
    def read(self) -> Iterator[RepositorySession]:
        """One consistent state, for as long as it is held."""
        with self.database.read() as connection:
            yield self._session(connection)

    def write(self, job: Callable[[RepositorySession], T]) -> T:
        """Run a job in one transaction of the writer."""
        return self.database.write(lambda connection: job(self._session(connection)))

    def _session(self, connection: sqlite3.Connection) -> RepositorySession:
        return RepositorySession(connection, self.url, self.ref, self.origin)

    def collect(self, keep: int, deleted_before: int) -> Removed:
        """Prune history and give free pages back to the disk."""
        removed = self.write(lambda session: history.prune(session, keep, deleted_before))
        return removed._replace(pages=self.database.give_back())

    def backup_to(self, target: Path) -> None:
        """A consistent copy beside running writers."""
        self.database.backup_to(target)

    def copy_to(self, target: Path) -> None:
        """A consistent copy that is to be worked on."""
        self.database.copy_to(target)

    def close(self) -> None:
        """Close every connection."""
        self.database.close()
