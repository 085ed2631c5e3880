"""Signatures, keys, logs, heads and rosters that are not what they are given for."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import positive
from forge import (
    changed,
    encoded,
    rejected,
)
from knowing_protocol.claims import Question
from knowing_protocol.hashing import external
from knowing_protocol.history import checkpoint_of, log_name
from knowing_protocol.note import checkpoint_text, sign_note
from knowing_protocol.prover import make_bundle
from knowing_protocol.statement import AllOf
from knowing_protocol.trust import Pin
from positive import CALLS, CHARGE, CHECKOUT, Case, case, everything
from world import PAYMENTS, SHOP, START, TOOLS, Node, payments, seed, world

from knowingd.keys import SigningKey


def resigned(base: Case, key: str, name: str | None = None) -> Case:
    """A case whose checkpoint is signed by another key."""

    def sign(parts: dict[str, Any]) -> None:
        note = parts["checkpoints"][0]["note"].split("\n\n")[0] + "\n"
        signer = SigningKey(name or note.split("\n", 1)[0], seed(key))
        parts["checkpoints"][0]["note"] = sign_note(note, [signer])

    return changed(base, sign)


@rejected("malformed")
def checkpoint_without_a_signature() -> Case:
    def strip(parts: dict[str, Any]) -> None:
        parts["checkpoints"][0]["note"] = parts["checkpoints"][0]["note"].split("\n\n")[0] + "\n"

    return changed(positive.relation(), strip)


@rejected("unsigned")
def checkpoint_signed_by_another_key() -> Case:
    return resigned(positive.relation(), "stranger")


@rejected("unsigned")
def checkpoint_signed_under_another_name() -> Case:
    return resigned(positive.relation(), "hub", "knowing/elsewhere")


@rejected("bad-signature")
def checkpoint_wrongly_signed() -> Case:
    def grow(parts: dict[str, Any]) -> None:
        note = parts["checkpoints"][0]["note"]
        parts["checkpoints"][0]["note"] = note.replace("\n4\n", "\n5\n", 1)

    return changed(positive.relation(), grow)


@rejected("foreign-key")
def checkpoint_of_a_node_that_is_not_trusted() -> Case:
    stranger = Node("stranger")
    stranger.commit(PAYMENTS, payments().records, "1" * 40)
    return case(make_bundle(Question("node", CHARGE), [stranger.subject(0)]), world().trusted())


@rejected("first-key")
def first_key_of_another_node() -> Case:
    def change(parts: dict[str, Any]) -> None:
        parts["checkpoints"][0]["first_key"] = Node("stranger").first_key.hex()

    return changed(positive.relation(), change)


@rejected("out-of-pattern")
def repository_outside_of_the_trusted_pattern() -> Case:
    node = world()
    return case(make_bundle(Question("node", CHARGE), [node.subject(0)]), node.trusted("github.com/other/*"))


@rejected("role")
def node_that_may_not_index() -> Case:
    node = world()
    return case(make_bundle(Question("node", CHARGE), [node.subject(0)]), node.trusted(roles=("attest",)))


@rejected("role")
def roster_of_a_node_that_may_not_speak_for_it() -> Case:
    node = world()
    question = Question("callers", external("python://hashlib.md5"), CALLS)
    bundle = make_bundle(question, node.subjects(), all_of=everything(node))
    return case(bundle, node.trusted(roles=("index",)))


@rejected("log-inclusion")
def header_not_in_the_log() -> Case:
    def change(parts: dict[str, Any]) -> None:
        parts["entries"][0]["header"]["time"] += 1

    return changed(positive.relation_at_an_old_commit(), change)


@rejected("log-inclusion")
def log_path_truncated() -> Case:
    def change(parts: dict[str, Any]) -> None:
        path = b64decode(parts["entries"][0]["path"])
        parts["entries"][0]["path"] = encoded(path[:-32])

    return changed(positive.relation_at_an_old_commit(), change)


@rejected("not-in-log")
def log_path_left_out() -> Case:
    return changed(positive.relation_at_an_old_commit(), lambda parts: parts["entries"][0].update(path=None))


@rejected("not-head")
def older_entry_claimed_as_head() -> Case:
    node = world()
    bundle = make_bundle(Question("no-node", CHECKOUT), [node.subject(1)], at="commits")
    honest = make_bundle(Question("node", CHECKOUT), [node.subject(3)])
    bundle["statement"]["at"] = "head"
    bundle["rosters"] = honest["rosters"]
    bundle["rosters"][0]["head"] = len(bundle["entries"])
    bundle["entries"].append(honest["entries"][0])
    return case(bundle, node.trusted())


@rejected("roster-head")
def roster_of_an_older_entry() -> Case:
    """The roster of the last entry but one, at which the old entry was still the newest."""
    node = world()
    bundle = make_bundle(Question("no-node", CHECKOUT), [node.subject(1, node.view(3))])
    bundle["checkpoints"][0]["note"] = node.note()
    for entry in bundle["entries"]:
        entry["path"] = encoded(b"".join(node.log.inclusion_proof(entry["header"]["index"], 4)))
    return case(bundle, node.trusted())


@rejected("no-roster")
def head_without_a_roster() -> Case:
    return changed(positive.relation(), lambda parts: parts["rosters"].clear())


@rejected("withdrawn")
def withdrawn_repository() -> Case:
    node = world()
    bundle = make_bundle(Question("no-node", CHECKOUT), [node.subject(1)], at="commits")
    gone = node.withdraw(SHOP)
    view = node.view()
    bundle["checkpoints"][0]["note"] = view.note
    bundle["entries"][0] = {
        "checkpoint": 0,
        "header": gone.as_json(),
        "path": encoded(b"".join(node.log.inclusion_proof(gone.index, view.size))),
    }
    bundle["statement"]["scope"][0].update(commit="", index=gone.index)
    return case(bundle, node.trusted())


@rejected("older-than-pin")
def checkpoint_older_than_the_pin() -> Case:
    node = world()
    pin = Pin(0, 4, node.log.root(4))
    bundle = make_bundle(Question("no-node", CHECKOUT), [node.subject(1, node.view(2))])
    return case(bundle, node.trusted(pins=(pin,)))


@rejected("older-than-pin")
def epoch_older_than_the_pin() -> Case:
    node = world()
    bundle = make_bundle(Question("node", CHARGE), [node.subject(0)])
    return case(bundle, node.trusted(pins=(Pin(1, 1, bytes(32)),)))


@rejected("fork")
def same_size_with_another_root() -> Case:
    node = world()
    bundle = make_bundle(Question("node", CHARGE), [node.subject(0)])
    return case(bundle, node.trusted(pins=(Pin(0, 4, bytes(32)),)))


@rejected("log-consistency")
def log_that_does_not_extend_the_pin() -> Case:
    node = world()
    view = node.view(consistent_with=[2])
    bundle = make_bundle(Question("node", CHARGE), [node.subject(0, view)])
    return case(bundle, node.trusted(pins=(Pin(0, 2, node.log.root(3)),)))


@rejected("key-range")
def rotated_key_used_beyond_its_range() -> Case:
    node = world()
    view = node.view(key_notes=[positive.rotation(node, "hub", "hub two", 2)])
    return case(make_bundle(Question("node", CHARGE), [node.subject(0, view)]), node.trusted())


@rejected("key-range")
def new_key_used_before_its_range() -> Case:
    node = world()
    view = node.view(key_notes=[positive.rotation(node, "hub", "hub two", 9)])
    bundle = make_bundle(Question("node", CHARGE), [node.subject(0, view)])
    return resigned(case(bundle, node.trusted()), "hub two")


@rejected("key-range")
def revoked_key_used_beyond_its_range() -> Case:
    """Only the trust file knows of the revocation."""
    node = world()
    notes = (positive.revocation(node, "hub", 3, "hub"),)
    return case(make_bundle(Question("node", CHARGE), [node.subject(0)]), node.trusted(notes=notes))


@rejected("unsigned")
def rotation_signed_by_the_new_key_alone() -> Case:
    node = world()
    note = positive.rotation(node, "hub", "stranger", 2)
    lines = note.splitlines(keepends=True)
    del lines[-2]
    view = node.view(key_notes=["".join(lines)])
    bundle = make_bundle(Question("node", CHARGE), [node.subject(0, view)])
    return resigned(case(bundle, node.trusted()), "stranger")


@rejected("key-note-foreign")
def rotation_of_another_node() -> Case:
    node = world()
    view = node.view(key_notes=[positive.rotation(Node("stranger"), "stranger", "hub two", 2)])
    return case(make_bundle(Question("node", CHARGE), [node.subject(0, view)]), node.trusted())


@rejected("checkpoint-twice")
def two_checkpoints_of_one_log() -> Case:
    return changed(positive.relation(), lambda parts: parts["checkpoints"].append(parts["checkpoints"][0]))


@rejected("checkpoint-time")
def checkpoint_without_a_time() -> Case:
    node = world()
    bundle = make_bundle(Question("node", CHARGE), [node.subject(0)])
    stated = checkpoint_of(node.origin, 0, 4, node.log.root(), START)
    bare = type(stated)(stated.origin, stated.size, stated.root, ())
    bundle["checkpoints"][0]["note"] = sign_note(
        checkpoint_text(bare), [SigningKey(log_name(node.origin, 0), seed("hub"))]
    )
    return case(bundle, node.trusted())


@rejected("scope-incomplete")
def repository_left_out_of_the_roster_scope() -> Case:
    """Nobody calls X in all repositories but the one that does, which the scope leaves out."""
    node = world()
    subjects = [one for one in node.subjects() if one.header.repository != SHOP]
    question = Question("callers", external("python://os.environ.get"), CALLS)
    return case(make_bundle(question, subjects, all_of=everything(node)), node.trusted())


@rejected("roster-incomplete")
def repository_left_out_of_roster_and_scope() -> Case:
    node = world()
    subjects = [one for one in node.subjects() if one.header.repository != SHOP]
    question = Question("callers", external("python://os.environ.get"), CALLS)
    bundle = make_bundle(question, subjects, all_of=everything(node))
    bundle["rosters"][0]["complete"] = [row for row in bundle["rosters"][0]["complete"] if row[0] != SHOP]
    return case(bundle, node.trusted())


@rejected("roster-incomplete")
def all_repositories_claimed_without_the_whole_roster() -> Case:
    node = world()
    bundle = make_bundle(Question("callers", external("python://hashlib.md5"), CALLS), node.subjects())
    bundle["statement"]["all_of"] = {"origin": node.origin.hex(), "epoch": 0, "ref": "HEAD", "pattern": "*"}
    return case(bundle, node.trusted())


@rejected("scope-incomplete")
def pattern_widened() -> Case:
    node = world()
    subjects = [one for one in node.subjects() if one.header.repository == TOOLS]
    question = Question("callers", external("python://os.environ.get"), CALLS)
    bundle = make_bundle(question, subjects, all_of=AllOf(node.origin, 0, "HEAD", "github.com/acme/t*"))
    bundle["statement"]["all_of"]["pattern"] = "*"
    return case(bundle, node.trusted())


@rejected("scope-incomplete")
def all_repositories_of_a_ref_that_nobody_has() -> Case:
    """No repository has the ref, so the empty set would be complete, whatever the scope is."""
    node = world()
    subjects = [one for one in node.subjects() if one.header.repository == TOOLS]
    question = Question("callers", external("python://os.environ.get"), CALLS)
    bundle = make_bundle(question, subjects, all_of=AllOf(node.origin, 0, "no-such-ref", "*"))
    return case(bundle, node.trusted())


@rejected("key-rotation")
def rotation_by_a_revoked_key() -> Case:
    """The trust file revokes the key; whoever stole it hands over to a key of their own."""
    node = world()
    notes = (positive.revocation(node, "hub", 4, "hub"),)
    view = node.view(key_notes=[positive.rotation(node, "hub", "stranger", 4)])
    bundle = make_bundle(Question("node", CHARGE), [node.subject(0, view)])
    return resigned(case(bundle, node.trusted(notes=notes)), "stranger")


@rejected("graph-unused")
def graph_of_an_entry_out_of_scope() -> Case:
    node = world()
    parts = positive.relation().parts
    other = make_bundle(Question("node", CHECKOUT), [node.subject(3)])
    parts["graphs"].append({**other["graphs"][0], "entry": 1})
    return case(parts, node.trusted())
