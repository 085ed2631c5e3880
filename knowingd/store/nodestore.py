"""The node's own database: roster, log, checkpoints, settings. Every commit is on disk before it returns.

An append is one transaction: the header with its index and roster, the log's new hashes, the signed checkpoint and the
new head. So a crash leaves either all of it or nothing, and an index is never signed twice with different content.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from knowing_protocol import tlog
from knowing_protocol.critbit import MerkleMap
from knowing_protocol.encoding import canonical_json
from knowing_protocol.graph import Level
from knowing_protocol.history import Header, checkpoint_of, header_from_json, roster_key
from knowing_protocol.note import checkpoint_text

from knowingd.errors import NotFoundError, StoreError
from knowingd.store.database import Database

_UNSAFE = re.compile(r"[^a-z0-9.-]+")
Sign = Callable[[str], str]  # the text of a note to the signed note


class RosterRow(NamedTuple):
    """A repository and ref that this node has, as one origin publishes it."""

    id: int
    url: str
    ref: str
    origin: bytes
    path: str | None
    remote: str | None
    database: str
    local: bool
    added_at: int


def database_name(url: str, ref: str, origin: bytes) -> str:
    """A file name for a repository: readable, unique, and safe whatever its URL is."""
    unique = sha256(b"\0".join((url.encode(), ref.encode(), origin))).hexdigest()[:20]
    readable = _UNSAFE.sub("_", url.lower()).strip("._-")[-60:].lstrip("._-") or "repository"
    return f"{readable}-{unique}.db"


HELD = "signing_held"


def _refuse_held(connection: sqlite3.Connection) -> None:
    row = connection.execute("SELECT value FROM settings WHERE key = ?", (HELD,)).fetchone()
    if row is not None:
        raise StoreError(
            f"this node signs nothing: {row[0]}",
            code="signing-held",
            hint="sync with a peer that has its newest log, or run `knowing restore --new-epoch`",
        )


class LogHashes:
    """The log's complete subtrees, read from the database: the kernel's `HashReader`."""

    def __init__(self, connection: sqlite3.Connection, epoch: int) -> None:
        self._connection = connection
        self._epoch = epoch

    def read(self, level: int, index: int) -> bytes:
        """The hash of a complete subtree."""
        row = self._connection.execute(
            "SELECT hash FROM log_hashes WHERE epoch = ? AND level = ? AND position = ?", (self._epoch, level, index)
        ).fetchone()
        if row is None:
            raise StoreError(f"the log has no hash for level {level}, position {index}", hint="run `knowing fsck`")
        found: bytes = row[0]
        return found


class LogReader:
    """The same for whoever has no transaction at hand."""

    def __init__(self, database: Database, epoch: int) -> None:
        self._database = database
        self._epoch = epoch

    def read(self, level: int, index: int) -> bytes:
        """The hash of a complete subtree."""
        with self._database.read() as connection:
            return LogHashes(connection, self._epoch).read(level, index)


class NodeStore:
    """What a node has, what it signed, whom it knows."""

    def __init__(self, path: Path) -> None:
        self.database = Database(path, "node", durable=True)

    def close(self) -> None:
        """Close every connection."""
        self.database.close()

    # Settings

    def setting(self, key: str, default: str = "") -> str:
        """A setting, or its default."""
        with self.database.read() as connection:
            row = connection.execute("SELECT value FROM settings WHERE key = ?", (key,)).fetchone()
        return row[0] if row else default

    def set_setting(self, key: str, value: str) -> None:
        """Keep a setting."""
        self.database.write(
            lambda connection: connection.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (key, value)).close()
        )

    @property
    def epoch(self) -> int:
        """The epoch of the log that is written now."""
        return int(self.setting("epoch", "0"))

    # Roster

    def register(
        self,
        url: str,
        ref: str,
        origin: bytes,
        *,
        path: str | None,
        local: bool,
        now: int,
        remote: str | None = None,
    ) -> RosterRow:
        """Put a repository on the roster, or bring it back; its database's name is decided here, once."""
        name = database_name(url, ref, origin)

        def job(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT INTO roster (repo_url, ref, origin, path, remote, database, local, added_at) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (repo_url, ref, origin) "
                "DO UPDATE SET path = coalesce(excluded.path, path), remote = coalesce(excluded.remote, remote), "
                "removed_at = NULL",
                (url, ref, origin, path, remote, name, int(local), now),
            )

        self.database.write(job)
        return next(row for row in self.roster() if (row.url, row.ref, row.origin) == (url, ref, origin))

    def roster(self) -> list[RosterRow]:
        """All repositories, by URL and ref."""
        with self.database.read() as connection:
            rows = connection.execute(
                "SELECT id, repo_url, ref, origin, path, remote, database, local, added_at FROM roster "
                "WHERE removed_at IS NULL ORDER BY repo_url, ref, origin"
            ).fetchall()
        return [RosterRow(*row)._replace(local=bool(row[7])) for row in rows]

    def unregister(self, row: RosterRow, now: int) -> None:
        """Take a repository off the roster."""
        self.database.write(
            lambda connection: connection.execute(
                "UPDATE roster SET removed_at = ? WHERE id = ?", (now, row.id)
            ).close()
        )

    # Log

    def append(self, header: Header, origin: bytes, now: int, sign: Sign) -> Header:
        """Append a header; its index and roster are filled in here, and the checkpoint over it is signed."""
        epoch = self.epoch
        now = max(now, self._last_time())  # a clock that was set back must not make history run backwards

        def job(connection: sqlite3.Connection) -> Header:
            _refuse_held(connection)
            (size,) = connection.execute("SELECT count(*) FROM log_entries WHERE epoch = ?", (epoch,)).fetchone()
            heads = {
                (url, ref): digest for url, ref, digest in connection.execute("SELECT repo_url, ref, digest FROM heads")
            }
            entry = replace(header, index=size, time=now)
            place = (entry.repository, entry.ref)
            if entry.source is None:
                heads.pop(place, None)
                connection.execute("DELETE FROM heads WHERE repo_url = ? AND ref = ?", place)
            else:
                heads[place] = entry.digest
                connection.execute(
                    "INSERT OR REPLACE INTO heads VALUES (?, ?, ?, ?, ?)", (*place, epoch, size, entry.digest)
                )
            roster = MerkleMap.of(Level.ROSTER, {roster_key(*where): digest for where, digest in heads.items()})
            entry = replace(entry, roster=roster.root)
            text = canonical_json(entry.as_json()).decode()
            connection.execute("INSERT INTO log_entries VALUES (?, ?, ?, ?, ?)", (epoch, size, *place, text))
            hashes = LogHashes(connection, epoch)
            for level, position, value in tlog.new_complete_nodes(hashes, size, entry.leaf):
                connection.execute("INSERT INTO log_hashes VALUES (?, ?, ?, ?)", (epoch, level, position, value))
            checkpoint = checkpoint_of(origin, epoch, size + 1, tlog.root_from(hashes, size + 1), now)
            note = sign(checkpoint_text(checkpoint))
            connection.execute("INSERT INTO checkpoints VALUES (?, ?, ?)", (epoch, size + 1, note))
            return entry

        return self.database.write(job)

    def _last_time(self) -> int:
        with self.database.read() as connection:
            row = connection.execute(
                "SELECT json_extract(header, '$.time') FROM log_entries ORDER BY epoch DESC, log_index DESC LIMIT 1"
            ).fetchone()
        return row[0] if row else 0

    def head(self, url: str, ref: str) -> int | None:
        """The index of the newest header of a repository that was not withdrawn since."""
        with self.database.read() as connection:
            row = connection.execute(
                "SELECT log_index FROM heads WHERE repo_url = ? AND ref = ?", (url, ref)
            ).fetchone()
        return row[0] if row else None

    def heads(self) -> dict[tuple[str, str], tuple[int, bytes]]:
        """Index and digest of the newest headers of all repositories that are published, by URL and ref."""
        query = "SELECT repo_url, ref, log_index, digest FROM heads WHERE epoch = ?"
        epoch = self.epoch
        with self.database.read() as connection:
            return {(url, ref): (index, digest) for url, ref, index, digest in connection.execute(query, (epoch,))}

    def header_text(self, index: int) -> str:
        """The header at an index as it was hashed."""
        with self.database.read() as connection:
            row = connection.execute(
                "SELECT header FROM log_entries WHERE epoch = ? AND log_index = ?", (self.epoch, index)
            ).fetchone()
        if row is None:
            raise NotFoundError(f"the log has no entry {index}")
        found: str = row[0]
        return found

    def leaves(self, epoch: int, start: int, end: int) -> list[bytes]:
        """The hashes of leaves of one of the node's logs."""
        with self.database.read() as connection:
            rows = connection.execute(
                "SELECT hash FROM log_hashes WHERE epoch = ? AND level = 0 AND position >= ? AND position < ? "
                "ORDER BY position",
                (epoch, start, end),
            )
            return [one for (one,) in rows]

    def log_reader(self) -> LogReader:
        """The hashes of the log that is written now, for proofs."""
        return LogReader(self.database, self.epoch)

    def epoch_notes(self) -> list[str]:
        """The notes that began epochs, oldest first."""
        with self.database.read() as connection:
            return [note for (note,) in connection.execute("SELECT note FROM epochs ORDER BY epoch")]

    # Keys and epochs

    def key_notes(self) -> list[str]:
        """Rotations and revocations, oldest first."""
        with self.database.read() as connection:
            return [note for (note,) in connection.execute("SELECT note FROM key_notes ORDER BY id")]

    def add_key_note(self, note: str) -> None:
        """Keep a rotation or revocation; from here on it decides which key signs."""
        self.database.write(
            lambda connection: connection.execute("INSERT INTO key_notes (note) VALUES (?)", (note,)).close()
        )

    def hold(self, reason: str) -> None:
        """Sign nothing from here on, until an epoch begins or the newest log is recovered."""
        self.set_setting(HELD, reason)

    def held(self) -> str:
        """Why nothing is signed; empty where nothing stands against it."""
        return self.setting(HELD)

    def become_replicas(self, origin: bytes) -> None:
        """The repositories of an origin whose key is not here are kept, but no longer written."""

        def job(connection: sqlite3.Connection) -> None:
            connection.execute("UPDATE roster SET local = 0, path = NULL WHERE origin = ?", (origin,))
            connection.execute("DELETE FROM settings WHERE key IN (?, 'epoch')", (HELD,))
            for table in ("heads", "log_entries", "log_hashes", "checkpoints", "key_notes", "epochs"):
                connection.execute(f"DELETE FROM {table}")  # a log is its key's

        self.database.write(job)

    def begin_epoch(self, epoch: int, note: str) -> None:
        """Begin a log anew: no repository has a head in it yet."""

        def job(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO epochs VALUES (?, ?)", (epoch, note))
            connection.execute("INSERT OR REPLACE INTO settings VALUES ('epoch', ?)", (str(epoch),))
            connection.execute("DELETE FROM settings WHERE key = ?", (HELD,))
            connection.execute("DELETE FROM heads")

        self.database.write(job)

    def log_state(self) -> tuple[int, bytes]:
        """Size and root of the log."""
        epoch, size = self.epoch, self.size()
        with self.database.read() as connection:
            return size, tlog.root_from(LogHashes(connection, epoch), size) if size else tlog.EMPTY_ROOT

    def checkpoints(self) -> list[tuple[int, str]]:
        """Sizes and signed checkpoints of this epoch."""
        with self.database.read() as connection:
            return connection.execute(
                "SELECT size, note FROM checkpoints WHERE epoch = ? ORDER BY size", (self.epoch,)
            ).fetchall()

    def entries(self) -> list[tuple[int, str]]:
        """Indices and headers of this epoch as they are kept."""
        with self.database.read() as connection:
            return connection.execute(
                "SELECT log_index, header FROM log_entries WHERE epoch = ? ORDER BY log_index", (self.epoch,)
            ).fetchall()

    def kept_hashes(self, size: int) -> tuple[list[bytes], bytes]:
        """The kept hashes of all leaves, and the root that the kept hashes lead to."""
        with self.database.read() as connection:
            hashes = LogHashes(connection, self.epoch)
            leaves = [hashes.read(0, index) for index in range(size)]
            return leaves, tlog.root_from(hashes, size) if size else tlog.EMPTY_ROOT

    def integrity_errors(self) -> list[str]:
        """What SQLite itself finds wrong."""
        with self.database.read() as connection:
            return [text for (text,) in connection.execute("PRAGMA integrity_check") if text != "ok"]

    def size(self) -> int:
        """How many entries the log has."""
        with self.database.read() as connection:
            (size,) = connection.execute("SELECT count(*) FROM log_entries WHERE epoch = ?", (self.epoch,)).fetchone()
        found: int = size
        return found

    def headers(self, url: str | None = None, ref: str | None = None) -> list[Header]:
        """The headers of the log, oldest first; of one repository and ref if they are given."""
        with self.database.read() as connection:
            rows = connection.execute(
                "SELECT header FROM log_entries WHERE epoch = ?1 AND (?2 IS NULL OR repo_url = ?2) "
                "AND (?3 IS NULL OR ref = ?3) ORDER BY log_index",
                (self.epoch, url, ref),
            ).fetchall()
        return [header_from_json(json.loads(text), "the log") for (text,) in rows]

    def header(self, index: int) -> Header:
        """The header at an index."""
        return header_from_json(json.loads(self.header_text(index)), "the log")

    def checkpoint(self) -> str:
        """The newest signed checkpoint; empty before the first."""
        with self.database.read() as connection:
            row = connection.execute(
                "SELECT note FROM checkpoints WHERE epoch = ? ORDER BY size DESC LIMIT 1", (self.epoch,)
            ).fetchone()
        return row[0] if row else ""
