"""The graph root and its named maps, from plain records.

    edges     package -> edge type -> relation => digest of its edge hashes
    inbound   (edge type, target) => root and size of the set of its relations
    names     (edge type, last segment of the target) => root and size of the map of targets so named => inbound value
              (`alias`, last segment) => the same of names from outside that are published anew => alias_of value
    nodes     node => digest of its identity
    aliases   alias => set of targets               alias_of  target => set of its aliases and renamed members
    members   (owner, name) => set of targets       facts     node => digest of its type facts
    files     path => content and attributes        coverage  path => reason

Keys and values are functions here, one for each map, so that a store can compute single entries and a verifier can
derive every key from names. `Graph` holds all maps of a graph in memory and answers the questions of `GraphReader`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import IntEnum
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple, Protocol

from knowing_protocol.critbit import MerkleMap, root_of
from knowing_protocol.encoding import canonical_json
from knowing_protocol.errors import InvalidNameError
from knowing_protocol.hashing import (
    NodeId,
    check_part,
    external_hash,
    node_hash,
    relation_entry,
    set_digest,
    tag_prefix,
    tagged,
)
from knowing_protocol.paths import is_plain, last_segments, local_last_segment, parse_path, plain_prefixes
from knowing_protocol.records import Alias, Edge, Facts, File, Member, Records, Site, canonical_facts, facts_to_json
from knowing_protocol.standard_library import in_standard_library
from knowing_protocol.vocabulary import Coverage, EdgeType, NodeKind, Provenance, member


class Level(IntEnum):
    """The level byte of each map; a node of one level is never a node of another."""

    GRAPH = 1
    PACKAGES = 2
    EDGE_TYPES = 3
    RELATIONS = 4
    INBOUND = 5
    INBOUND_SET = 6
    NAMES = 7
    NAMES_SET = 8
    NODES = 9
    ALIASES = 10
    ALIAS_SET = 11
    ALIAS_OF = 12
    ALIAS_OF_SET = 13
    MEMBERS = 14
    MEMBER_SET = 15
    FACTS = 16
    FILES = 17
    ATTRIBUTES = 18
    COVERAGE = 19
    ROSTER = 20


MAP_LEVELS: dict[str, Level] = {
    "edges": Level.PACKAGES,
    "inbound": Level.INBOUND,
    "names": Level.NAMES,
    "nodes": Level.NODES,
    "aliases": Level.ALIASES,
    "alias_of": Level.ALIAS_OF,
    "members": Level.MEMBERS,
    "facts": Level.FACTS,
    "files": Level.FILES,
    "coverage": Level.COVERAGE,
}


def map_key(name: str) -> bytes:
    """The key of a named map under the graph root."""
    return tagged("map", name)


def package_key(package: str) -> bytes:
    """The key of a package in the map of packages."""
    return tagged("package", package)


@lru_cache(maxsize=64)
def edge_type_key(edge_type: str) -> bytes:
    """The key of an edge type under its package."""
    return tagged("type", edge_type)


def inbound_key(edge_type: str, target: bytes) -> bytes:
    """The key of all relations of one type to one target."""
    return tagged("inbound", edge_type, target)


def names_key(edge_type: str, segment: str) -> bytes:
    """The key of all targets of one type that end in one segment."""
    return tagged("name", edge_type, segment)


def member_key(owner: bytes, name: str) -> bytes:
    """The key of a member; in `alias_of`, also the name of a member that is called otherwise than its target."""
    return tagged("member", owner, name)


def path_key(path: str) -> bytes:
    """The key of a file in `files` and `coverage`."""
    return tagged("path", path)


def node_value(node: NodeId) -> bytes:
    """The value of a node: its identity, each part with its length."""
    return tagged("identity", *node)


def alias_value(target: bytes, *, claimed: bool) -> bytes:
    """The value of a target in the set of an alias."""
    return tagged("alias", target, b"\1" if claimed else b"\0")


def facts_value(facts: Facts) -> bytes:
    """The value of a node's facts."""
    return tagged("facts", canonical_json(facts_to_json(facts)))


def coverage_value(reason: str) -> bytes:
    """The value of a path that the graph does not fully speak for."""
    return tagged("coverage", reason)


_SITES = tag_prefix("sites")


def file_attributes(file: File) -> MerkleMap:
    """The map of everything about a file's symbols that is not identity."""
    declarations: dict[bytes, list[list[int | str]]] = defaultdict(list)
    for node, line, end_line, signature, doc in file.declarations:
        declarations[node].append([line, end_line, signature, doc])
    content = {
        tagged("declarations", node): tagged("declarations", canonical_json(sorted(found)))
        for node, found in declarations.items()
    }
    sites: dict[bytes, list[Site]] = {}
    for site in file.sites:
        if site[0] in sites:
            sites[site[0]].append(site)
        else:
            sites[site[0]] = [site]
    for edge, places in sites.items():
        places.sort()
        # The canonical JSON of lists of numbers, written by hand: there are as many as there are edges.
        text = b"[" + b",".join([b"[%d,%d,%d,%d]" % place[1:] for place in places]) + b"]"
        content[sha256(_SITES + edge).digest()] = sha256(tag_prefix("sites", len(text)) + text).digest()
    return MerkleMap.of(Level.ATTRIBUTES, content)


def file_value(content: bytes, attributes_root: bytes) -> bytes:
    """The value of a file."""
    return tagged("file", content, attributes_root)


def target_segments(node: NodeId) -> frozenset[str]:
    """The last segments under which a target stands in `names`."""
    if node.kind == NodeKind.EXTERNAL:
        return last_segments(parse_path(node.name))
    return frozenset((local_last_segment(node.name),))


REPUBLISHED = "alias"
"""In place of an edge type in `names`: names from outside that a repository publishes under names of its own."""


def graph_map(roots: Mapping[str, bytes]) -> MerkleMap:
    """The map of the named maps; its root is the graph root."""
    if roots.keys() != MAP_LEVELS.keys():
        raise InvalidNameError("a graph has exactly the maps " + ", ".join(MAP_LEVELS))
    return MerkleMap.of(Level.GRAPH, {map_key(name): root for name, root in roots.items()})


class Relation(NamedTuple):
    """A relation as it is seen from its target."""

    source: NodeId
    provenances: tuple[str, ...]


class AliasTarget(NamedTuple):
    """What an alias leads to."""

    node: NodeId
    claimed: bool


class RenamedMember(NamedTuple):
    """A member whose name is not the last segment of its target."""

    owner: NodeId
    name: str


class GraphReader(Protocol):
    """Everything that resolution and proofs ask of a graph.

    In memory, behind a store or out of a proof, the answers are the same; an empty answer means provably none.
    """

    @property
    def repo(self) -> str:
        """The canonical URL of the repository."""

    def has_node(self, node: NodeId) -> bool:
        """Whether the node is in the graph."""

    def relation(self, source: NodeId, target: NodeId, edge_type: str) -> tuple[str, ...]:
        """The provenances of a relation, sorted; empty where there is none."""

    def inbound_relation(self, source: NodeId, target: NodeId, edge_type: str) -> tuple[str, ...]:
        """The same, as the inbound map has it."""

    def inbound(self, edge_type: str, target: NodeId) -> tuple[Relation, ...]:
        """All relations of a type to a target, sorted by source."""

    def named(self, edge_type: str, segment: str) -> tuple[NodeId, ...]:
        """All targets of a type, or `REPUBLISHED`, that end in a segment, sorted."""

    def alias(self, name: str) -> tuple[AliasTarget, ...]:
        """What a canonical name leads to in this repository, sorted."""

    def aliases_of(self, target: NodeId) -> tuple[str | RenamedMember, ...]:
        """All names of this repository that lead to a target, sorted."""

    def member(self, owner: NodeId, name: str) -> tuple[NodeId, ...]:
        """What a member name leads to, sorted."""

    def facts(self, node: NodeId) -> Facts:
        """What is known of a node's types."""


NO_FACTS = Facts()
ROOTED = frozenset(("python", "npm", "go", "rust"))
"""Schemes in which a name is published only together with its root module, package or crate: one lookup then tells
that a library is not in scope, however long its names are."""
_EDGE_TYPES = frozenset(one.value for one in EdgeType)
_PROVENANCES = frozenset(one.value for one in Provenance)


def set_map(level: int, members: Iterable[bytes]) -> MerkleMap:
    """The map of a plain set: each member stands for itself."""
    return MerkleMap.of(level, {one: one for one in members})


def names_value(names: Iterable[str | RenamedMember]) -> bytes:
    """The value of a target in `alias_of`: all the names that lead to it."""
    hashes = {
        external_hash(name) if isinstance(name, str) else member_key(node_hash(*name.owner), name.name)
        for name in names
    }
    return set_digest(root_of(Level.ALIAS_OF_SET, [one + one for one in hashes]), len(hashes))


def set_value(tree: MerkleMap, size: int) -> bytes:
    """The value of a key that stands for a set."""
    return set_digest(tree.root, size)


class Graph:
    """One graph of one repository in memory: its maps, and the answers of `GraphReader`."""

    def __init__(self, repo: str, records: Records) -> None:
        """Build every map. Records may repeat, and every node that they refer to must be among them."""
        self.repo = repo
        self._ids = {node_hash(*node): node for node in records.nodes}
        for node in self._ids.values():
            member(NodeKind, node.kind)
            for part in node:
                check_part(part, "a part of a node")
            home = ("", "") if node.kind == NodeKind.EXTERNAL else (repo, node.package)
            if (node.repo, node.package) != home:
                raise InvalidNameError(f"the node {node.name} is of {node.repo or 'nowhere'}, not of {repo}")
        self._facts = {key: canonical_facts(facts) for key, facts in records.facts.items() if facts != NO_FACTS}
        for key in self._facts:
            self._id(key)
        self._build_edges(records.edges)
        self._build_names(records.aliases, records.members)
        self.maps: dict[str, MerkleMap] = {
            "edges": self.packages,
            "inbound": _map_of_sets(Level.INBOUND, self.inbound_sets),
            "names": _map_of_sets(Level.NAMES, self.names_sets),
            "nodes": MerkleMap.of(Level.NODES, {key: node_value(node) for key, node in self._ids.items()}),
            "aliases": _map_of_sets(Level.ALIASES, self.alias_sets),
            "alias_of": _map_of_sets(Level.ALIAS_OF, self.alias_of_sets),
            "members": _map_of_sets(Level.MEMBERS, self.member_sets),
            "facts": MerkleMap.of(Level.FACTS, {key: facts_value(facts) for key, facts in self._facts.items()}),
            "files": MerkleMap.of(
                Level.FILES,
                {path_key(file.path): file_value(file.content, file_attributes(file).root) for file in records.files},
            ),
            "coverage": MerkleMap.of(
                Level.COVERAGE, {path_key(path): coverage_value(reason) for path, reason in records.coverage.items()}
            ),
        }
        self.top = graph_map({name: tree.root for name, tree in self.maps.items()})

    @property
    def root(self) -> bytes:
        """The graph root."""
        return self.top.root

    def tree(self, name: str, _keys: Iterable[bytes] = ()) -> MerkleMap:
        """A named map, or `graph` for the map of all of them."""
        return self.top if name == "graph" else self.maps[name]

    def package_tree(self, package: str) -> MerkleMap | None:
        """The map of a package's edge types."""
        return self.package_types.get(package)

    def branch_tree(self, package: str, edge_type: str) -> MerkleMap | None:
        """The map of a branch's relations."""
        return self.branches.get(package, {}).get(edge_type)

    def inbound_tree(self, edge_type: str, target: bytes) -> tuple[MerkleMap, int] | None:
        """The set of a target's relations, and its size."""
        return self.inbound_sets.get(inbound_key(edge_type, target))

    def _build_edges(self, edges: Iterable[Edge]) -> None:
        provenances: dict[tuple[bytes, bytes, str], set[str]] = defaultdict(set)
        for source, target, edge_type, provenance in edges:
            if edge_type not in _EDGE_TYPES or provenance not in _PROVENANCES:
                raise InvalidNameError(f"{edge_type[:40]!r} by {provenance[:40]!r} is no edge type and provenance")
            provenances[source, target, edge_type].add(provenance)
        self._provenances = {key: tuple(sorted(found)) for key, found in provenances.items()}
        branches: dict[str, dict[str, dict[bytes, bytes]]] = defaultdict(lambda: defaultdict(dict))
        inbound: dict[bytes, dict[bytes, bytes]] = defaultdict(dict)
        named: dict[bytes, dict[bytes, bytes]] = defaultdict(dict)
        self._sources: dict[tuple[str, bytes], list[bytes]] = defaultdict(list)
        for (source, target, edge_type), found in self._provenances.items():
            if self._id(source).kind == NodeKind.EXTERNAL:
                raise InvalidNameError("an edge starts at a name from outside")
            relation, digest = relation_entry(source, target, edge_type, found)
            branches[self._id(source).package][edge_type][relation] = digest
            inbound[inbound_key(edge_type, target)][relation] = digest
            self._sources[edge_type, target].append(source)
        self.inbound_sets = {
            key: (MerkleMap.of(Level.INBOUND_SET, found), len(found)) for key, found in inbound.items()
        }
        for edge_type, target in self._sources:
            value = set_value(*self.inbound_sets[inbound_key(edge_type, target)])
            for segment in target_segments(self._id(target)):
                named[names_key(edge_type, segment)][target] = value
        self.branches = {
            package: {edge_type: MerkleMap.of(Level.RELATIONS, content) for edge_type, content in types.items()}
            for package, types in branches.items()
        }
        self.package_types = {
            package: MerkleMap.of(
                Level.EDGE_TYPES, {edge_type_key(edge_type): tree.root for edge_type, tree in types.items()}
            )
            for package, types in self.branches.items()
        }
        self.packages = MerkleMap.of(
            Level.PACKAGES, {package_key(package): tree.root for package, tree in self.package_types.items()}
        )
        self.names_sets = {key: (MerkleMap.of(Level.NAMES_SET, found), len(found)) for key, found in named.items()}

    def _build_names(self, aliases: Iterable[Alias], members: Iterable[Member]) -> None:
        claims: dict[str, dict[bytes, bool]] = defaultdict(dict)
        for name, target, claimed in aliases:
            if not is_plain(parse_path(name)):
                raise InvalidNameError(f"{name[:80]} cannot be published: it is a path through types, not a name")
            if claimed and in_standard_library(parse_path(name)):
                raise InvalidNameError(f"{name[:80]} cannot be claimed: it is of the language's standard library")
            self._id(target)
            claims[name][target] = claimed or claims[name].get(target, False)
        for name in claims:
            path = parse_path(name)
            if path.scheme in ROOTED and plain_prefixes(path)[-1][0] not in claims:
                raise InvalidNameError(f"{name[:80]} is published without its root")
        self._aliases = dict(claims)
        self.alias_sets = {
            external_hash(name): (
                MerkleMap.of(
                    Level.ALIAS_SET, {target: alias_value(target, claimed=flag) for target, flag in targets.items()}
                ),
                len(targets),
            )
            for name, targets in claims.items()
        }
        owned: dict[tuple[bytes, str], set[bytes]] = defaultdict(set)
        names_of: dict[bytes, dict[bytes, str | RenamedMember]] = defaultdict(dict)
        for name, targets in claims.items():
            for target in targets:
                names_of[target][external_hash(name)] = name
        for owner, name, target in members:
            self._id(owner)
            owned[owner, name].add(target)
            if target_segments(self._id(target)) != {name}:
                names_of[target][member_key(owner, name)] = RenamedMember(self._id(owner), name)
        self._members = dict(owned)
        self.member_sets = {
            member_key(owner, name): (set_map(Level.MEMBER_SET, targets), len(targets))
            for (owner, name), targets in owned.items()
        }
        self._names_of = dict(names_of)
        republished: dict[bytes, dict[bytes, bytes]] = defaultdict(dict)
        self.alias_of_sets = {
            target: (set_map(Level.ALIAS_OF_SET, found), len(found)) for target, found in names_of.items()
        }
        for target, found_set in self.alias_of_sets.items():
            outside = self._id(target).kind == NodeKind.EXTERNAL
            for segment in target_segments(self._id(target)) if outside else ():
                republished[names_key(REPUBLISHED, segment)][target] = set_value(*found_set)
        for key, found in republished.items():
            self.names_sets[key] = (MerkleMap.of(Level.NAMES_SET, found), len(found))

    def _id(self, key: bytes) -> NodeId:
        try:
            return self._ids[key]
        except KeyError:
            raise InvalidNameError(f"the node {key.hex()[:16]} is referred to and not among the records") from None

    def has_node(self, node: NodeId) -> bool:
        """See `GraphReader`."""
        return node_hash(*node) in self._ids

    def relation(self, source: NodeId, target: NodeId, edge_type: str) -> tuple[str, ...]:
        """See `GraphReader`."""
        return self._provenances.get((node_hash(*source), node_hash(*target), edge_type), ())

    inbound_relation = relation  # one table serves both maps in memory

    def inbound(self, edge_type: str, target: NodeId) -> tuple[Relation, ...]:
        """See `GraphReader`."""
        key = node_hash(*target)
        sources = self._sources.get((edge_type, key), ())
        return tuple(sorted(Relation(self._id(one), self._provenances[one, key, edge_type]) for one in sources))

    def named(self, edge_type: str, segment: str) -> tuple[NodeId, ...]:
        """See `GraphReader`."""
        found = self.names_sets.get(names_key(edge_type, segment))
        return tuple(sorted(self._id(key) for key, _ in found[0])) if found else ()

    def alias(self, name: str) -> tuple[AliasTarget, ...]:
        """See `GraphReader`."""
        found = self._aliases.get(name, {})
        return tuple(sorted(AliasTarget(self._id(target), claimed) for target, claimed in found.items()))

    def aliases_of(self, target: NodeId) -> tuple[str | RenamedMember, ...]:
        """See `GraphReader`."""
        return sorted_names(self._names_of.get(node_hash(*target), {}).values())

    def member(self, owner: NodeId, name: str) -> tuple[NodeId, ...]:
        """See `GraphReader`."""
        found = self._members.get((node_hash(*owner), name), ())
        return tuple(sorted(self._id(target) for target in found))

    def facts(self, node: NodeId) -> Facts:
        """See `GraphReader`."""
        return self._facts.get(node_hash(*node), NO_FACTS)


def sorted_names(names: Iterable[str | RenamedMember]) -> tuple[str | RenamedMember, ...]:
    """Names of a target in their one order: paths first."""
    return tuple(sorted(names, key=lambda name: (0, (name,)) if isinstance(name, str) else (1, name)))


def _map_of_sets(level: int, sets: Mapping[bytes, tuple[MerkleMap, int]]) -> MerkleMap:
    return MerkleMap.of(level, {key: set_value(tree, size) for key, (tree, size) in sets.items()})


def coverage_counts(coverage: Mapping[str, Coverage]) -> dict[str, int]:
    """How many files the graph does not fully speak for, by reason: what a header says of it."""
    counts: dict[str, int] = defaultdict(int)
    for reason in coverage.values():
        counts[reason.value] += 1
    return dict(sorted(counts.items()))
