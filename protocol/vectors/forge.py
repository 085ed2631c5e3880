"""How forgeries are made and registered: a bundle that verifies, changed in one way.

A forger who owns no key can change a bundle in any way, so most forgeries change one that verifies. Where even the
signed graph is dishonest, the forgery signs it: the verifier must notice what it can.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

import positive
from knowing_protocol.claims import Question
from knowing_protocol.hashing import NodeId
from knowing_protocol.prover import make_bundle
from positive import CALLS, Case, case, sealed
from world import SHOP, Builder, Node

NEGATIVE: list[tuple[Callable[[], Case], str]] = []


def rejected(code: str) -> Callable[[Callable[[], Case]], Callable[[], Case]]:
    """Register a forgery with the reason that it must be rejected for."""

    def register(forgery: Callable[[], Case]) -> Callable[[], Case]:
        NEGATIVE.append((forgery, code))
        return forgery

    return register


def changed(base: Case, change: Callable[[dict[str, Any]], object]) -> Case:
    """A case with its bundle changed in place, and sealed again."""
    parts = base.parts
    change(parts)
    return Case(sealed(parts), base.trust)


def encoded(data: bytes) -> str:
    """Base64."""
    return b64encode(data).decode()


def branch(change: Callable[[bytes], bytes], base: Callable[[], Case] = positive.relation) -> Case:
    """A case with the proof of its branch of relations changed."""

    def apply(parts: dict[str, Any]) -> None:
        row = parts["graphs"][0]["branches"][0]
        row[2] = encoded(change(b64decode(row[2])))

    return changed(base(), apply)


def in_map(name: str, change: Callable[[bytes], bytes], base: Callable[[], Case] = positive.relation) -> Case:
    """A case with the proof of a named map changed."""

    def apply(parts: dict[str, Any]) -> None:
        maps = parts["graphs"][0]["maps"]
        maps[name] = encoded(change(b64decode(maps[name])))

    return changed(base(), apply)


def on_statement(base: Callable[[], Case], change: Callable[[dict[str, Any]], object]) -> Case:
    """A case with its statement changed."""
    return changed(base(), lambda parts: change(parts["statement"]))


def section_of(parts: dict[str, Any], repository: str) -> dict[str, Any]:
    """The source section of a repository."""
    for section in parts["graphs"]:
        if parts["entries"][section["entry"]]["header"]["repository"] == repository:
            found: dict[str, Any] = section
            return found
    raise LookupError(repository)


def parse(proof: bytes) -> tuple[tuple[Any, ...], bytes]:
    """A pruned tree as nested tuples, and what follows it."""
    if proof[0] == 1:
        left, rest = parse(proof[2:])
        right, rest = parse(rest)
        return (1, proof[1], left, right), rest
    size = 65 if proof[0] == 0 else 33
    return (proof[0], proof[1:size]), proof[size:]


def dump(tree: tuple[Any, ...]) -> bytes:
    """A pruned tree as bytes."""
    if tree[0] == 1:
        return bytes((1, tree[1])) + dump(tree[2]) + dump(tree[3])
    found: bytes = bytes((tree[0],)) + tree[1]
    return found


def wide_node() -> tuple[Node, NodeId, NodeId]:
    """A node whose one repository has a function that calls a dozen others; that function, and one of them."""
    node = Node("hub")
    made = Builder(SHOP)
    caller = made.node("shop", "caller")
    for number in range(12):
        made.edge(caller, made.node("shop", f"callee{number}"))
    node.commit(SHOP, made.records, "1" * 40)
    return node, caller, made.node("shop", "callee7")


def wide_branch() -> Case:
    """A relation in a branch of a dozen."""
    node, caller, callee = wide_node()
    return case(make_bundle(Question("relation", callee, CALLS, caller), [node.subject(0)]), node.trusted())
