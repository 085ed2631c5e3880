"""Bundles that show more than their statement needs: what nobody looks at must not travel under a verdict."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import positive
from forge import changed, encoded, on_statement, rejected
from knowing_protocol.claims import Question
from knowing_protocol.critbit import Node as MapNode
from knowing_protocol.critbit import bit
from knowing_protocol.graph import map_key
from knowing_protocol.hashing import node_hash
from knowing_protocol.mapproof import prove_map
from knowing_protocol.prover import make_bundle
from knowing_protocol.vocabulary import USES
from positive import AUDIT, CHARGE, Case, case
from world import SHOP, Node, world


@rejected("unused")
def fewer_types_than_were_asked_for() -> Case:
    node = world()
    question = Question("callers", CHARGE, tuple(sorted(USES)))
    base = case(make_bundle(question, node.subjects()), node.trusted())

    def change(statement: dict[str, Any]) -> None:
        statement["types"].remove("calls")
        for name in ("callers", "undecided"):
            statement[name] = [row for row in statement[name] if row["type"] != "calls"]

    return on_statement(lambda: base, change)


@rejected("unused")
def whole_roster_without_a_word_of_all() -> Case:
    return on_statement(positive.callers, lambda statement: statement.update(all_of=None))


@rejected("unused")
def record_given_twice() -> Case:
    def repeat(parts: dict[str, Any]) -> None:
        rows = parts["graphs"][0]["relations"]
        rows.append(rows[0])

    return changed(positive.relation(), repeat)


@rejected("unused")
def record_that_nobody_asks_for() -> Case:
    def add(parts: dict[str, Any]) -> None:
        parts["graphs"][0]["aliases"] = [["python://payments.free_money", [[0, True]]]]

    return changed(positive.relation(), add)


@rejected("unused")
def symbol_that_no_record_has() -> Case:
    def add(parts: dict[str, Any]) -> None:
        parts["graphs"][0]["symbols"].append(["payments/api", "free_money", "function"])

    return changed(positive.relation(), add)


@rejected("unused")
def leaf_that_no_question_leads_to() -> Case:
    node = world()
    base = case(make_bundle(Question("node", CHARGE), [node.subject(0)]), node.trusted())
    proof = prove_map(node.subject(0).source.tree("nodes"), [node_hash(*CHARGE), node_hash(*AUDIT)])
    return changed(base, lambda parts: parts["graphs"][0]["maps"].update(nodes=encoded(proof)))


@rejected("unused")
def fork_that_shows_neither_side() -> Case:
    node = world()
    base = case(make_bundle(Question("node", CHARGE), [node.subject(0)]), node.trusted())
    tree = node.subject(0).source.tree("nodes")
    assert tree.node is not None
    proof = _with_a_bare_fork(tree.node, node_hash(*CHARGE))
    assert proof is not None
    assert len(proof) > len(b64decode(base.parts["graphs"][0]["maps"]["nodes"]))
    return changed(base, lambda parts: parts["graphs"][0]["maps"].update(nodes=encoded(proof)))


def _with_a_bare_fork(node: MapNode, key: bytes) -> bytes | None:
    """The walk to a key, beside which one subtree stands as a fork of two hashes."""
    if len(node) != 4:
        return None
    taken, other = (node[3], node[2]) if bit(key, node[1]) else (node[2], node[3])
    if len(other) == 4:
        beside = bytes((1, other[1])) + b"\2" + other[2][0] + b"\2" + other[3][0]
        inside = _walk(taken, key)
    else:
        beside = b"\2" + other[0]
        deeper = _with_a_bare_fork(taken, key)
        if deeper is None:
            return None
        inside = deeper
    sides = (beside, inside) if bit(key, node[1]) else (inside, beside)
    return bytes((1, node[1])) + b"".join(sides)


def _walk(node: MapNode, key: bytes) -> bytes:
    if len(node) == 3:
        return b"\0" + node[1] + node[2]
    assert len(node) == 4
    left, right = (b"\2" + node[2][0], b"\2" + node[3][0])
    if bit(key, node[1]):
        return bytes((1, node[1])) + left + _walk(node[3], key)
    return bytes((1, node[1])) + _walk(node[2], key) + right


@rejected("unused")
def map_that_nobody_asks() -> Case:
    def add(parts: dict[str, Any]) -> None:
        tree = node.subject(0).source
        section = parts["graphs"][0]
        names = [*section["maps"], "facts"]
        section["top"] = encoded(prove_map(tree.tree("graph"), [map_key(name) for name in names]))
        section["maps"]["facts"] = encoded(b"\2" + tree.tree("facts").root)

    node = world()
    base = case(make_bundle(Question("node", CHARGE), [node.subject(0)]), node.trusted())
    return changed(base, add)


@rejected("unused")
def checkpoint_of_a_log_out_of_scope() -> Case:
    node, other = world(), Node("other")
    other.commit(SHOP, positive.with_colons().records, "1" * 40)
    base = case(make_bundle(Question("node", CHARGE), [node.subject(0)]), node.trusted(), other.trusted())
    theirs = make_bundle(Question("no-node", CHARGE._replace(repo=SHOP)), [other.subject(0)])["checkpoints"][0]
    return changed(base, lambda parts: parts["checkpoints"].append(theirs))


@rejected("unused")
def entry_out_of_scope() -> Case:
    node = world()
    base = case(make_bundle(Question("node", CHARGE), [node.subject(0)]), node.trusted())
    other = make_bundle(
        Question("no-node", CHARGE._replace(repo=node.headers[1].repository)), [node.subject(1)], at="commits"
    )["entries"][0]
    return changed(base, lambda parts: parts["entries"].append({**other, "checkpoint": 0}))


@rejected("unused")
def section_of_a_graph_that_is_empty() -> Case:
    empty = {"entry": 0, "graph": "overlay", "top": "Aw==", "maps": {}}
    return changed(positive.relation(), lambda parts: parts["graphs"].append(empty))
