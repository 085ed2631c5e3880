"""What a bundle shows of one graph: pruned maps, and the records whose digests stand in them.

`ProvenGraph` reads such a section as a graph. It answers only what the section proves: a key that a map provably
lacks is an empty answer, a key that it has needs the record with that digest, and anything else is refused.
`recorder.py` writes sections.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from knowing_protocol import encoding, graph
from knowing_protocol.critbit import MerkleMap
from knowing_protocol.errors import RejectedError
from knowing_protocol.graph import AliasTarget, Level, Relation, RenamedMember
from knowing_protocol.hashing import (
    NodeId,
    edge_hash,
    external_hash,
    node_hash,
    relation_digest,
    relation_hash,
    set_digest,
)
from knowing_protocol.mapproof import MAX_PROOF_BYTES, ProvenMap
from knowing_protocol.records import (
    Facts,
    TypeRef,
    canonical_path,
    facts_from_json,
    symbol_from_ref,
    type_ref,
)
from knowing_protocol.statement import EDGE_TYPE, MAX_CALLERS, PROVENANCE
from knowing_protocol.vocabulary import EdgeType, Provenance

MAX_RECORDS: Final = 1_000_000

PROOF = encoding.base64(MAX_PROOF_BYTES)
_NAME = encoding.text()
_INDEX = encoding.integer


def _row(*columns: encoding.Decoder[Any]) -> encoding.Decoder[tuple[Any, ...]]:
    """A list of exactly these columns."""

    def decode(value: Any, place: str) -> tuple[Any, ...]:
        found = encoding.sequence(lambda item, _: item, len(columns))(value, place)
        if len(found) != len(columns):
            raise RejectedError("wrong-length", f"{place} does not have {len(columns)} columns")
        return tuple([column(item, place) for column, item in zip(columns, found, strict=True)])

    return decode


def _name_or_member(value: Any, place: str) -> str | tuple[Any, ...]:
    return canonical_path(value, place) if isinstance(value, str) else _row(_INDEX, _NAME)(value, place)


def _rows(*columns: encoding.Decoder[Any]) -> encoding.Decoder[tuple[tuple[Any, ...], ...]]:
    return encoding.sequence(_row(*columns), MAX_RECORDS)


def _proofs(value: Any, place: str) -> dict[str, bytes]:
    """Decoder of proofs of some of the named maps."""
    if not isinstance(value, dict) or not value.keys() <= graph.MAP_LEVELS.keys():
        raise RejectedError("unknown-map", f"{place} is not an object of named maps")
    return {name: PROOF(proof, f"{place}.{name}") for name, proof in value.items()}


_PROVENANCES = encoding.sequence(PROVENANCE, len(Provenance))
_EDGE_TYPE_OR_REPUBLISHED = encoding.one_of(graph.REPUBLISHED, *(one.value for one in EdgeType))
_INDICES = encoding.sequence(_INDEX, MAX_CALLERS)


def _short_digest(value: Any, place: str) -> bytes:
    """Decoder of a hash in base64, shorter than hex where there are many."""
    found = encoding.base64(32)(value, place)
    if len(found) != 32:
        raise RejectedError("wrong-length", f"{place} has {len(found)} bytes, not 32")
    return found


SECTION = encoding.record(
    {
        "entry": encoding.integer,
        "graph": encoding.one_of("source", "overlay"),
        "top": PROOF,
        "maps": _proofs,
    },
    {
        "symbols": encoding.sequence(type_ref, MAX_RECORDS),
        "packages": _rows(_NAME, PROOF),
        "branches": _rows(_NAME, EDGE_TYPE, PROOF),
        "sets": _rows(EDGE_TYPE, _INDEX, encoding.digest, encoding.integer, PROOF),
        "relations": _rows(_INDEX, _INDEX, EDGE_TYPE, _PROVENANCES),
        "names": _rows(_EDGE_TYPE_OR_REPUBLISHED, _NAME, _rows(_INDEX, _short_digest)),
        "aliases": _rows(canonical_path, _rows(_INDEX, encoding.boolean)),
        "alias_of": _rows(_INDEX, encoding.sequence(_name_or_member, MAX_RECORDS)),
        "members": _rows(_INDEX, _NAME, _INDICES),
        "facts": _rows(_INDEX, facts_from_json),
    },
)

_RECORDS: Final = ("packages", "branches", "sets", "relations", "names", "aliases", "alias_of", "members", "facts")


class ProvenGraph:
    """A graph as far as a section proves it under a root that is believed."""

    def __init__(
        self,
        repo: str,
        root: bytes,
        section: Mapping[str, Any],
        inbound: Mapping[tuple[str, NodeId], tuple[Relation, ...]],
    ) -> None:
        """Check every pruned map against its root; records are checked when they are asked for.

        `inbound` has the relations that the statement lists; the statement is not believed, but asked to be complete.
        """
        self.repo = repo
        self._inbound = inbound
        self._values_by_name: dict[tuple[str, NodeId], bytes] = {}  # inbound values out of complete names sets
        refs: tuple[TypeRef, ...] = section["symbols"]
        self._symbols = [symbol_from_ref(ref, repo) for ref in refs]
        self._used_symbols: set[int] = set()
        self._used_records: set[tuple[str, tuple[Any, ...]]] = set()
        self._records = sum(len(section[name]) for name in _RECORDS)
        self._lower_maps: dict[tuple[bytes, Level], ProvenMap] = {}
        self._lower_proofs: dict[tuple[bytes, Level], bytes] = {}
        self._top = top = ProvenMap(section["top"], Level.GRAPH, root, "graph")
        self._maps: dict[str, ProvenMap] = {}
        for name, proof in section["maps"].items():
            map_root = top.get(graph.map_key(name))
            if map_root is None:
                raise RejectedError("graph-malformed", f"the graph has no {name} map")
            self._maps[name] = ProvenMap(proof, graph.MAP_LEVELS[name], map_root, name)
        self._packages = _unique(section["packages"], 1, "packages")
        self._branches = _unique(section["branches"], 2, "branches")
        self._sets = _unique(self._resolved(section["sets"], 1), 2, "sets")
        self._relations = _unique(self._resolved(section["relations"], 0, 1), 3, "relations")
        self._names = _unique(section["names"], 2, "names")
        self._aliases = _unique(section["aliases"], 1, "aliases")
        self._alias_of = _unique(self._resolved(section["alias_of"], 0), 1, "alias_of")
        self._members = _unique(self._resolved(section["members"], 0), 2, "members")
        self._facts = _unique(self._resolved(section["facts"], 0), 1, "facts")

    def _symbol(self, index: int) -> NodeId:
        if index >= len(self._symbols):
            raise RejectedError("symbol-index", "a record refers to a symbol that the bundle does not have")
        self._used_symbols.add(index)
        return self._symbols[index]

    def _resolved(self, rows: Iterable[tuple[Any, ...]], *columns: int) -> list[tuple[Any, ...]]:
        """Rows with the symbols that these columns refer to."""
        resolved = []
        for row in rows:
            cells = list(row)
            for column in columns:
                cells[column] = self._symbol(cells[column])
            resolved.append(tuple(cells))
        return resolved

    def _value(self, name: str, key: bytes) -> bytes | None:
        if name not in self._maps:
            raise RejectedError(f"{name}-not-shown", f"the bundle has no proof of the {name} map")
        return self._maps[name].get(key)

    def _record(self, records: Mapping[tuple[Any, ...], tuple[Any, ...]], key: tuple[Any, ...], what: str) -> Any:
        if key not in records:
            raise RejectedError(f"{what}-record-missing", f"the bundle leaves out a record of the {what} map")
        self._used_records.add((what, key))
        found = records[key]
        return found[0] if len(found) == 1 else found

    @property
    def is_used(self) -> bool:
        """Whether everything that the section shows was needed for some answer."""
        return (
            len(self._used_records) == self._records
            and len(self._used_symbols) == len(self._symbols)
            and (self._top.is_used or self._top.is_bare)
            and all(one.is_used for one in (*self._maps.values(), *self._lower_maps.values()))
        )

    def has_node(self, node: NodeId) -> bool:
        """See `GraphReader`."""
        value = self._value("nodes", node_hash(*node))
        if value is not None and value != graph.node_value(node):
            raise RejectedError("nodes-value", "a node has another identity in the nodes map")
        return value is not None

    def relation(self, source: NodeId, target: NodeId, edge_type: str) -> tuple[str, ...]:
        """See `GraphReader`."""
        package = source.package
        types_root = self._value("edges", graph.package_key(package))
        if types_root is None:
            return ()
        proof = self._record(self._packages, (package,), "packages")
        types = self._map(proof, Level.EDGE_TYPES, types_root, "edge-types")
        branch_root = types.get(graph.edge_type_key(edge_type))
        if branch_root is None:
            return ()
        proof = self._record(self._branches, (package, edge_type), "branches")
        branch = self._map(proof, Level.RELATIONS, branch_root, "relations")
        return self._provenances(branch, source, target, edge_type)

    def inbound_relation(self, source: NodeId, target: NodeId, edge_type: str) -> tuple[str, ...]:
        """See `GraphReader`."""
        value = self._value("inbound", graph.inbound_key(edge_type, node_hash(*target)))
        if value is None:
            return ()
        root, size, proof = self._record(self._sets, (edge_type, target), "sets")
        if set_digest(root, size) != value:
            raise RejectedError("sets-value", "the root of an inbound set is not the one in the inbound map")
        return self._provenances(self._map(proof, Level.INBOUND_SET, root, "inbound-set"), source, target, edge_type)

    def _map(self, proof: bytes, level: Level, root: bytes, what: str) -> ProvenMap:
        """A pruned map below the named ones, decoded once however often it is asked."""
        key = (root, level)
        if key not in self._lower_maps:
            self._lower_maps[key] = ProvenMap(proof, level, root, what)
            self._lower_proofs[key] = proof
        elif self._lower_proofs[key] != proof:
            raise RejectedError(f"{what}-twice", f"the bundle has two proofs of one {what} map")
        return self._lower_maps[key]

    def _provenances(self, branch: ProvenMap, source: NodeId, target: NodeId, edge_type: str) -> tuple[str, ...]:
        source_hash, target_hash = node_hash(*source), node_hash(*target)
        value = branch.get(relation_hash(source_hash, target_hash, edge_type))
        if value is None:
            return ()
        provenances: tuple[str, ...] = self._record(self._relations, (source, target, edge_type), "relations")
        if _relation_value(source_hash, target_hash, edge_type, provenances) != value:
            raise RejectedError("provenance", "a relation was observed in other ways than the bundle says")
        return provenances

    def inbound(self, edge_type: str, target: NodeId) -> tuple[Relation, ...]:
        """See `GraphReader`."""
        key = (edge_type, target)
        if key in self._values_by_name:
            value: bytes | None = self._values_by_name[key]
        else:
            value = self._value("inbound", graph.inbound_key(edge_type, node_hash(*target)))
        if value is None:
            return ()
        if self._stated_value(*key) != value:
            raise RejectedError("inbound-incomplete", "the callers given of a target are not all that the graph has")
        return self._inbound.get(key, ())

    def _stated_value(self, edge_type: str, target: NodeId) -> bytes:
        """The value that the relations which the statement lists for a target have in the inbound map."""
        target_hash = node_hash(*target)
        relations = self._inbound.get((edge_type, target), ())
        content = {}
        for source, provenances in relations:
            source_hash = node_hash(*source)
            digest = _relation_value(source_hash, target_hash, edge_type, provenances)
            content[relation_hash(source_hash, target_hash, edge_type)] = digest
        if len(content) != len(relations):
            raise RejectedError("inbound-doubled", "a caller is given twice")
        return set_digest(MerkleMap.of(Level.INBOUND_SET, content).root, len(relations))

    def named(self, edge_type: str, segment: str) -> tuple[NodeId, ...]:
        """See `GraphReader`."""
        value = self._value("names", graph.names_key(edge_type, segment))
        if value is None:
            return ()
        rows = self._record(self._names, (edge_type, segment), "names")
        content: dict[bytes, bytes] = {}
        nodes = []
        for index, inbound in rows:
            node = self._symbol(index)
            content[node_hash(*node)] = inbound
            nodes.append(node)
        self._check_set(Level.NAMES_SET, content, len(nodes), value, "names")
        self._values_by_name.update(((edge_type, self._symbol(index)), inbound) for index, inbound in rows)
        return tuple(sorted(nodes))

    def member(self, owner: NodeId, name: str) -> tuple[NodeId, ...]:
        """See `GraphReader`."""
        value = self._value("members", graph.member_key(node_hash(*owner), name))
        if value is None:
            return ()
        nodes = [self._symbol(index) for index in self._record(self._members, (owner, name), "members")]
        hashes = [node_hash(*node) for node in nodes]
        self._check_set(Level.MEMBER_SET, {one: one for one in hashes}, len(nodes), value, "members")
        return tuple(sorted(nodes))

    def alias(self, name: str) -> tuple[AliasTarget, ...]:
        """See `GraphReader`."""
        value = self._value("aliases", external_hash(name))
        if value is None:
            return ()
        rows = self._record(self._aliases, (name,), "aliases")
        targets = [AliasTarget(self._symbol(index), claimed) for index, claimed in rows]
        content = {node_hash(*node): graph.alias_value(node_hash(*node), claimed=claimed) for node, claimed in targets}
        self._check_set(Level.ALIAS_SET, content, len(targets), value, "aliases")
        return tuple(sorted(targets))

    def aliases_of(self, target: NodeId) -> tuple[str | RenamedMember, ...]:
        """See `GraphReader`."""
        value = self._value("alias_of", node_hash(*target))
        if value is None:
            return ()
        rows = self._record(self._alias_of, (target,), "alias_of")
        names = [row if isinstance(row, str) else RenamedMember(self._symbol(row[0]), row[1]) for row in rows]
        hashes = [
            external_hash(name) if isinstance(name, str) else graph.member_key(node_hash(*name.owner), name.name)
            for name in names
        ]
        self._check_set(Level.ALIAS_OF_SET, {one: one for one in hashes}, len(names), value, "alias_of")
        return graph.sorted_names(names)

    def facts(self, node: NodeId) -> Facts:
        """See `GraphReader`."""
        value = self._value("facts", node_hash(*node))
        if value is None:
            return graph.NO_FACTS
        found: Facts = self._record(self._facts, (node,), "facts")
        if graph.facts_value(found) != value:
            raise RejectedError("facts-value", "a node has other facts in the facts map")
        return found

    def _check_set(self, level: Level, content: Mapping[bytes, bytes], size: int, value: bytes, what: str) -> None:
        """That a set has exactly these members: none dropped, added or given twice."""
        if len(content) != size:
            raise RejectedError(f"{what}-doubled", f"a member of a {what} set is given twice")
        if set_digest(MerkleMap.of(level, content).root, size) != value:
            raise RejectedError(f"{what}-incomplete", f"the members given are not the {what} set that the map has")


def _unique(rows: Iterable[tuple[Any, ...]], keys: int, what: str) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    found: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for row in rows:
        if found.setdefault(row[:keys], row[keys:]) != row[keys:]:
            raise RejectedError(f"{what}-twice", f"the bundle has two records of the {what} map for one key")
    return found


def _relation_value(source: bytes, target: bytes, edge_type: str, provenances: Iterable[str]) -> bytes:
    return relation_digest(edge_hash(source, target, edge_type, one) for one in provenances)


class EmptyGraph:
    """The graph without anything, as most overlays are: its root alone proves every absence."""

    def __init__(self, repo: str) -> None:
        self.repo = repo

    def has_node(self, node: NodeId) -> bool:  # noqa: ARG002
        """See `GraphReader`."""
        return False

    def relation(self, source: NodeId, target: NodeId, edge_type: str) -> tuple[str, ...]:  # noqa: ARG002
        """See `GraphReader`."""
        return ()

    inbound_relation = relation

    def inbound(self, edge_type: str, target: NodeId) -> tuple[Relation, ...]:  # noqa: ARG002
        """See `GraphReader`."""
        return ()

    def named(self, edge_type: str, segment: str) -> tuple[NodeId, ...]:  # noqa: ARG002
        """See `GraphReader`."""
        return ()

    def alias(self, name: str) -> tuple[AliasTarget, ...]:  # noqa: ARG002
        """See `GraphReader`."""
        return ()

    def aliases_of(self, target: NodeId) -> tuple[str | RenamedMember, ...]:  # noqa: ARG002
        """See `GraphReader`."""
        return ()

    def member(self, owner: NodeId, name: str) -> tuple[NodeId, ...]:  # noqa: ARG002
        """See `GraphReader`."""
        return ()

    def facts(self, node: NodeId) -> Facts:  # noqa: ARG002
        """See `GraphReader`."""
        return graph.NO_FACTS


EMPTY_GRAPH_ROOT: Final = graph.graph_map(
    {name: MerkleMap(level).root for name, level in graph.MAP_LEVELS.items()}
).root
