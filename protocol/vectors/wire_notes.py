"""Vectors of evidence: two signed statements of one node that cannot both be true, and what only looks like it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from knowing_protocol import tlog
from knowing_protocol.encoding import canonical_json
from knowing_protocol.evidence import FORK, ROLLBACK, evidence_document
from knowing_protocol.history import checkpoint_of, log_name, node_name
from knowing_protocol.keys import Revocation, Rotation, revocation_text, rotation_text
from knowing_protocol.note import checkpoint_text, sign_note
from wire import HUB, bad, document, good
from wire_world import LEDGER, WIDE, Origin, history, ledger, wide
from world import START, Node, seed

from knowingd.keys import SigningKey, public_key_of


def forked() -> Origin:
    """Another history of the same node, from its second entry on."""
    made = Origin("hub")
    made.take(LEDGER, ledger(later=False), "1" * 40)
    made.take(WIDE, wide(later=True), "6" * 40)
    made.take(WIDE, wide(later=False), "7" * 40)
    made.take(WIDE, wide(later=True), "8" * 40)
    made.take(WIDE, wide(later=False), "9" * 40)
    return made


def signed_at(node: Node, size: int, time: int, key: str = "hub") -> str:
    """A checkpoint of a node with another time than it would have."""
    checkpoint = checkpoint_of(node.origin, node.epoch, size, node.log.root(size), time)
    return sign_note(checkpoint_text(checkpoint), [SigningKey(log_name(node.origin, node.epoch), seed(key))])


def node_note(text: str, *names: str) -> str:
    """A note that speaks for the hub, by keys of its."""
    return sign_note(text, [SigningKey(node_name(HUB.origin), seed(name)) for name in names])


def rotated(epoch: int, size: int) -> str:
    """The hub's key hands over to another."""
    later = public_key_of(seed("hub, later"))
    return node_note(rotation_text(Rotation(HUB.origin, epoch, size, HUB.first_key, later)), "hub", "hub, later")


def revoked(epoch: int, size: int, *signers: str) -> str:
    """The hub's first key is revoked."""
    return node_note(revocation_text(Revocation(HUB.origin, epoch, size, HUB.first_key)), *signers)


def where(one: Origin, size: int, other: Origin, other_size: int, index: int) -> dict[str, Any]:
    """The place at which two logs have different leaves, and the ways to both roots."""
    sides = ((one, size), (other, other_size))
    return {
        "index": index,
        "leaves": [log.headers[index].leaf.hex() for log, _ in sides],
        "paths": [[step.hex() for step in tlog.inclusion_proof(log.log, index, upto)] for log, upto in sides],
    }


def _shown(
    kind: str, notes: tuple[str, str], place: Mapping[str, Any] | None = None, keys: list[str] | None = None
) -> str:
    return evidence_document(kind, HUB.first_key, keys or [], notes, place or {})


def _changed(text: str, **changes: Any) -> str:
    return canonical_json({**json.loads(text), **changes}).decode()


def _true() -> Iterable[tuple[str, str, str]]:
    honest, other = history(), forked()
    pair = (honest.note(2), other.note(2))
    yield "fork-of-one-size", "One size, two roots.", _shown(FORK, pair)
    notes = (honest.note(2), other.note(5))
    yield "fork-between-two-sizes", "Another leaf at one place.", _shown(FORK, notes, where(honest, 2, other, 5, 1))
    yield "fork-of-one-size-with-a-place", "More than is needed.", _shown(FORK, pair, where(honest, 2, other, 2, 1))
    later = signed_at(honest, 1, START + 9999)
    yield "rollback", "A shorter log, signed later.", _shown(ROLLBACK, (honest.note(5), later))
    keys = [rotated(0, 2)]
    notes = (honest.note(2), signed_at(other, 5, START + 300, "hub, later"))
    about = "Two keys of one node signed, each in its range."
    yield "fork-over-a-rotation", about, _shown(FORK, notes, where(honest, 2, other, 5, 1), keys)


def _untrue() -> Iterable[tuple[str, str, str]]:
    honest, other, shop = history(), forked(), Node("shop")
    fork = _shown(FORK, (honest.note(2), other.note(2)))
    place = where(honest, 2, other, 5, 1)
    notes = (honest.note(2), other.note(5))
    between = _shown(FORK, notes, place)
    rollback = _shown(ROLLBACK, (honest.note(5), signed_at(honest, 1, START + 9999)))

    def moved(**changes: Any) -> str:
        return _changed(between, **changes)

    # who signed
    yield "evidence-signed-by-another-key", "unsigned", _changed(fork, notes=[honest.note(2), other.note(2, "shop")])
    forged = other.note(2).replace("\n2\n", "\n3\n")
    yield "evidence-with-a-note-changed", "bad-signature", _changed(fork, notes=[honest.note(2), forged])
    yield "evidence-of-a-foreign-origin", "evidence", _changed(fork, origin=shop.origin.hex())
    foreign = {"first_key": shop.first_key.hex(), "origin": shop.origin.hex()}
    yield "evidence-with-the-keys-of-another-node", "checkpoint-origin", _changed(fork, **foreign)
    yield "evidence-with-a-key-that-is-none", "bad-key", _changed(fork, first_key="02" + "00" * 31)
    late = _shown(FORK, (honest.note(2), other.note(5)), place, [rotated(0, 2)])
    yield "evidence-by-a-rotated-key-out-of-range", "key-range", late
    early = (honest.note(1), signed_at(other, 1, START, "hub, later"))
    yield (
        "evidence-by-a-key-before-its-range",
        "key-range",
        _shown(FORK, early, keys=[rotated(0, 2)]),
    )
    void = _shown(FORK, notes, place, [revoked(0, 2, "hub")])
    yield "evidence-by-a-revoked-key-out-of-range", "key-range", void
    yield "evidence-with-a-key-note-of-another", "key-rotation", _changed(fork, key_notes=[
        node_note(rotation_text(Rotation(HUB.origin, 0, 2, shop.first_key, HUB.first_key)), "shop", "hub")
    ])  # fmt: skip
    # what is shown
    yield "evidence-of-one-root", "evidence", _changed(fork, notes=[honest.note(2), signed_at(honest, 2, START + 9999)])
    yield "evidence-of-the-same-note-twice", "evidence", _changed(fork, notes=[honest.note(2)] * 2)
    yield "fork-of-two-sizes-without-a-place", "evidence", _shown(FORK, notes)
    yield "fork-with-the-same-leaf", "evidence", _shown(FORK, notes, where(honest, 2, other, 5, 0))
    yield "fork-of-one-log", "evidence", _shown(FORK, (honest.note(2), honest.note(5)), where(honest, 2, honest, 5, 1))
    yield "fork-at-another-place", "log-inclusion", moved(index=0)
    yield "fork-beyond-the-shorter-log", "log-inclusion", moved(index=2)
    yield "fork-with-a-path-cut-off", "log-inclusion", moved(paths=[place["paths"][0], place["paths"][1][:-1]])
    yield "fork-with-its-paths-swapped", "log-inclusion", moved(paths=place["paths"][::-1])
    yield "fork-with-a-leaf-that-is-in-no-log", "log-inclusion", moved(leaves=[place["leaves"][0], "00" * 32])
    yield "fork-with-one-leaf", "evidence", moved(leaves=place["leaves"][:1])
    yield (
        "rollback-whose-later-log-is-longer",
        "evidence",
        _changed(rollback, notes=[honest.note(2), signed_at(honest, 5, START + 9999)]),
    )
    yield "rollback-of-one-size", "evidence", _changed(rollback, notes=[honest.note(2), other.note(2)])
    yield "older-note-shown-later", "evidence", _changed(rollback, notes=[honest.note(5), honest.note(2)])
    same_time = signed_at(honest, 1, START + 300)
    yield "rollback-in-the-same-second", "evidence", _changed(rollback, notes=[honest.note(5), same_time])
    again = Origin("hub", 1)
    again.take(LEDGER, ledger(later=True), "1" * 40)
    yield (
        "evidence-of-two-epochs",
        "evidence",
        _changed(rollback, notes=[honest.note(2), signed_at(again, 1, START + 9999)]),
    )
    # its form
    yield "evidence-of-one-note", "evidence", _changed(fork, notes=[honest.note(2)])
    yield "evidence-of-three-notes", "too-long", _changed(fork, notes=[honest.note(2)] * 3)
    yield "evidence-of-another-kind", "unknown-value", _changed(fork, kind="equivocation")
    yield "evidence-of-version-2", "unknown-value", _changed(fork, format="knowing-evidence/v2")
    yield "evidence-with-a-place-and-no-paths", "missing-field", _changed(fork, index=1, leaves=place["leaves"])
    yield "evidence-with-an-unknown-field", "unknown-field", _changed(fork, note="")
    yield (
        "evidence-without-a-first-key",
        "missing-field",
        canonical_json({key: value for key, value in json.loads(fork).items() if key != "first_key"}).decode(),
    )
    yield "evidence-that-is-no-json", "not-json", fork[:-1]


def evidence() -> dict[str, Any]:
    """Documents of evidence, checked with nothing but themselves."""
    found = [good(name, about, "evidence", text=text) for name, about, text in _true()]
    found += [bad(name, code, "evidence", text=text) for name, code, text in _untrue()]
    return document(
        "evidence", "Documents of evidence: what those show that show something, and why others do not.", found
    )
