"""A stored graph as the kernel's `GraphReader`: what it is asked is looked up, and remembered for the next time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, TypeVar

from knowing_protocol.graph import (
    NO_FACTS,
    REPUBLISHED,
    AliasTarget,
    Relation,
    RenamedMember,
    names_key,
    target_segments,
)
from knowing_protocol.hashing import NodeId, external_hash, node_hash
from knowing_protocol.records import Facts, facts_from_json

from knowingd.store.codes import EDGE_TYPE_CODES, LAYER_OF_PROVENANCE, PROVENANCES, SOURCE
from knowingd.store.interface import GraphSession
from knowingd.store.rows import BLOCK_BITS, REPUBLISHED_CODE, SLOT_BITS, TYPE_BITS, slot_of

T = TypeVar("T")


class StoredGraph:
    """One graph of one repository behind a session that lives as long as it does."""

    def __init__(self, session: GraphSession, layer: int = SOURCE) -> None:
        self.session = session
        self.layer = layer
        self.repo = session.repo
        self._known: dict[tuple[Any, ...], Any] = {}
        self._ids: dict[NodeId, int | None] = {}

    def _once(self, make: Callable[..., T], *question: Any) -> T:
        key = (make.__name__, *question)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = make(*question)
        return found

    def id_of(self, node: NodeId) -> int | None:
        """The id of a node of this graph."""
        if node not in self._ids:
            found = None
            if node.repo in ("", self.repo):
                number = self.session.node_id(node_hash(*node))
                if number is not None and self.session.node_ids(self.layer, [number]):
                    found = number
            self._ids[node] = found
        return self._ids[node]

    def has_node(self, node: NodeId) -> bool:
        """See `GraphReader`."""
        return self.id_of(node) is not None

    def relation(self, source: NodeId, target: NodeId, edge_type: str) -> tuple[str, ...]:
        """See `GraphReader`."""
        first, second = self.id_of(source), self.id_of(target)
        if first is None or second is None:
            return ()
        codes = self.session.provenances(first, EDGE_TYPE_CODES[edge_type], second)
        return tuple(sorted(PROVENANCES[code] for code in codes if LAYER_OF_PROVENANCE[code] == self.layer))

    def inbound_relation(self, source: NodeId, target: NodeId, edge_type: str) -> tuple[str, ...]:
        """See `GraphReader`."""
        found = [one.provenances for one in self.inbound(edge_type, target) if one.source == source]
        return found[0] if found else ()

    def inbound(self, edge_type: str, target: NodeId) -> tuple[Relation, ...]:
        """See `GraphReader`."""
        return self._once(self._inbound, edge_type, target)

    def _inbound(self, edge_type: str, target: NodeId) -> tuple[Relation, ...]:
        if target.repo not in ("", self.repo):
            return ()
        observed: dict[int, list[str]] = defaultdict(list)
        for edge in self.session.edges_to_hash(node_hash(*target), EDGE_TYPE_CODES[edge_type]):
            if LAYER_OF_PROVENANCE[edge.provenance] == self.layer:
                observed[edge.source].append(PROVENANCES[edge.provenance])
        names = self.session.identities(observed.keys())
        return tuple(sorted(Relation(names[one], tuple(sorted(how))) for one, how in observed.items()))

    def named(self, edge_type: str, segment: str) -> tuple[NodeId, ...]:
        """See `GraphReader`."""
        return self._once(self._named, edge_type, segment)

    def _named(self, edge_type: str, segment: str) -> tuple[NodeId, ...]:
        code = REPUBLISHED_CODE if edge_type == REPUBLISHED else EDGE_TYPE_CODES[edge_type]
        members = self._bucket("names", names_key(edge_type, segment))
        for one in [one for one in members if one < 0]:
            members += self.session.caches.members(-one)
        targets = {one >> TYPE_BITS for one in members if one >= 0 and one & REPUBLISHED_CODE == code}
        found = self.session.identities(targets)
        return tuple(sorted(node for node in found.values() if segment in target_segments(node)))

    def _bucket(self, name: str, key: bytes) -> list[int]:
        """The members of the bucket that a key falls into."""
        tree = self.session.caches.tree(self.layer, name)
        if tree is None:
            return []
        bucket = slot_of(key) >> (SLOT_BITS - tree.bits)
        inside = min(BLOCK_BITS, tree.bits)
        block = self.session.caches.block(tree.id, bucket >> inside)
        return list(block[1][bucket & ((1 << inside) - 1)]) if block is not None else []

    def alias(self, name: str) -> tuple[AliasTarget, ...]:
        """See `GraphReader`."""
        return self._once(self._alias, name)

    def _alias(self, name: str) -> tuple[AliasTarget, ...]:
        members = self._bucket("aliases", external_hash(name))
        rows = [row for row in self.session.aliases(self.layer, members) if row.name == name] if members else []
        names = self.session.identities({row.target for row in rows})
        return tuple(sorted(AliasTarget(names[row.target], row.claimed) for row in rows))

    def aliases_of(self, target: NodeId) -> tuple[str | RenamedMember, ...]:
        """See `GraphReader`."""
        return self._once(self._aliases_of, target)

    def _aliases_of(self, target: NodeId) -> tuple[str | RenamedMember, ...]:
        number = self.id_of(target)
        if number is None:
            return ()
        names = sorted(row.name for row in self.session.aliases_of(self.layer, [number]))
        segments = target_segments(target)
        rows = [row for row in self.session.members_to(self.layer, [number]) if segments != {row.name}]
        owners = self.session.identities({row.owner for row in rows})
        return (*names, *sorted(RenamedMember(owners[row.owner], row.name) for row in rows))

    def member(self, owner: NodeId, name: str) -> tuple[NodeId, ...]:
        """See `GraphReader`."""
        return self._once(self._members, owner).get(name, ())

    def _members(self, owner: NodeId) -> dict[str, tuple[NodeId, ...]]:
        number = self.id_of(owner)
        rows = list(self.session.members_of(self.layer, [number])) if number is not None else []
        targets = self.session.identities({row.target for row in rows})
        found: dict[str, set[NodeId]] = defaultdict(set)
        for row in rows:
            found[row.name].add(targets[row.target])
        return {name: tuple(sorted(nodes)) for name, nodes in found.items()}

    def facts(self, node: NodeId) -> Facts:
        """See `GraphReader`."""
        return self._once(self._facts, node)

    def _facts(self, node: NodeId) -> Facts:
        number = self.id_of(node)
        rows = list(self.session.facts(self.layer, [number])) if number is not None else []
        return facts_from_json(rows[0][1], "facts") if rows else NO_FACTS
