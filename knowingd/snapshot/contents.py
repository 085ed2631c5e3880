"""Entries of the named maps, from rows that were read already.

Nothing here asks a store, so that the first snapshot of a repository can be made by several processes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from knowing_protocol import graph
from knowing_protocol.critbit import root_of, roots_of
from knowing_protocol.encoding import canonical_json
from knowing_protocol.graph import Level, RenamedMember
from knowing_protocol.hashing import external_hash, set_digest, tagged

from knowingd.snapshot.trees import Entries
from knowingd.store.codes import EDGE_TYPES
from knowingd.store.rows import REPUBLISHED_CODE, TYPE_BITS, AliasRow, FileRow, MemberRow, NodeRow

Items: TypeAlias = dict[bytes, bytes]
Nodes: TypeAlias = Mapping[int, NodeRow]
Names: TypeAlias = dict[int, list[str | RenamedMember]]


def set_value(level: Level, content: Items) -> bytes:
    """The value of a key that stands for a small set, which is not empty."""
    return set_digest(root_of(level, [key + value for key, value in content.items()]), len(content))


def set_values(level: Level, sets: Iterable[list[bytes]]) -> list[bytes]:
    """The values of many sets, each given as its records, none of them empty."""
    sizes: list[int] = []

    def counted() -> Iterator[list[bytes]]:
        for one in sets:
            sizes.append(len(one))
            yield one

    return list(map(set_digest, roots_of(level, counted()), sizes))


class Segments:
    """The last segments of nodes' names, made once each."""

    def __init__(self, node: Callable[[int], NodeRow]) -> None:
        self._node = node
        self._known: dict[int, frozenset[str]] = {}

    def of(self, node: int) -> frozenset[str]:
        """The segments under which a node stands in `names`."""
        found = self._known.get(node)
        if found is None:
            found = self._known[node] = graph.target_segments(self._node(node).node)
        return found


def names_type(edge_type: int) -> str:
    """What stands for an edge type in the keys of `names`."""
    return graph.REPUBLISHED if edge_type == REPUBLISHED_CODE else EDGE_TYPES[edge_type]


def by_names(codes: Iterable[int], segments_of: Callable[[int], frozenset[str]]) -> dict[tuple[int, str], list[int]]:
    """Inbound sets (`target << TYPE_BITS | edge type`) by edge type and the last segments of their targets' names."""
    found: dict[tuple[int, str], list[int]] = defaultdict(list)
    for code in codes:
        for segment in segments_of(code >> TYPE_BITS):
            found[code & REPUBLISHED_CODE, segment].append(code)
    return found


def of_inbound(values: Mapping[int, bytes], hashes: Mapping[int, bytes]) -> Entries:
    """`inbound`: what each inbound set stands for."""
    places = [
        (graph.inbound_key(EDGE_TYPES[code & REPUBLISHED_CODE], hashes[code >> TYPE_BITS]), code) for code in values
    ]
    return Entries(places, {key: values[code] for key, code in places})


def of_nodes(found: Iterable[int], nodes: Nodes) -> Entries:
    """`nodes`: what each node is."""
    rows = [nodes[one] for one in found]
    return Entries([(row.hash, row.id) for row in rows], {row.hash: graph.node_value(row.node) for row in rows})


def of_aliases(rows: Iterable[AliasRow], nodes: Nodes) -> Entries:
    """`aliases`: what each name leads to."""
    return _sets(
        Level.ALIAS_SET,
        (
            (external_hash(name), row_id, (key := nodes[target].hash), graph.alias_value(key, claimed=claimed))
            for row_id, name, target, claimed in rows
        ),
    )


def of_members(rows: Iterable[MemberRow], nodes: Nodes) -> Entries:
    """`members`: what each member of an owner leads to."""
    return _sets(
        Level.MEMBER_SET,
        (
            (graph.member_key(nodes[owner].hash, name), row_id, (key := nodes[target].hash), key)
            for row_id, owner, name, target in rows
        ),
    )


def names_of(
    aliases: Iterable[AliasRow],
    members: Iterable[MemberRow],
    nodes: Nodes,
    segments_of: Callable[[int], frozenset[str]],
) -> Names:
    """Node to all the names that lead to it: aliases, and members called otherwise than it."""
    names: Names = defaultdict(list)
    for alias in aliases:
        names[alias.target].append(alias.name)
    for _, owner, name, target in members:
        segments = segments_of(target)
        if name not in segments or len(segments) != 1:
            names[target].append(RenamedMember(nodes[owner].node, name))
    return names


def of_names(names: Names, nodes: Nodes) -> Entries:
    """`alias_of`: all the names that lead to each node."""
    places = [(nodes[one].hash, one) for one in names]
    return Entries(places, {key: graph.names_value(names[one]) for key, one in places})


def of_facts(rows: Iterable[tuple[int, dict[str, Any]]], nodes: Nodes) -> Entries:
    """`facts`: what is known of each node's types."""
    found = Entries([], {})
    for node, facts in rows:
        key = nodes[node].hash
        found.places.append((key, node))
        found.values[key] = tagged("facts", canonical_json(facts))
    return found


def of_files(rows: Iterable[FileRow]) -> Entries:
    """`files`: content and attributes of each path."""
    found = Entries([], {})
    for row in rows:
        key = graph.path_key(row.path)
        found.places.append((key, row.id))
        found.values[key] = graph.file_value(row.content, row.attributes)
    return found


def of_coverage(rows: Iterable[tuple[int, str, str]]) -> Entries:
    """`coverage`: why the graph does not fully speak for a path."""
    found = Entries([], {})
    for row_id, path, reason in rows:
        key = graph.path_key(path)
        found.places.append((key, row_id))
        found.values[key] = graph.coverage_value(reason)
    return found


def _sets(level: Level, members: Iterable[tuple[bytes, int, bytes, bytes]]) -> Entries:
    """Entries of a map of sets, from (key, id, member of the set, its value)."""
    sets: dict[bytes, Items] = {}
    places = []
    for key, row_id, member, value in members:
        places.append((key, row_id))
        if key in sets:
            sets[key][member] = value
        else:
            sets[key] = {member: value}
    records = ([member + value for member, value in content.items()] for content in sets.values())
    return Entries(places, dict(zip(sets, set_values(level, records), strict=True)))
