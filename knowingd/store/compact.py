"""Records for a first load in columns of plain values: cheap to hand from one process to another, and to number.

Everything names nodes by their places in one list of hashes, so that a node is looked up once and not for each edge.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from knowing_protocol.errors import InvalidNameError
from knowing_protocol.graph import file_attributes
from knowing_protocol.hashing import edge_hash
from knowing_protocol.records import MAX_ARITY, Edge, File, Records, canonical_facts, facts_to_json

from knowingd.store.codes import EDGE_TYPE_CODES, LAYER_OF_PROVENANCE, LAYERS, PROVENANCE_CODES
from knowingd.store.packing import PlainSite
from knowingd.store.rows import MAX_NODES, edge_number

EDGE_CODES = {
    (edge_type, provenance): edge_number(0, code, 0, how)
    for edge_type, code in EDGE_TYPE_CODES.items()
    for provenance, how in PROVENANCE_CODES.items()
}
_CODES_OF_LAYER = tuple(
    frozenset(pair for pair in EDGE_CODES if LAYER_OF_PROVENANCE[PROVENANCE_CODES[pair[1]]] == layer)
    for layer in LAYERS
)
_TARGET, _TYPE, _PROVENANCE = 0xFFFFFF, 63, 15

DeclarationColumns: TypeAlias = tuple[int, int, int, int, str, str]  # node, ordinal, line, end line, signature, doc


class CompactFile(NamedTuple):
    """A file: its declarations, and its call sites by source."""

    path: str
    content: bytes
    attributes: bytes
    declarations: list[DeclarationColumns]
    sites: dict[int, list[PlainSite]]


class Compact(NamedTuple):
    """The records of one graph, or of a part of it."""

    keys: list[bytes]  # the hashes of all nodes that are mentioned
    nodes: list[tuple[str, str, str, str]]
    edges: list[int]  # as `edge_number`, of places
    aliases: list[tuple[str, int, bool]]
    members: list[tuple[int, str, int]]
    facts: list[tuple[int, dict[str, Any]]]
    files: list[CompactFile]
    coverage: dict[str, str]


class _Places(dict[bytes, int]):
    """The place of each node hash, given when it is first asked for."""

    def __missing__(self, key: bytes) -> int:
        found = self[key] = len(self)
        return found


def check_layer(edges: Sequence[Edge], layer: int) -> None:
    """Refuse edges that are not of a layer."""
    if not _CODES_OF_LAYER[layer].issuperset({(edge_type, how) for _, _, edge_type, how in edges}):
        raise InvalidNameError("an edge of the source graph comes from the tree, one of the overlay does not")


def compact(records: Records, layer: int, hashes: Sequence[bytes | None] = ()) -> Compact:
    """Records in columns; `hashes` are those of the edges, for whoever has them already."""
    places = _Places()
    check_layer(records.edges, layer)
    edges = [
        places[source] << 34 | places[target] << 4 | EDGE_CODES[edge_type, how]
        for source, target, edge_type, how in records.edges
    ]
    if not hashes and any(file.sites for file in records.files):
        hashes = [edge_hash(*edge) for edge in records.edges]
    numbers = dict(zip(hashes, edges, strict=True)) if hashes else {}
    found = Compact(
        keys=[],
        nodes=[(*node,) for node in records.nodes],
        edges=edges,
        aliases=[(name, places[target], claimed) for name, target, claimed in records.aliases],
        members=[(places[owner], name, places[target]) for owner, name, target in records.members],
        facts=[(places[key], facts_to_json(canonical_facts(facts))) for key, facts in records.facts.items()],
        files=[_file(file, places, numbers) for file in records.files],
        coverage={path: reason.value for path, reason in records.coverage.items()},
    )
    found.keys.extend(places)
    if len(places) >= MAX_NODES:
        raise InvalidNameError(f"a repository of more than {MAX_NODES:,} symbols cannot be kept")
    return found


def _file(file: File, places: _Places, numbers: Mapping[bytes | None, int]) -> CompactFile:
    ordinals: dict[bytes, int] = defaultdict(int)
    declarations: list[DeclarationColumns] = []
    for key, line, end_line, signature, doc in sorted(set(file.declarations)):
        declarations.append((places[key], ordinals[key], line, end_line, signature, doc))
        ordinals[key] += 1
    sites: dict[int, list[PlainSite]] = {}
    for key, declaration, line, column, arity in file.sites:
        number = numbers.get(key)
        if number is None or not -1 <= arity <= MAX_ARITY:
            raise InvalidNameError(f"{file.path} has a call site of an edge that is not given with it")
        site = (number >> 4 & _TARGET, number >> 28 & _TYPE, number & _PROVENANCE, declaration, line, column, arity)
        source = number >> 34
        if source in sites:
            sites[source].append(site)
        else:
            sites[source] = [site]
    return CompactFile(file.path, file.content, file_attributes(file).root, declarations, sites)
