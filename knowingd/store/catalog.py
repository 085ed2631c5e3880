"""The catalog's database: which repositories may know a key, and which state of each repository that reflects.

It is a filter: it may name a repository that has nothing to say, and never leaves out one that has. Everything in it is
derived; a file that is damaged is thrown away and made again. A write is one transaction in which each repository is
replaced only if it is still as the writer found it, so that a kill or a second writer leaves nothing half done.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from knowingd.errors import StoreError
from knowingd.store.database import Database
from knowingd.store.rows import SnapshotRow

_BATCH: Final = 200  # rows of one statement
_BLOBS: Final = ("source_root", "overlay_root", "extractor")


class CatalogRow(NamedTuple):
    """A repository as the catalog knows it."""

    id: int
    database: str
    version: int
    sequence: int
    source_root: bytes
    overlay_root: bytes
    snapshot: SnapshotRow | None
    seen: str
    seen_at: int
    gone: int


class CatalogUpdate(NamedTuple):
    """What a repository is now (`row`; its id does not count), in place of what it was (`base`).

    The keys are added to those of `base`, or replace them if `anew`.
    """

    row: CatalogRow
    base: CatalogRow | None
    anew: bool
    fingerprints: Collection[int]
    open_names: Collection[tuple[int, str]]


class CatalogSession:
    """One state of the catalog."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self) -> dict[str, CatalogRow]:
        """All repositories by the names of their databases."""
        found = {}
        for row in self._connection.execute(f"SELECT {_COLUMNS} FROM repositories"):
            one = CatalogRow(*row)
            found[one.database] = one._replace(snapshot=_snapshot(row[6]))
        return found

    def holders(self, fingerprint: int) -> frozenset[int]:
        """The ids of the repositories that may know a key."""
        rows = self._connection.execute("SELECT repository FROM keys WHERE fingerprint = ?", (fingerprint,))
        return frozenset(number for (number,) in rows)

    def open_names(self, edge_type: int) -> dict[int, list[str]]:
        """Repository id to targets of a type that may mean a symbol of any name."""
        found: dict[int, list[str]] = {}
        rows = self._connection.execute("SELECT repository, name FROM open_names WHERE type = ?", (edge_type,))
        for number, name in rows:
            found.setdefault(number, []).append(name)
        return found


class CatalogStore:
    """The catalog of a node."""

    def __init__(self, path: Path) -> None:
        """Open or create it; a damaged one is made anew."""
        self.path = path
        try:
            self._database = Database(path, "catalog", durable=False)
        except StoreError as error:
            if error.code not in ("corrupt-database", "migration-changed"):
                raise
            for suffix in ("", "-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            self._database = Database(path, "catalog", durable=False)
        self._file = _identity(path)

    @property
    def is_in_place(self) -> bool:
        """Whether the file is still the one that was opened; anybody may delete it at any time."""
        return self._file is not None and self._file == _identity(self.path)

    def close(self) -> None:
        """Close every connection."""
        self._database.close()

    @contextmanager
    def read(self) -> Iterator[CatalogSession]:
        """One state, for as long as it is held."""
        with self._database.read() as connection:
            yield CatalogSession(connection)

    def bring(self, updates: Sequence[CatalogUpdate], keep: Collection[str]) -> None:
        """Write what repositories are now, and forget all whose database is not among those to keep."""
        self._database.write(lambda connection: _bring(connection, updates, keep))


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


_COLUMNS: Final = ", ".join(CatalogRow._fields)


def _snapshot(text: str) -> SnapshotRow | None:
    if not text:
        return None
    found = json.loads(text)
    return SnapshotRow(**{**found, **{name: bytes.fromhex(found[name]) for name in _BLOBS}})


def _snapshot_text(row: SnapshotRow | None) -> str:
    if row is None:
        return ""
    return json.dumps({**row._asdict(), **{name: getattr(row, name).hex() for name in _BLOBS}}, separators=(",", ":"))


def _bring(connection: sqlite3.Connection, updates: Sequence[CatalogUpdate], keep: Collection[str]) -> None:
    left = False
    fingerprints: list[tuple[int, int]] = []
    open_names: list[tuple[int, int, str]] = []
    for row, base, anew, keys, names in updates:
        current = connection.execute(
            "SELECT id, sequence, source_root, overlay_root FROM repositories WHERE database = ?", (row.database,)
        ).fetchone()
        if current != (None if base is None else (base.id, *base[3:6])):
            continue  # somebody else was faster: the next look sees what is still missing
        values = (*row[2:6], _snapshot_text(row.snapshot), *row[7:])
        if current is not None and not anew:
            number = current[0]
            connection.execute(
                "UPDATE repositories SET version = ?, sequence = ?, source_root = ?, overlay_root = ?, snapshot = ?, "
                "seen = ?, seen_at = ?, gone = ? WHERE id = ?",
                (*values, number),
            )
        else:
            if current is not None:
                connection.execute("DELETE FROM repositories WHERE id = ?", current[:1])
                left = True
            number = connection.execute(
                "INSERT INTO repositories (database, version, sequence, source_root, overlay_root, snapshot, seen, "
                "seen_at, gone) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (row.database, *values),
            ).lastrowid
        fingerprints += ((one, number) for one in keys)
        open_names += ((edge_type, number, name) for edge_type, name in names)
    for (name,) in connection.execute("SELECT database FROM repositories").fetchall():
        if name not in keep:
            connection.execute("DELETE FROM repositories WHERE database = ?", (name,))
            left = True
    # In the order of the key, so that each page of the table is met once.
    _insert(connection, "INSERT OR IGNORE INTO keys", sorted(fingerprints), 2)
    _insert(connection, "INSERT OR IGNORE INTO open_names", sorted(open_names), 3)
    if left:
        for table in ("keys", "open_names"):
            connection.execute(f"DELETE FROM {table} WHERE repository NOT IN (SELECT id FROM repositories)")


def _insert(connection: sqlite3.Connection, head: str, rows: Sequence[Iterable[object]], width: int) -> None:
    mark = f"({', '.join('?' * width)})"
    whole = len(rows) - len(rows) % _BATCH
    many = f"{head} VALUES " + ", ".join([mark] * _BATCH)
    for start in range(0, whole, _BATCH):
        connection.execute(many, [*chain.from_iterable(rows[start : start + _BATCH])])
    connection.executemany(f"{head} VALUES {mark}", [tuple(row) for row in rows[whole:]])
