"""Following another node's log: what it signs must grow out of what it signed before.

A node is known by its first key. Whoever shows a checkpoint of it, be it the node itself or a relay, shows the key
notes that lead from that key to the one that signed, and a path from the size that was seen last. Two checkpoints of
one size with different roots, or a log that became shorter, are kept as evidence: both notes verify anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from knowing_protocol import tlog
from knowing_protocol.ed25519 import Verifier
from knowing_protocol.encoding import canonical_json, parse_json
from knowing_protocol.errors import KnowingError, MalformedError, RejectedError
from knowing_protocol.evidence import FORK, ROLLBACK, State, evidence_document
from knowing_protocol.history import Header, header_from_json, node_name
from knowing_protocol.keys import KeyChain, parse_epoch
from knowing_protocol.note import check_note, parse_note

from knowingd.errors import PeerError

MAX_HEADER = 1 << 16


class DishonestLogError(PeerError):
    """Two signed statements of one node that cannot both be true; the second must not be followed."""

    code = "log-fork"

    def __init__(self, kind: str, before: State, after: State) -> None:
        super().__init__(
            f"SECURITY: the node {before.origin.hex()[:16]} signed two histories of its log ({kind}): "
            f"size {before.size} with root {before.root.hex()[:16]}, "
            f"then size {after.size} with root {after.root.hex()[:16]}",
            hint="`knowing evidence` has both signed notes; ask who runs that node before trusting it again",
        )
        self.kind = kind
        self.before = before
        self.after = after
        self.proof: dict[str, Any] = {}

    def body(self, first_key: bytes, key_notes: list[str]) -> str:
        """The evidence: everything that somebody else needs to check it."""
        return evidence_document(self.kind, first_key, key_notes, (self.before.note, self.after.note), self.proof)


def key_chain(first_key: bytes, notes: Iterable[str], verify: Verifier) -> KeyChain:
    """The keys of a node."""
    chain = KeyChain(first_key)
    chain.add(notes, verify)
    return chain


def follow(before: State | None, after: State, epochs: Iterable[str], chain: KeyChain, verify: Verifier) -> None:
    """That one signed state can follow another one; that it grew out of it is for the leaves to show."""
    if before is None:
        return
    if after.epoch != before.epoch:
        _follow_epoch(before, after, epochs, chain, verify)
    elif after.size == before.size and after.root != before.root:
        raise DishonestLogError(FORK, before, after)
    elif after.size < before.size:
        if after.time > before.time:  # not an old note that somebody kept, but a shorter log signed later
            raise DishonestLogError(ROLLBACK, before, after)
        raise PeerError(
            f"the peer is behind: it shows the log of {before.origin.hex()[:16]} at size {after.size}, "
            f"{before.size} was seen already",
            code="behind",
        )


def _follow_epoch(before: State, after: State, epochs: Iterable[str], chain: KeyChain, verify: Verifier) -> None:
    if after.epoch < before.epoch:
        raise PeerError(f"epoch {after.epoch} of {before.origin.hex()[:16]} has ended", code="old-epoch")
    for text in epochs:
        note = parse_note(text)
        stated = parse_epoch(note.text)
        if (stated.origin, stated.epoch) != (after.origin, after.epoch):
            continue
        if not signed_by_node(text, chain, verify):
            continue
        directly_after = after.epoch == before.epoch + 1  # the note of a later epoch names the end of one not seen
        if directly_after and stated.size == before.size and stated.root != before.root:
            raise PeerError(
                f"the note that begins epoch {after.epoch} of {before.origin.hex()[:16]} names another end of the last",
                code="epoch-mismatch",
            )
        return
    raise PeerError(f"epoch {after.epoch} of {before.origin.hex()[:16]} was never announced", code="epoch-unannounced")


def signed_by_node(text: str, chain: KeyChain, verify: Verifier) -> bool:
    """Whether a note that speaks for a node is signed by a key of it that was not revoked."""
    note = parse_note(text)
    for key in reversed(chain.keys):
        if chain.is_revoked(key):
            continue
        try:
            check_note(note, node_name(chain.origin), key, verify)
        except KnowingError:
            continue
        return True
    return False


def header_of_leaf(text: str, leaf: bytes) -> Header:
    """The header whose hash stands in a log."""
    raw = text.encode()
    header = header_from_json(parse_json(raw, MAX_HEADER), "the header")
    if canonical_json(header.as_json()) != raw:
        raise MalformedError("a header is not in its canonical form", code="not-canonical")
    if header.leaf != leaf:
        raise RejectedError("not-in-log", "a header is not what its origin's log has at that place")
    return header


def first_difference(before: State, after: State, old: Sequence[bytes], new: Sequence[bytes]) -> DishonestLogError:
    """The evidence that two signed states have different leaves at one place, once both leaf lists lead to them."""
    index = next(number for number, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1])
    paths = []
    for leaves, state in ((old, before), (new, after)):
        log = tlog.Log(leaves[: state.size])
        paths.append([one.hex() for one in tlog.inclusion_proof(log, index, state.size)])
    error = DishonestLogError(FORK, before, after)
    error.proof = {"index": index, "leaves": [old[index].hex(), new[index].hex()], "paths": paths}
    return error
