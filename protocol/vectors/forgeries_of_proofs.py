"""Forged proofs of maps: each function makes one and is named after its defect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import positive
from forge import (
    branch,
    changed,
    dump,
    encoded,
    in_map,
    parse,
    rejected,
    wide_branch,
    wide_node,
)
from knowing_protocol import graph
from knowing_protocol.claims import Question
from knowing_protocol.critbit import MerkleMap
from knowing_protocol.graph import Level, edge_type_key
from knowing_protocol.hashing import node_hash, relation_hash
from knowing_protocol.mapproof import prove_map
from knowing_protocol.prover import make_bundle
from positive import AUDIT, CALLS, CHARGE, CHECKOUT, Case, case
from world import world


@rejected("edges-empty-proof")
def empty_proof() -> Case:
    return in_map("edges", lambda _: b"")


@rejected("alias_of-root")
def proof_of_an_empty_map_for_a_full_one() -> Case:
    return in_map("alias_of", lambda _: b"\3", positive.callers)


@rejected("edges-root")
def all_zero_fields() -> Case:
    return in_map("edges", lambda _: bytes(65))


def payments_branch() -> MerkleMap:
    """The branch that `positive.relation` proves a relation in."""
    return world().graphs[0][0].branches["payments/api"]["calls"]


@rejected("relations-not-shown")
def root_proven_to_contain_itself() -> Case:
    return branch(lambda _: b"\2" + payments_branch().root)


@rejected("relations-root")
def root_as_the_value_of_its_own_key() -> Case:
    key = relation_hash(node_hash(*CHARGE), node_hash(*AUDIT), "calls")
    return branch(lambda _: b"\0" + key + payments_branch().root)


@rejected("edges-root")
def inner_node_passed_off_as_a_leaf() -> Case:
    """The hashes of an inner node's two sides, given as key and value of a leaf."""
    top = world().graphs[0][0].packages.node
    assert top is not None
    assert len(top) == 4
    left, right = top[2][0], top[3][0]
    return in_map("edges", lambda _: b"\0" + left + right)


@rejected("edges-root")
def steps_moved_between_levels() -> Case:
    def swap(parts: dict[str, Any]) -> None:
        section = parts["graphs"][0]
        section["maps"]["edges"], section["branches"][0][2] = section["branches"][0][2], section["maps"]["edges"]

    return changed(positive.relation(), swap)


def denied_call(shown: Callable[[MerkleMap, bytes], bytes]) -> Case:
    """A statement that denies a call which is there; `shown` makes the proof of the branch with it."""
    node, caller, callee = wide_node()
    source = node.graphs[0][0]
    bundle = make_bundle(Question("callers", callee, CALLS), [node.subject(0)])
    statement = bundle["statement"]
    statement.update(claim="no-relation", source=caller._asdict(), callers=[])
    section = bundle["graphs"][0]
    section["top"] = encoded(prove_map(source.top, [key for key, _ in source.top]))
    for name in ("edges", "nodes", "inbound"):
        section["maps"][name] = encoded(prove_map(source.maps[name], [key for key, _ in source.maps[name]]))
    key = relation_hash(node_hash(*caller), node_hash(*callee), "calls")
    types, tree = source.package_types["shop"], source.branches["shop"]["calls"]
    section["packages"] = [["shop", encoded(prove_map(types, [edge_type_key("calls")]))]]
    section["branches"] = [["shop", "calls", encoded(shown(tree, key))]]
    callers, size = source.inbound_sets[graph.inbound_key("calls", node_hash(*callee))]
    symbols = section["symbols"]
    target = symbols.index(list(callee[1:]))
    section["sets"] = [["calls", target, callers.root.hex(), size, encoded(prove_map(callers, [key]))]]
    symbols.append(list(caller[1:]))
    section["relations"] = [[len(symbols) - 1, target, "calls", ["ast_resolved"]]]
    return case(bundle, node.trusted())


@rejected("relations-not-shown")
def neighbour_style_absence_for_a_present_key() -> Case:
    """The keys before and after are shown, the key's own place is not: what sorted trees call absence."""

    def neighbours(tree: MerkleMap, key: bytes) -> bytes:
        keys = [one for one, _ in tree]
        at = keys.index(key)
        return prove_map(tree, keys[max(0, at - 1) : at] + keys[at + 1 : at + 2])

    return denied_call(neighbours)


@rejected("relation-present")
def absence_proven_with_the_leaf_of_the_key_itself() -> Case:
    return denied_call(lambda tree, key: prove_map(tree, [key]))


@rejected("relations-off-path")
def leaf_not_on_its_keys_path() -> Case:
    """Both sides of an inner node change places, so that every leaf below stands where its key does not lead."""

    def swap(proof: bytes) -> bytes:
        tree, rest = parse(proof)
        assert not rest
        assert tree[0] == 1
        return dump((1, tree[1], tree[3], tree[2]))

    return branch(swap, wide_branch)


@rejected("relations-truncated")
def sibling_of_a_wrong_length() -> Case:
    def shorten(proof: bytes) -> bytes:
        return proof[:-1] if proof[-33] == 2 else proof[:2] + b"\2" + proof[3:34] + proof[35:]

    return branch(shorten, wide_branch)


@rejected("relations-depth")
def depth_not_increasing() -> Case:
    def repeat(proof: bytes) -> bytes:
        tree, _ = parse(proof)
        return dump((1, tree[1], tree, (2, bytes(32))))

    return branch(repeat, wide_branch)


@rejected("relations-truncated")
def truncated_path() -> Case:
    return branch(lambda proof: proof[:2], wide_branch)


@rejected("relations-path-too-long")
def path_longer_than_256() -> Case:
    def grow(_: bytes) -> bytes:
        depths = b"".join(bytes((1, depth)) for depth in range(256))
        return depths + bytes((1, 255)) + (b"\2" + bytes(32)) * 258

    return branch(grow, wide_branch)


@rejected("relations-trailing")
def duplicated_last_leaf() -> Case:
    return branch(lambda proof: proof + proof[-65:])


@rejected("nodes-root")
def level_swapped() -> Case:
    """The same keys and values, hashed as a map of another level."""
    other = MerkleMap.of(Level.FACTS, dict(world().graphs[0][0].maps["nodes"]))
    return in_map("nodes", lambda _: prove_map(other, [node_hash(*CHARGE)]), positive.node_present)


@rejected("graph-root")
def subtree_of_another_repository() -> Case:
    node = world()
    mine = make_bundle(Question("node", CHECKOUT), [node.subject(3)])

    def replace(parts: dict[str, Any]) -> None:
        parts["graphs"][0] = mine["graphs"][0]

    return changed(positive.node_present(), replace)


@rejected("graph-not-shown")
def overlay_left_out() -> Case:
    base = positive.relation_in_the_overlay()
    return changed(base, lambda parts: parts["graphs"].pop())


@rejected("graph-twice")
def graph_shown_twice() -> Case:
    return changed(positive.relation(), lambda parts: parts["graphs"].append(parts["graphs"][0]))
