"""The source and the overlay graph of one snapshot, read as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from knowing_protocol.graph import AliasTarget, GraphReader, Relation, RenamedMember, sorted_names
from knowing_protocol.hashing import NodeId
from knowing_protocol.records import Facts

_Ref = TypeVar("_Ref")


class SnapshotReader:
    """The source and the overlay graph of a snapshot as one: what either shows is there."""

    def __init__(self, repo: str, graphs: Sequence[GraphReader]) -> None:
        self.repo = repo
        self._graphs = graphs

    def has_node(self, node: NodeId) -> bool:
        """See `GraphReader`."""
        return any(graph.has_node(node) for graph in self._graphs)

    def relation(self, source: NodeId, target: NodeId, edge_type: str) -> tuple[str, ...]:
        """See `GraphReader`."""
        return _united(graph.relation(source, target, edge_type) for graph in self._graphs)

    def inbound_relation(self, source: NodeId, target: NodeId, edge_type: str) -> tuple[str, ...]:
        """See `GraphReader`."""
        return _united(graph.inbound_relation(source, target, edge_type) for graph in self._graphs)

    def inbound(self, edge_type: str, target: NodeId) -> tuple[Relation, ...]:
        """See `GraphReader`."""
        found: dict[NodeId, tuple[str, ...]] = {}
        for graph in self._graphs:
            for source, provenances in graph.inbound(edge_type, target):
                found[source] = _united((found.get(source, ()), provenances))
        return tuple(sorted(Relation(*item) for item in found.items()))

    def named(self, edge_type: str, segment: str) -> tuple[NodeId, ...]:
        """See `GraphReader`."""
        return tuple(sorted({node for graph in self._graphs for node in graph.named(edge_type, segment)}))

    def alias(self, name: str) -> tuple[AliasTarget, ...]:
        """See `GraphReader`."""
        claims: dict[NodeId, bool] = {}
        for graph in self._graphs:
            for node, claimed in graph.alias(name):
                claims[node] = claimed or claims.get(node, False)
        return tuple(sorted(AliasTarget(*item) for item in claims.items()))

    def aliases_of(self, target: NodeId) -> tuple[str | RenamedMember, ...]:
        """See `GraphReader`."""
        return sorted_names({name for graph in self._graphs for name in graph.aliases_of(target)})

    def member(self, owner: NodeId, name: str) -> tuple[NodeId, ...]:
        """See `GraphReader`."""
        return tuple(sorted({node for graph in self._graphs for node in graph.member(owner, name)}))

    def facts(self, node: NodeId) -> Facts:
        """See `GraphReader`."""
        found = [graph.facts(node) for graph in self._graphs]
        return Facts(
            _in_order(facts.bases for facts in found),
            _in_order(facts.returns for facts in found),
            _in_order(facts.types for facts in found),
            _in_order(facts.stars for facts in found),
            _in_order(facts.partial for facts in found),
        )


def _united(provenances: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(sorted({one for some in provenances for one in some}))


def _in_order(parts: Iterable[tuple[_Ref, ...]]) -> tuple[_Ref, ...]:
    return tuple(dict.fromkeys(one for part in parts for one in part))
