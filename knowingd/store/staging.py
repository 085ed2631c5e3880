"""Chunks of a first sync, in a file of their own until they are checked: after a kill only the one under way is lost.

A chunk is written in one transaction of a WAL database without waiting for the disk: a process that dies loses nothing
that was committed, and a machine that loses power loses the last few chunks at most, which are fetched again. Each
chunk remembers the peer it came from, so that what a bad peer sent can be dropped alone.

Promises nothing about what is in a chunk: it is whatever a peer sent, and whoever reads it checks it. The file can be
deleted at any time at no cost but the transfer.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from knowing_migrations import Migration

from knowingd.store.database import Database, translated

_SCHEMA: Final = Migration(
    1,
    "staging",
    "CREATE TABLE chunks (name TEXT PRIMARY KEY, data BLOB NOT NULL, peer BLOB NOT NULL) STRICT;\n",
)


class Staging:
    """The staging file of one first sync."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._database = Database(path, "staging", durable=False, steps=[_SCHEMA])

    def put(self, name: str, data: bytes, peer: bytes) -> None:
        """Keep a chunk that a peer sent."""
        self._database.write(
            lambda connection: connection.execute(
                "INSERT OR REPLACE INTO chunks VALUES (?, ?, ?)", (name, data, peer)
            ).close()
        )

    def names(self) -> set[str]:
        """The chunks that are here."""
        with self._database.read() as connection:
            return {name for (name,) in connection.execute("SELECT name FROM chunks")}

    def get(self, name: str) -> bytes | None:
        """A chunk, if it is here."""
        with self._database.read() as connection:
            row = connection.execute("SELECT data FROM chunks WHERE name = ?", (name,)).fetchone()
        return row[0] if row else None

    def peers(self) -> set[bytes]:
        """Those that sent what is here."""
        with self._database.read() as connection:
            return {peer for (peer,) in connection.execute("SELECT DISTINCT peer FROM chunks")}

    def size(self) -> int:
        """How many bytes of chunks are here."""
        with self._database.read() as connection:
            (total,) = connection.execute("SELECT coalesce(sum(length(data)), 0) FROM chunks").fetchone()
        found: int = total
        return found

    def drop(self, names: Iterable[str]) -> None:
        """Forget chunks."""
        gone = [(name,) for name in names]
        self._database.write(
            lambda connection: connection.executemany("DELETE FROM chunks WHERE name = ?", gone).close()
        )

    def close(self) -> None:
        """Close the file and keep it, for the next run."""
        self._database.close()

    def remove(self) -> None:
        """Close the file and delete it."""
        self.close()
        remove_staging(self.path)


def remove_staging(path: Path) -> None:
    """Delete a staging file that is not open, also a damaged one."""
    with translated(path):
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
