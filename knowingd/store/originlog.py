"""The logs of other nodes, by the hashes of their leaves: what they signed, nothing of what it says.

A log is extended in one transaction: the new leaves and the pin, and only if the leaves lead to the
root that was signed. So whatever is here is a prefix of a history that its node signed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from knowing_protocol import tlog
from knowing_protocol.errors import RejectedError

from knowingd.store.database import Database
from knowingd.store.originstore import PinRow


class _Hashes:
    """The kernel's `HashReader` over one kept log."""

    def __init__(self, connection: sqlite3.Connection, origin: bytes, epoch: int) -> None:
        self._connection = connection
        self._log = (origin, epoch)

    def read(self, level: int, index: int) -> bytes:
        """The hash of a complete subtree."""
        row = self._connection.execute(
            "SELECT hash FROM origin_log_hashes WHERE origin = ? AND epoch = ? AND level = ? AND position = ?",
            (*self._log, level, index),
        ).fetchone()
        found: bytes = row[0] if row else b""
        return found


class OriginLog:
    """One epoch of another node's log."""

    def __init__(self, database: Database, origin: bytes, epoch: int) -> None:
        self._database = database
        self._log = (origin, epoch)

    def size(self) -> int:
        """How many leaves are known."""
        with self._database.read() as connection:
            return self._size(connection)

    def _size(self, connection: sqlite3.Connection) -> int:
        row = connection.execute(
            "SELECT max(position) + 1 FROM origin_log_hashes WHERE origin = ? AND epoch = ? AND level = 0", self._log
        ).fetchone()
        return row[0] or 0

    def leaves(self, start: int, end: int) -> list[bytes]:
        """The hashes of leaves."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT hash FROM origin_log_hashes WHERE origin = ? AND epoch = ? AND level = 0 "
                "AND position >= ? AND position < ? ORDER BY position",
                (*self._log, start, end),
            )
            return [one for (one,) in rows]

    def read(self, level: int, index: int) -> bytes:
        """The hash of a complete subtree: the kernel's `HashReader`."""
        with self._database.read() as connection:
            return _Hashes(connection, *self._log).read(level, index)

    def inclusion(self, index: int, size: int) -> list[bytes]:
        """The path from a leaf to the root of a size."""
        with self._database.read() as connection:
            return tlog.inclusion_proof(_Hashes(connection, *self._log), index, size)

    def extend(self, start: int, leaves: Sequence[bytes], pin: PinRow) -> bool:
        """Append leaves that lead to a signed state and pin it; False where they do not lead there."""

        def job(connection: sqlite3.Connection) -> bool:
            hashes = _Hashes(connection, *self._log)
            size = self._size(connection)
            if start > size:
                raise RejectedError("log-mismatch", "the leaves do not begin where the log ends")
            for index, leaf in enumerate(leaves, start):
                if index < size:
                    continue  # another sync was faster
                for level, position, value in tlog.new_complete_nodes(hashes, index, leaf):
                    connection.execute(
                        "INSERT OR REPLACE INTO origin_log_hashes VALUES (?, ?, ?, ?, ?)",
                        (*self._log, level, position, value),
                    )
            if pin.size > start + len(leaves) or tlog.root_from(hashes, pin.size) != pin.root:
                raise RejectedError("log-mismatch", "the leaves do not lead to the root that was signed")
            known = connection.execute("SELECT size FROM pins WHERE origin = ? AND epoch = ?", self._log).fetchone()
            if known is None or known[0] <= pin.size:
                connection.execute("INSERT OR REPLACE INTO pins VALUES (?, ?, ?, ?, ?)", pin)
            return True

        try:
            return self._database.write(job)
        except RejectedError:
            return False
