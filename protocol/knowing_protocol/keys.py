"""Which key of a node may sign which checkpoint: rotation and revocation, epochs, and attestations.

A node's id is the hash of its first key. A rotation is a note signed by the old and the new key and names the size of
the log up to which the old one signs. A revocation names the last size that a key may have signed; any key of the
node may sign it, because it can only take away. A revoked key hands over to no other, so a rotation stands before the
revocation. A new epoch is a note that names the last checkpoint of the old one. `knowing-attest/v1` lets another node
say of an entry that it checked its hashes or reproduced its root.

All of them are C2SP signed notes with one `field value` a line, in the order below, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from knowing_protocol import encoding
from knowing_protocol.ed25519 import Verifier, is_public_key
from knowing_protocol.errors import KnowingError, MalformedError, RejectedError
from knowing_protocol.history import node_name, origin_id
from knowing_protocol.note import Note, check_note, parse_note

ROTATE: Final = "knowing-rotate/v1"
REVOKE: Final = "knowing-revoke/v1"
EPOCH: Final = "knowing-epoch/v1"
ATTEST: Final = "knowing-attest/v1"
MAX_KEY_NOTES: Final = 64


@dataclass(frozen=True, slots=True)
class Rotation:
    """`old` signs logs up to `size` entries of an epoch, `new` from there on."""

    origin: bytes
    epoch: int
    size: int
    old: bytes
    new: bytes


@dataclass(frozen=True, slots=True)
class Revocation:
    """What `key` signed beyond `size` entries of an epoch, or in any later epoch, is void."""

    origin: bytes
    epoch: int
    size: int
    key: bytes


@dataclass(frozen=True, slots=True)
class NewEpoch:
    """Epoch `epoch` begins; the last known state of the one before it had this size and root."""

    origin: bytes
    epoch: int
    size: int
    root: bytes


@dataclass(frozen=True, slots=True)
class Attestation:
    """Another node's word on an entry: `hash-checked` or `reproduced`."""

    kind: str
    origin: bytes
    epoch: int
    index: int
    source: bytes
    extractor: bytes


def rotation_text(rotation: Rotation) -> str:
    """The text of a rotation note; the old and the new key sign it."""
    return _text(ROTATE, rotation.origin, rotation.epoch, rotation.size) + (
        f"old {rotation.old.hex()}\nnew {rotation.new.hex()}\n"
    )


def revocation_text(revocation: Revocation) -> str:
    """The text of a revocation note."""
    return _text(REVOKE, revocation.origin, revocation.epoch, revocation.size) + f"key {revocation.key.hex()}\n"


def epoch_text(epoch: NewEpoch) -> str:
    """The text of the note that begins an epoch."""
    return _text(EPOCH, epoch.origin, epoch.epoch, epoch.size) + f"root {epoch.root.hex()}\n"


def attestation_text(attestation: Attestation) -> str:
    """The text of an attestation."""
    return (
        f"{ATTEST}\nkind {attestation.kind}\norigin {attestation.origin.hex()}\nepoch {attestation.epoch}\n"
        f"index {attestation.index}\nsource {attestation.source.hex()}\nextractor {attestation.extractor.hex()}\n"
    )


def _text(title: str, origin: bytes, epoch: int, size: int) -> str:
    return f"{title}\norigin {origin.hex()}\nepoch {epoch}\nsize {size}\n"


def parse_attestation(text: str) -> Attestation:
    """The attestation that a note's text states."""
    fields = _fields(text, ATTEST, ("kind", "origin", "epoch", "index", "source", "extractor"))
    if fields["kind"] not in {"hash-checked", "reproduced"}:
        raise MalformedError("an attestation says hash-checked or reproduced", code="attestation-kind")
    return Attestation(
        fields["kind"],
        encoding.digest(fields["origin"], "origin"),
        _count(fields["epoch"]),
        _count(fields["index"]),
        encoding.digest(fields["source"], "source"),
        encoding.digest(fields["extractor"], "extractor"),
    )


def parse_epoch(text: str) -> NewEpoch:
    """The new epoch that a note's text states."""
    fields = _fields(text, EPOCH, ("origin", "epoch", "size", "root"))
    return NewEpoch(*_log_fields(fields), encoding.digest(fields["root"], "root"))


def parse_key_note(text: str) -> Rotation | Revocation:
    """The rotation or revocation that a note's text states."""
    if text.startswith(ROTATE + "\n"):
        fields = _fields(text, ROTATE, ("origin", "epoch", "size", "old", "new"))
        return Rotation(
            *_log_fields(fields), encoding.digest(fields["old"], "old"), encoding.digest(fields["new"], "new")
        )
    fields = _fields(text, REVOKE, ("origin", "epoch", "size", "key"))
    return Revocation(*_log_fields(fields), encoding.digest(fields["key"], "key"))


def _log_fields(fields: Mapping[str, str]) -> tuple[bytes, int, int]:
    return encoding.digest(fields["origin"], "origin"), _count(fields["epoch"]), _count(fields["size"])


def _fields(text: str, title: str, names: tuple[str, ...]) -> dict[str, str]:
    lines = text.split("\n")
    if lines[0] != title or len(lines) != len(names) + 2 or lines[-1]:
        raise MalformedError(f"the note is not a {title} note", code="key-note")
    found = {}
    for name, line in zip(names, lines[1:-1], strict=True):
        if not line.startswith(name + " "):
            raise MalformedError(f"the {title} note has no field {name!r} where it belongs", code="key-note")
        found[name] = line[len(name) + 1 :]
    return found


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 16) or (text[0] == "0" and text != "0"):
        raise MalformedError(f"{text[:20]!r} is not a canonical number", code="key-note")
    return encoding.integer(int(text), "the number")


def _check_key(key: bytes) -> None:
    """Refuse what no honest node has as a key, whichever implementation checks its signatures."""
    if not is_public_key(key):
        raise RejectedError("bad-key", "a key is not a point that signatures can be checked with")


class KeyChain:
    """The keys of one node, each with the range of log states that it may sign."""

    def __init__(self, first_key: bytes) -> None:
        _check_key(first_key)
        self.origin = origin_id(first_key)
        # For each key, the (epoch, size) from which and up to which it signs; None is without end.
        self._ranges: dict[bytes, tuple[tuple[int, int], tuple[int, int] | None]] = {first_key: ((0, 0), None)}
        self._current = first_key
        self._revoked: set[bytes] = set()
        self._seen: set[str] = set()

    @property
    def current(self) -> bytes:
        """The newest key."""
        return self._current

    def is_revoked(self, key: bytes) -> bool:
        """Whether a key was revoked, whatever it may still stand for in the past."""
        return key in self._revoked

    @property
    def keys(self) -> tuple[bytes, ...]:
        """All keys that the node ever had, oldest first."""
        return tuple(self._ranges)

    def add(self, notes: Iterable[str], verify: Verifier) -> None:
        """Take in rotation notes, oldest first, and revocations; each must be signed by keys of this chain.

        A note that is already known changes nothing, so that a bundle may repeat what the trust file has.
        """
        for count, text in enumerate(notes):
            if count >= MAX_KEY_NOTES:
                raise MalformedError(f"more than {MAX_KEY_NOTES} key notes", code="too-long")
            if text in self._seen:
                continue
            self._seen.add(text)
            note = parse_note(text)
            stated = parse_key_note(note.text)
            if stated.origin != self.origin:
                raise RejectedError("key-note-foreign", "a key note is of another node than the checkpoint")
            if isinstance(stated, Rotation):
                self._rotate(note, stated, verify)
            else:
                self._revoke(note, stated, verify)

    def _rotate(self, note: Note, rotation: Rotation, verify: Verifier) -> None:
        at = (rotation.epoch, rotation.size)
        known = self._ranges.get(rotation.new)
        if known is not None and known[0] == at:
            return
        if rotation.old != self._current or known is not None:
            raise RejectedError("key-rotation", "a rotation does not start at the node's newest key")
        _check_key(rotation.new)
        start, _ = self._ranges[rotation.old]
        if at < start:
            raise RejectedError("key-rotation", "a rotation lies before the range of the key that it ends")
        if rotation.old in self._revoked:  # whoever stole the key would sign just this
            raise RejectedError("key-rotation", "a revoked key cannot hand over to another")
        for key in (rotation.old, rotation.new):
            check_note(note, node_name(self.origin), key, verify)
        self._ranges[rotation.old] = (start, at)
        self._ranges[rotation.new] = (at, None)
        self._current = rotation.new

    def _revoke(self, note: Note, revocation: Revocation, verify: Verifier) -> None:
        if revocation.key not in self._ranges:
            raise RejectedError("key-revocation", "a revocation names a key that the node never had")
        self._signed_by_any(note, verify)
        self._revoked.add(revocation.key)
        start, end = self._ranges[revocation.key]
        at = (revocation.epoch, revocation.size)
        self._ranges[revocation.key] = (start, at if end is None else min(end, at))

    def _signed_by_any(self, note: Note, verify: Verifier) -> None:
        for key in self._ranges:
            try:
                check_note(note, node_name(self.origin), key, verify)
            except KnowingError:
                continue
            return
        raise RejectedError("bad-signature", "a revocation is signed by no key of the node")

    def check_range(self, key: bytes, epoch: int, size: int) -> None:
        """That a key may sign a checkpoint of this epoch and size."""
        start, end = self._ranges[key]
        if (epoch, size) < start:
            raise RejectedError("key-range", "the checkpoint is signed by a key that was not yet the node's")
        if end is not None and (epoch, size) > end:
            raise RejectedError("key-range", "the checkpoint is signed by a rotated or revoked key beyond its range")
