"""A recorder stands before a whole graph, notes what is asked of it, and writes the section that proves just that."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol, TypeVar

from knowing_protocol import encoding, graph
from knowing_protocol.critbit import MerkleMap
from knowing_protocol.graph import AliasTarget, GraphReader, Relation, RenamedMember
from knowing_protocol.hashing import NodeId, external_hash, node_hash, relation_hash
from knowing_protocol.mapproof import prove_map
from knowing_protocol.records import Facts, facts_to_json, symbol_to_json

T = TypeVar("T")


class ProvableGraph(GraphReader, Protocol):
    """A graph that can also show its maps."""

    @property
    def root(self) -> bytes:
        """The graph root."""

    def tree(self, name: str, _keys: Iterable[bytes] = (), /) -> MerkleMap:
        """A named map, or `graph` for the map of all of them; the keys are those that will be asked for next."""

    def package_tree(self, package: str) -> MerkleMap | None:
        """The map of a package's edge types."""

    def branch_tree(self, package: str, edge_type: str) -> MerkleMap | None:
        """The map of a branch's relations."""

    def inbound_tree(self, edge_type: str, target: bytes) -> tuple[MerkleMap, int] | None:
        """The set of a target's relations, and its size."""


class _Asked(NamedTuple):
    """What a recorder was asked, as keys of records with their answers."""

    nodes: dict[NodeId, bool]
    relations: dict[tuple[NodeId, NodeId, str], tuple[str, ...]]
    inbound_relations: dict[tuple[NodeId, NodeId, str], tuple[str, ...]]
    inbound: dict[tuple[str, NodeId], tuple[Relation, ...]]
    names: dict[tuple[str, str], tuple[NodeId, ...]]
    aliases: dict[str, tuple[AliasTarget, ...]]
    alias_of: dict[NodeId, tuple[str | RenamedMember, ...]]
    members: dict[tuple[NodeId, str], tuple[NodeId, ...]]
    facts: dict[NodeId, Facts]


class Recorder:
    """A graph that notes what it is asked, to prove exactly that."""

    def __init__(self, inner: ProvableGraph) -> None:
        self.inner = inner
        self.repo = inner.repo
        self._asked = _Asked({}, {}, {}, {}, {}, {}, {}, {}, {})

    def has_node(self, node: NodeId) -> bool:
        """See `GraphReader`."""
        return _noted(self._asked.nodes, node, lambda: self.inner.has_node(node))

    def relation(self, source: NodeId, target: NodeId, edge_type: str) -> tuple[str, ...]:
        """See `GraphReader`."""
        key = (source, target, edge_type)
        return _noted(self._asked.relations, key, lambda: self.inner.relation(*key))

    def inbound_relation(self, source: NodeId, target: NodeId, edge_type: str) -> tuple[str, ...]:
        """See `GraphReader`."""
        key = (source, target, edge_type)
        return _noted(self._asked.inbound_relations, key, lambda: self.inner.inbound_relation(*key))

    def inbound(self, edge_type: str, target: NodeId) -> tuple[Relation, ...]:
        """See `GraphReader`."""
        return _noted(self._asked.inbound, (edge_type, target), lambda: self.inner.inbound(edge_type, target))

    def named(self, edge_type: str, segment: str) -> tuple[NodeId, ...]:
        """See `GraphReader`."""
        return _noted(self._asked.names, (edge_type, segment), lambda: self.inner.named(edge_type, segment))

    def alias(self, name: str) -> tuple[AliasTarget, ...]:
        """See `GraphReader`."""
        return _noted(self._asked.aliases, name, lambda: self.inner.alias(name))

    def aliases_of(self, target: NodeId) -> tuple[str | RenamedMember, ...]:
        """See `GraphReader`."""
        return _noted(self._asked.alias_of, target, lambda: self.inner.aliases_of(target))

    def member(self, owner: NodeId, name: str) -> tuple[NodeId, ...]:
        """See `GraphReader`."""
        return _noted(self._asked.members, (owner, name), lambda: self.inner.member(owner, name))

    def facts(self, node: NodeId) -> Facts:
        """See `GraphReader`."""
        return _noted(self._asked.facts, node, lambda: self.inner.facts(node))

    def section(self, entry: int, which: str) -> dict[str, Any]:
        """The section that proves everything that was asked."""
        return _SectionWriter(self.inner, self._asked).write(entry, which)


_Key = TypeVar("_Key")


def _noted(table: dict[_Key, T], key: _Key, ask: Callable[[], T]) -> T:
    if key not in table:
        table[key] = ask()
    return table[key]


class _SectionWriter:
    """Turns what was asked into pruned maps and records; symbols are written once and referred to by index."""

    def __init__(self, inner: ProvableGraph, asked: _Asked) -> None:
        self.inner = inner
        self.asked = asked
        self.symbols: dict[NodeId, int] = {}

    def _symbol(self, node: NodeId) -> int:
        return self.symbols.setdefault(node, len(self.symbols))

    def write(self, entry: int, which: str) -> dict[str, Any]:
        keys = self._keys()
        packages, branches = self._forward()
        lists = {"packages": packages, "branches": branches, "sets": self._sets(), **self._records()}
        lists["symbols"] = [symbol_to_json(node, self.inner.repo) for node in self.symbols]
        return {
            "entry": entry,
            "graph": which,
            "top": _proof(self.inner.tree("graph"), [graph.map_key(name) for name in keys]),
            "maps": {name: _proof(self.inner.tree(name, wanted), wanted) for name, wanted in keys.items()},
            **{name: rows for name, rows in lists.items() if rows},
        }

    def _keys(self) -> dict[str, list[bytes]]:
        """The keys to show in each named map."""
        asked = self.asked
        by_name = self._values_by_name()
        inbound = {(key[0], node_hash(*key[1])) for key in asked.inbound if key not in by_name}
        inbound |= {(edge_type, node_hash(*target)) for _, target, edge_type in asked.inbound_relations}
        found = {
            "edges": [graph.package_key(source.package) for source, _, _ in asked.relations],
            "inbound": [graph.inbound_key(*key) for key in inbound],
            "names": [graph.names_key(*key) for key in asked.names],
            "nodes": [node_hash(*node) for node in asked.nodes],
            "aliases": [external_hash(name) for name in asked.aliases],
            "alias_of": [node_hash(*target) for target in asked.alias_of],
            "members": [graph.member_key(node_hash(*owner), name) for owner, name in asked.members],
            "facts": [node_hash(*node) for node in asked.facts],
        }
        return {name: wanted for name, wanted in found.items() if wanted}

    def _values_by_name(self) -> set[tuple[str, NodeId]]:
        """Targets whose inbound value stands in a names set that is shown whole."""
        return {(edge_type, node) for (edge_type, _), found in self.asked.names.items() for node in found}

    def _value_by_name(self, edge_type: str, target: NodeId) -> str:
        """The value of a target in a names set."""
        if edge_type == graph.REPUBLISHED:
            value = self.inner.tree("alias_of").get(node_hash(*target))
        else:
            value = self.inner.tree("inbound").get(graph.inbound_key(edge_type, node_hash(*target)))
        assert value is not None, "a target in a names set has callers or names"
        return encoding.to_base64(value)

    def _forward(self) -> tuple[list[Any], list[Any]]:
        """Proofs of the edge types of each package asked about, and of the relations of each branch."""
        wanted: dict[str, dict[str, list[bytes]]] = {}
        for source, target, edge_type in self.asked.relations:
            relation = relation_hash(node_hash(*source), node_hash(*target), edge_type)
            wanted.setdefault(source.package, {}).setdefault(edge_type, []).append(relation)
        packages: list[Any] = []
        branches: list[Any] = []
        for package, types in wanted.items():
            tree = self.inner.package_tree(package)
            if tree is None:
                continue
            packages.append([package, _proof(tree, [graph.edge_type_key(one) for one in types])])
            for edge_type, relations in types.items():
                branch = self.inner.branch_tree(package, edge_type)
                if branch is not None:
                    branches.append([package, edge_type, _proof(branch, relations)])
        return packages, branches

    def _sets(self) -> list[Any]:
        wanted: dict[tuple[str, NodeId], list[bytes]] = {}
        for source, target, edge_type in self.asked.inbound_relations:
            relation = relation_hash(node_hash(*source), node_hash(*target), edge_type)
            wanted.setdefault((edge_type, target), []).append(relation)
        rows: list[Any] = []
        for (edge_type, target), relations in wanted.items():
            found = self.inner.inbound_tree(edge_type, node_hash(*target))
            if found is not None:
                tree, size = found
                rows.append([edge_type, self._symbol(target), tree.root.hex(), size, _proof(tree, relations)])
        return rows

    def _records(self) -> dict[str, list[Any]]:
        asked, symbol = self.asked, self._symbol
        relations = {**asked.relations, **asked.inbound_relations}
        return {
            "relations": [
                [symbol(source), symbol(target), edge_type, list(provenances)]
                for (source, target, edge_type), provenances in relations.items()
                if provenances
            ],
            "names": [
                [edge_type, segment, [[symbol(node), self._value_by_name(edge_type, node)] for node in found]]
                for (edge_type, segment), found in asked.names.items()
                if found
            ],
            "aliases": [
                [name, [[symbol(one.node), one.claimed] for one in found]]
                for name, found in asked.aliases.items()
                if found
            ],
            "alias_of": [
                [symbol(target), [one if isinstance(one, str) else [symbol(one.owner), one.name] for one in found]]
                for target, found in asked.alias_of.items()
                if found
            ],
            "members": [
                [symbol(owner), name, [symbol(node) for node in found]]
                for (owner, name), found in asked.members.items()
                if found
            ],
            "facts": [
                [symbol(node), facts_to_json(found)] for node, found in asked.facts.items() if found != graph.NO_FACTS
            ],
        }


def _proof(tree: MerkleMap, keys: Iterable[bytes]) -> str:
    return encoding.to_base64(prove_map(tree, keys))
