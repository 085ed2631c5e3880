"""A first transfer in pieces of at most 256 KiB, each named by what it holds, so that any peer can send any of them.

A piece is everything below a prefix of one map, or of a branch of `edges`; a piece of `edges` itself is all branches of
the packages below the prefix, but for those packages that are so large that each of their branches is cut on its own.
The list of pieces gives with each the root of its subtree: where the head moves on during a transfer, pieces whose
roots are the same stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from knowing_protocol.critbit import subtree
from knowing_protocol.errors import MalformedError
from knowing_protocol.pack import pack_records, references
from knowing_protocol.records import Edge, Records

from knowingd.store.codes import EDGE_TYPES, LAYER_OF_PROVENANCE, LAYERS, PROVENANCES
from knowingd.sync.delta import safe_width
from knowingd.sync.descent import MAX_BITS, Ask, ask_from
from knowingd.sync.spaces import BRANCH, EVERYTHING, MAPS, WAY_BITS, Prefix, Side, Space, records_by_id

MAX_CHUNK: Final = 256 * 1024
_KEYS: Final = {"nodes": 4096, "aliases": 8192, "members": 8192, "facts": 2048, "files": 32, "coverage": 8192}
_EDGES: Final = 16384
_ROOT: Final = 16  # bytes of a root that tell a piece from its successor


class Piece(NamedTuple):
    """Everything below a prefix of a space, and the root of that subtree."""

    space: Space
    prefix: Prefix
    root: bytes

    @property
    def name(self) -> str:
        """One text for each piece."""
        layer, name, package, edge_type = self.space
        return f"{layer} {name} {edge_type} {self.prefix.bits} {self.prefix.value:x} {package}"

    def is_below(self, other: Piece) -> bool:
        """Whether everything in this piece is also in the other one, which is larger."""
        deeper = self.prefix.bits - other.prefix.bits
        return self.space == other.space and deeper > 0 and self.prefix.value >> deeper == other.prefix.value

    def plain(self) -> list[Any]:
        """As it travels."""
        return [*Ask(self.space, self.prefix, 0, b"").plain()[:6], self.root]


def piece_from(value: Any) -> Piece:
    """A piece from outside."""
    if not isinstance(value, list) or len(value) != 7 or not isinstance(value[6], bytes) or len(value[6]) > _ROOT:
        raise MalformedError("a piece of a transfer is not well formed", code="chunk")
    ask = ask_from([*value[:6], 2, b""])
    return Piece(ask.space, ask.prefix, value[6])


def pieces(side: Side) -> list[Piece]:
    """Everything there is to send, in the order in which it is best sent: what others refer to comes first."""
    return [piece for layer in LAYERS for name in MAPS for piece in _pieces_of(side, Space(layer, name))]


def _pieces_of(side: Side, space: Space) -> Iterator[Piece]:
    if space.map != "edges":
        yield from _cut(side, space, side.stored[space.layer].size(space.map), _KEYS[space.map])
        return
    counts = _edge_counts(side, space.layer)
    names = {number: name for name, number in side.packages.items()}
    large = _large(counts)
    small = sum(count for (package, _), count in counts.items() if package not in large)
    yield from _cut(side, space, small, _EDGES)
    for (package, edge_type), count in sorted(counts.items()):
        if package in large:
            yield from _cut(side, Space(space.layer, BRANCH, names[package], edge_type), count, _EDGES)


def _cut(side: Side, space: Space, size: int, most: int) -> Iterator[Piece]:
    """The pieces of a space that has about so many things, of which one piece should have at most so many."""
    bits = 0
    while size >> bits > most // 2 and bits < MAX_BITS:
        bits += WAY_BITS
    yield from split(side, Piece(space, EVERYTHING, b""), bits)


def split(side: Side, piece: Piece, deeper: int = WAY_BITS) -> Iterator[Piece]:
    """The pieces that a piece consists of, each so many bits deeper."""
    tree = side.tree(piece.space)
    bits = piece.prefix.bits + deeper
    for number in range(1 << deeper):
        prefix = Prefix(bits, piece.prefix.value << deeper | number)
        node = subtree(tree.node, prefix.key, bits, tree.load)
        if node is not None:
            yield Piece(piece.space, prefix, node[0][:_ROOT])


def _edge_counts(side: Side, layer: int) -> Counter[tuple[int, int]]:
    """How many edges each branch has."""
    packages = side.session.package_ids()
    return Counter(
        (packages[edge.source], edge.type)
        for edge in side.session.edges()
        if LAYER_OF_PROVENANCE[edge.provenance] == layer
    )


def _large(counts: Counter[tuple[int, int]]) -> set[int]:
    """The packages whose branches are pieces of their own."""
    totals: Counter[int] = Counter()
    for (package, _), count in counts.items():
        totals[package] += count
    return {package for package, count in totals.items() if count > _EDGES}


def read_piece(side: Side, piece: Piece) -> Any:
    """The records of a piece as a pack."""
    space = piece.space
    if space.map == "edges":
        records, known = Records(edges=_package_edges(side, piece)), set[Edge]()
    elif space.map == BRANCH:
        records, known = Records(edges=_branch_edges(side, piece)), set[Edge]()
    else:
        ids = side.stored[space.layer].ids_below(space.map, piece.prefix.value, piece.prefix.bits)
        records, known = records_by_id(side.session, space.layer, space.map, ids)
    return pack_records(records, known, safe_width(side.session, references(records, known)))


def _package_edges(side: Side, piece: Piece) -> list[Edge]:
    layer = piece.space.layer
    below = side.stored[layer].ids_below("edges", piece.prefix.value, piece.prefix.bits)
    found: list[Edge] = []
    for package in sorted(below):
        rows = [
            edge for edge in side.session.edges_of_package(package) if LAYER_OF_PROVENANCE[edge.provenance] == layer
        ]
        if len(rows) <= _EDGES:
            nodes = side.session.load_nodes({one for edge in rows for one in (edge.source, edge.target)})
            found += (
                Edge(nodes[row.source].hash, nodes[row.target].hash, EDGE_TYPES[row.type], PROVENANCES[row.provenance])
                for row in rows
            )
    return found


def _branch_edges(side: Side, piece: Piece) -> list[Edge]:
    layer, _, name, edge_type = piece.space
    package = side.packages.get(name)
    if package is None:
        return []
    pairs = side.stored[layer].relations_below(package, edge_type, piece.prefix.value, piece.prefix.bits)
    nodes = side.session.load_nodes({one for pair in pairs for one in pair})
    return [
        Edge(nodes[source].hash, nodes[target].hash, EDGE_TYPES[edge_type], PROVENANCES[code])
        for source, target in pairs
        for code in side.session.provenances(source, edge_type, target)
        if LAYER_OF_PROVENANCE[code] == layer
    ]
