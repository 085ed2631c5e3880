"""What the node holds of other nodes' histories: enough to believe them today and to prove it later.

Promises: every change is one transaction and on disk when it returns; a pin moves up only, and only from the state
that the move was checked against; evidence once found stays.
Must never: overwrite a header, an epoch or a checkpoint with another one for the same place (that is a fork, and for
whoever called to keep as evidence), or let one origin's misbehaviour fill the disk.
It verifies no signature and no proof: whoever calls has done that.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from hashlib import sha256
from typing import Final, NamedTuple

from knowing_protocol.errors import RejectedError
from knowing_protocol.history import origin_id
from knowing_protocol.keys import MAX_KEY_NOTES

from knowingd.errors import NotFoundError
from knowingd.store.database import Database

MAX_EVIDENCE: Final = 64
"""How many pieces of one kind are kept against one origin: it is proven by then."""
MAX_QUARANTINE: Final = 1024
MAX_REASON: Final = 500


class PinRow(NamedTuple):
    """The highest state of a log that was seen and checked, with the checkpoint that says so."""

    origin: bytes
    epoch: int
    size: int
    root: bytes
    note: str


class EntryRow(NamedTuple):
    """A header of another node's log, and its inclusion path (joined hashes) in the checkpoint of `size`."""

    origin: bytes
    epoch: int
    log_index: int
    repo_url: str
    ref: str
    header: str
    size: int
    path: bytes


class AccessRow(NamedTuple):
    """An origin's signed access list for one of its repositories."""

    origin: bytes
    repo_url: str
    serial: int
    note: str


class EvidenceRow(NamedTuple):
    """Proof that an origin has broken its word."""

    id: int
    origin: bytes
    kind: str
    body: str
    found_at: int


class QuarantineRow(NamedTuple):
    """A root for which a peer sent what does not lead there."""

    peer_origin: bytes
    root: bytes
    reason: str
    at: int


_ENTRY: Final = "SELECT origin, epoch, log_index, repo_url, ref, header, size, path FROM origin_entries"
_EVIDENCE: Final = "SELECT id, origin, kind, body, found_at FROM evidence"
_PIN: Final = "SELECT origin, epoch, size, root, note FROM pins"


class OriginStore:
    """Other nodes' histories, in the node's own database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # Keys and epochs

    def add_origin(self, first_key: bytes) -> bytes:
        """Know a node by its first key; its id."""
        origin = origin_id(first_key)
        self._database.write(
            lambda connection: connection.execute(
                "INSERT OR IGNORE INTO origins VALUES (?, ?)", (origin, first_key)
            ).close()
        )
        return origin

    def first_key(self, origin: bytes) -> bytes | None:
        """The first key of a node that is known, as a peer or through one."""
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT first_key FROM origins WHERE origin = ?1 UNION SELECT first_key FROM peers WHERE origin = ?1",
                (origin,),
            ).fetchone()
        return row[0] if row else None

    def add_key_notes(self, origin: bytes, notes: Iterable[str]) -> int:
        """Keep the rotations and revocations of a node that are new, after those known; how many were."""

        def job(connection: sqlite3.Connection) -> int:
            return _add_key_notes(connection, origin, notes)

        return self._database.write(job)

    def key_notes(self, origin: bytes) -> list[str]:
        """The rotations and revocations of a node, oldest first."""
        with self._database.read() as connection:
            rows = connection.execute("SELECT note FROM origin_key_notes WHERE origin = ? ORDER BY id", (origin,))
            return [note for (note,) in rows]

    def add_epoch(self, origin: bytes, epoch: int, note: str) -> None:
        """Keep the note that begins an epoch of a node."""

        def job(connection: sqlite3.Connection) -> None:
            row = connection.execute(
                "SELECT note FROM origin_epochs WHERE origin = ? AND epoch = ?", (origin, epoch)
            ).fetchone()
            if row is not None and row[0] != note:
                raise _conflict(f"epoch {epoch} of {origin.hex()[:16]} was begun by another note")
            connection.execute("INSERT OR IGNORE INTO origin_epochs VALUES (?, ?, ?)", (origin, epoch, note))

        self._database.write(job)

    def epochs(self, origin: bytes) -> list[tuple[int, str]]:
        """Epochs of a node with the notes that began them, oldest first."""
        with self._database.read() as connection:
            return connection.execute(
                "SELECT epoch, note FROM origin_epochs WHERE origin = ? ORDER BY epoch", (origin,)
            ).fetchall()

    # Pins

    def pin(self, origin: bytes, epoch: int) -> PinRow | None:
        """The highest known state of a log."""
        with self._database.read() as connection:
            return _pin(connection, origin, epoch)

    def pins(self, origin: bytes | None = None) -> list[PinRow]:
        """The pins of an origin, or all, by origin and epoch."""
        with self._database.read() as connection:
            rows = connection.execute(f"{_PIN} WHERE ?1 IS NULL OR origin = ?1 ORDER BY origin, epoch", (origin,))
            return [PinRow(*row) for row in rows]

    # Headers

    def put_entries(self, entries: Iterable[EntryRow]) -> None:
        """Keep headers with their paths; a header that is there already may get a newer path, but not be another."""
        rows = tuple(entries)

        def job(connection: sqlite3.Connection) -> None:
            for row in rows:
                _put_entry(connection, row)

        self._database.write(job)

    def entry(self, origin: bytes, epoch: int, log_index: int) -> EntryRow | None:
        """The header at an index of a log."""
        with self._database.read() as connection:
            row = connection.execute(
                f"{_ENTRY} WHERE origin = ? AND epoch = ? AND log_index = ?", (origin, epoch, log_index)
            ).fetchone()
        return EntryRow(*row) if row else None

    def head(self, origin: bytes, url: str, ref: str) -> EntryRow | None:
        """The newest header of a repository that is kept."""
        with self._database.read() as connection:
            row = connection.execute(
                f"{_ENTRY} WHERE origin = ? AND repo_url = ? AND ref = ? ORDER BY epoch DESC, log_index DESC LIMIT 1",
                (origin, url, ref),
            ).fetchone()
        return EntryRow(*row) if row else None

    def entries(self, origin: bytes, url: str | None = None, ref: str | None = None) -> list[EntryRow]:
        """The kept headers of an origin, or of one of its repositories, oldest first."""
        with self._database.read() as connection:
            rows = connection.execute(
                f"{_ENTRY} WHERE origin = ?1 AND (?2 IS NULL OR repo_url = ?2) AND (?3 IS NULL OR ref = ?3) "
                "ORDER BY epoch, log_index",
                (origin, url, ref),
            )
            return [EntryRow(*row) for row in rows]

    # Access lists

    def put_access(self, row: AccessRow) -> bool:
        """Keep an access list if it is newer than the one that is kept; whether it was."""
        return self._database.write(
            lambda connection: (
                connection.execute(
                    "INSERT INTO origin_access VALUES (?, ?, ?, ?) ON CONFLICT (origin, repo_url) "
                    "DO UPDATE SET serial = excluded.serial, note = excluded.note WHERE excluded.serial > serial",
                    row,
                ).rowcount
                > 0
            )
        )

    def access(self, origin: bytes, url: str) -> AccessRow | None:
        """The newest access list of a repository."""
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT origin, repo_url, serial, note FROM origin_access WHERE origin = ? AND repo_url = ?",
                (origin, url),
            ).fetchone()
        return AccessRow(*row) if row else None

    # Evidence

    def add_evidence(self, origin: bytes, kind: str, body: str, found_at: int) -> EvidenceRow | None:
        """Keep evidence and give its row, an earlier one if it is known; None where there is plenty of the kind."""
        digest = sha256(b"\0".join((origin.hex().encode(), kind.encode(), body.encode()))).digest()

        def job(connection: sqlite3.Connection) -> EvidenceRow | None:
            (kept,) = connection.execute(
                "SELECT count(*) FROM evidence WHERE origin = ? AND kind = ?", (origin, kind)
            ).fetchone()
            if kept < MAX_EVIDENCE:
                connection.execute(
                    "INSERT OR IGNORE INTO evidence (origin, kind, body, digest, found_at) VALUES (?, ?, ?, ?, ?)",
                    (origin, kind, body, digest, found_at),
                )
            row = connection.execute(f"{_EVIDENCE} WHERE digest = ?", (digest,)).fetchone()
            return EvidenceRow(*row) if row else None

        return self._database.write(job)

    def evidence(self, origin: bytes | None = None) -> list[EvidenceRow]:
        """All evidence, or that against an origin, oldest first."""
        with self._database.read() as connection:
            rows = connection.execute(f"{_EVIDENCE} WHERE ?1 IS NULL OR origin = ?1 ORDER BY id", (origin,))
            return [EvidenceRow(*row) for row in rows]

    def evidence_by_id(self, number: int) -> EvidenceRow:
        """One piece of evidence."""
        with self._database.read() as connection:
            row = connection.execute(f"{_EVIDENCE} WHERE id = ?", (number,)).fetchone()
        if row is None:
            raise NotFoundError(f"there is no evidence {number}", hint="`knowing evidence` lists what there is")
        return EvidenceRow(*row)

    # Quarantine

    def quarantine(self, peer_origin: bytes, root: bytes, reason: str, now: int) -> None:
        """Ask this peer for this root no more; of the oldest, too many are forgotten."""

        def job(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT OR REPLACE INTO quarantine VALUES (?, ?, ?, ?)", (peer_origin, root, reason[:MAX_REASON], now)
            )
            connection.execute(
                "DELETE FROM quarantine WHERE peer_origin = ?1 AND root IN (SELECT root FROM quarantine "
                "WHERE peer_origin = ?1 ORDER BY at DESC, root LIMIT -1 OFFSET ?2)",
                (peer_origin, MAX_QUARANTINE),
            )

        self._database.write(job)

    def quarantined(self, peer_origin: bytes, root: bytes) -> bool:
        """Whether this peer is not to be asked for this root."""
        with self._database.read() as connection:
            return (
                connection.execute(
                    "SELECT 1 FROM quarantine WHERE peer_origin = ? AND root = ?", (peer_origin, root)
                ).fetchone()
                is not None
            )

    def quarantines(self) -> list[QuarantineRow]:
        """Everything in quarantine, oldest first."""
        with self._database.read() as connection:
            rows = connection.execute("SELECT peer_origin, root, reason, at FROM quarantine ORDER BY at, root")
            return [QuarantineRow(*row) for row in rows]

    def clear_quarantine(self, peer_origin: bytes | None = None) -> int:
        """Forget the quarantines of a peer, or all; how many there were."""
        return self._database.write(
            lambda connection: (
                connection.execute(
                    "DELETE FROM quarantine WHERE ?1 IS NULL OR peer_origin = ?1", (peer_origin,)
                ).rowcount
            )
        )


def _pin(connection: sqlite3.Connection, origin: bytes, epoch: int) -> PinRow | None:
    row = connection.execute(f"{_PIN} WHERE origin = ? AND epoch = ?", (origin, epoch)).fetchone()
    return PinRow(*row) if row else None


def _add_key_notes(connection: sqlite3.Connection, origin: bytes, notes: Iterable[str]) -> int:
    known = {note for (note,) in connection.execute("SELECT note FROM origin_key_notes WHERE origin = ?", (origin,))}
    fresh = [note for note in dict.fromkeys(notes) if note not in known]
    if len(known) + len(fresh) > MAX_KEY_NOTES:
        raise RejectedError("too-long", f"{origin.hex()[:16]} has more than {MAX_KEY_NOTES} key notes")
    connection.executemany("INSERT INTO origin_key_notes (origin, note) VALUES (?, ?)", [(origin, n) for n in fresh])
    return len(fresh)


def _put_entry(connection: sqlite3.Connection, row: EntryRow) -> None:
    known = connection.execute(
        "SELECT header FROM origin_entries WHERE origin = ? AND epoch = ? AND log_index = ?", row[:3]
    ).fetchone()
    if known is not None and known[0] != row.header:
        raise _conflict(f"entry {row.log_index} of {row.origin.hex()[:16]} is known with another header")
    connection.execute("INSERT OR REPLACE INTO origin_entries VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)


def _conflict(message: str) -> RejectedError:
    return RejectedError("history-conflict", message, hint="`knowing evidence` shows what was found")
