"""Proof that a node signed two histories of its log that cannot both be true; it speaks for itself.

    format     knowing-evidence/v1
    kind       fork: two roots for one size, or different leaves at one place of two sizes
               rollback: a shorter log signed later than a longer one
    origin     the node; first_key, key_notes: its keys
    notes      the two checkpoints, in the order in which they were seen
    index, leaves, paths    of a fork between two sizes: where they differ, and the way to each root

Whoever has the document can check it, and needs to trust nobody for that: the node's id is the hash of its first key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from knowing_protocol import encoding, tlog
from knowing_protocol.ed25519 import Verifier
from knowing_protocol.encoding import canonical_json, parse_json
from knowing_protocol.errors import MalformedError, RejectedError
from knowing_protocol.history import checkpoint_time, log_name, log_of_checkpoint
from knowing_protocol.keys import MAX_KEY_NOTES, KeyChain
from knowing_protocol.note import check_note, parse_checkpoint, parse_note, signature_by

EVIDENCE: Final = "knowing-evidence/v1"
FORK, ROLLBACK = "fork", "rollback"
MAX_EVIDENCE_BYTES: Final = 1 << 20
_NOTE: Final = encoding.text(1 << 16, empty=False)
_IS_EVIDENCE: Final = re.compile(rb'"format"\s*:\s*"knowing-evidence/')


class State(NamedTuple):
    """A state of a log that its node signed."""

    origin: bytes
    epoch: int
    size: int
    root: bytes
    note: str
    time: int


class Evidence(NamedTuple):
    """What a document shows."""

    kind: str
    before: State
    after: State

    @property
    def sentence(self) -> str:
        """What it shows, for people."""
        what = "a shorter log after a longer one" if self.kind == ROLLBACK else "two different histories"
        states = " and ".join(f"size {one.size} with root {one.root.hex()[:16]}" for one in (self.before, self.after))
        return f"The node {self.before.origin.hex()[:16]} signed {what} of its log: {states}."


def signed_state(text: str, chain: KeyChain, verify: Verifier) -> State:
    """The state that a checkpoint says, if a key of the node signed it that may."""
    note = parse_note(text)
    checkpoint = parse_checkpoint(note.text)
    origin, epoch = log_of_checkpoint(checkpoint)
    if origin != chain.origin:
        raise RejectedError("checkpoint-origin", "a checkpoint is of another node")
    name = log_name(origin, epoch)
    key = next((key for key in reversed(chain.keys) if signature_by(note, name, key) is not None), None)
    if key is None:
        raise RejectedError("unsigned", "no key of the node signed its checkpoint")
    check_note(note, name, key, verify)
    chain.check_range(key, epoch, checkpoint.size)
    return State(origin, epoch, checkpoint.size, checkpoint.root, text, checkpoint_time(checkpoint))


def evidence_document(
    kind: str, first_key: bytes, key_notes: list[str], notes: tuple[str, str], where: Mapping[str, Any]
) -> str:
    """The document; `where` has the place, leaves and paths of a fork between two sizes, or nothing."""
    return canonical_json(
        {
            "format": EVIDENCE,
            "kind": kind,
            "origin": KeyChain(first_key).origin.hex(),
            "first_key": first_key.hex(),
            "key_notes": key_notes,
            "notes": list(notes),
            **where,
        }
    ).decode()


_WHERE: Final = {
    "index": encoding.integer,
    "leaves": encoding.sequence(encoding.digest, 2),
    "paths": encoding.sequence(encoding.sequence(encoding.digest, 64), 2),
}
_PLAIN: Final = {
    "format": encoding.one_of(EVIDENCE),
    "kind": encoding.one_of(FORK, ROLLBACK),
    "origin": encoding.digest,
    "first_key": encoding.digest,
    "key_notes": encoding.sequence(_NOTE, MAX_KEY_NOTES),
    "notes": encoding.sequence(_NOTE, 2),
}


def is_evidence(data: bytes) -> bool:
    """Whether a file says to be evidence."""
    return _IS_EVIDENCE.search(data[:MAX_EVIDENCE_BYTES]) is not None


def check_evidence(data: bytes, verify: Verifier) -> Evidence:
    """What a document shows; refuses one that shows nothing."""
    plain = parse_json(data, MAX_EVIDENCE_BYTES)
    has_place = isinstance(plain, dict) and "index" in plain
    found = encoding.record({**_PLAIN, **(_WHERE if has_place else {})})(plain, "the evidence")
    chain = KeyChain(found["first_key"])
    if chain.origin != found["origin"]:
        raise RejectedError("evidence", "the evidence names another node than its key is of")
    chain.add(found["key_notes"], verify)
    if len(found["notes"]) != 2:
        raise MalformedError("evidence is two notes", code="evidence")
    before, after = (signed_state(note, chain, verify) for note in found["notes"])
    shown = Evidence(found["kind"], before, after)
    if before.epoch != after.epoch:
        raise RejectedError("evidence", "two epochs of a node are two logs")
    if shown.kind == ROLLBACK:
        if not (after.size < before.size and after.time > before.time):
            raise RejectedError("evidence", "the second log is not shorter, or was not signed later")
    elif not has_place:
        if before.size != after.size or before.root == after.root:
            raise RejectedError("evidence", "two sizes, or one root, are no fork by themselves")
    else:
        _check_place(shown, found)
    return shown


def _check_place(shown: Evidence, found: Mapping[str, Any]) -> None:
    leaves, paths = found["leaves"], found["paths"]
    if len(leaves) != 2 or len(paths) != 2 or leaves[0] == leaves[1]:
        raise RejectedError("evidence", "a fork is two different leaves at one place")
    for state, leaf, path in zip((shown.before, shown.after), leaves, paths, strict=True):
        tlog.check_inclusion(leaf, found["index"], state.size, path, state.root)
