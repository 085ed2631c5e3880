"""Records as columns: what travels between nodes, as plain lists, numbers, texts and bytes.

A pack is a list of tables, in this order; its serialisation (MessagePack, perhaps compressed) is the transport's.

    packages   [text]
    nodes      [[package], [name], kinds]           kinds: a byte each
    refs       [width, prefixes]                    nodes that the receiver has or gets elsewhere, by 8, 16 or 32 bytes
    ways       [type * 16 + provenance]             the pairs that occur
    edges      [[source], [target], [way]]          sources as differences to the one before
    aliases    [[shared], [rest], [target], claims] names by how much they share with the one before; a byte a claim
    members    [[owner], [name], [target]]
    facts      [[node], [text]]                     canonical JSON
    files      [[path, content, declarations, sites]]
    coverage   [[path], reasons]                    reasons: a byte each

A node is named by its place: those of `nodes` come first, those of `refs` follow. Kinds, types, provenances and reasons
are numbered as in the specification's tables. Everything is checked here that can be told from the pack alone; that
the records are those of a signed graph is told by its root, and by nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain
from operator import sub
from typing import Any, Final, NamedTuple, TypeVar

from knowing_protocol import encoding
from knowing_protocol.encoding import canonical_json, parse_json
from knowing_protocol.errors import MalformedError
from knowing_protocol.hashing import NodeId, check_part, edge_hash, external, node_hash, relation_hash
from knowing_protocol.paths import is_plain, parse_path
from knowing_protocol.records import (
    MAX_ARITY,
    Alias,
    Declaration,
    Edge,
    Facts,
    File,
    Member,
    Records,
    Site,
    canonical_facts,
    facts_from_json,
    facts_to_json,
)
from knowing_protocol.standard_library import in_standard_library
from knowing_protocol.vocabulary import (
    OVERLAY_PROVENANCES,
    SOURCE_PROVENANCES,
    Coverage,
    EdgeType,
    NodeKind,
    Provenance,
)

K = TypeVar("K")
V = TypeVar("V")
Pack = list[Any]
Resolve = Callable[[bytes], bytes]
"""The hash of a node from its leading bytes; refuses what leads to none or to several."""

SHORT: Final = 8
MIDDLE: Final = 16
WHOLE: Final = 32
WIDTHS: Final = (SHORT, MIDDLE, WHOLE)
MAX_TEXT: Final = 1 << 16
MAX_FACTS: Final = 1 << 20
_KINDS: Final = tuple(one.value for one in NodeKind)
_TYPES: Final = tuple(one.value for one in EdgeType)
_PROVENANCES: Final = tuple(one.value for one in Provenance)
_REASONS: Final = tuple(Coverage)
_EXTERNAL: Final = _KINDS.index(NodeKind.EXTERNAL.value)
_LAYERS: Final = (SOURCE_PROVENANCES, OVERLAY_PROVENANCES)


def way_code(edge_type: str, provenance: str) -> int:
    """An edge type and a provenance as one number."""
    return _TYPES.index(edge_type) * 16 + _PROVENANCES.index(provenance)


def edge_type_code(edge_type: str) -> int:
    """The number of an edge type."""
    return _TYPES.index(edge_type)


def edge_type_of(code: Any) -> str:
    """The edge type of a number from outside."""
    if isinstance(code, bool) or not isinstance(code, int) or not 0 <= code < len(_TYPES):
        raise _malformed("an edge type")
    return _TYPES[code]


def pack_records(records: Records, known: Iterable[Edge] = (), width: int = SHORT) -> Pack:
    """Records as columns; nodes that they refer to and do not have are named by `width` leading bytes.

    `known` are edges that call sites are of and that the receiver has already.
    """
    return _Packer(records, known, width).pack()


def references(records: Records, known: Iterable[Edge] = ()) -> list[bytes]:
    """The nodes that records refer to and do not have, sorted."""
    return _Packer(records, known, SHORT).refs


class _Packer:
    def __init__(self, records: Records, known: Iterable[Edge], width: int) -> None:
        self.records = records
        self.width = width
        self.packages: dict[str, int] = {}
        nodes = sorted(set(records.nodes), key=lambda node: (node.package, node.name, node.kind))
        self.nodes = {node_hash(*node): (number, node) for number, node in enumerate(nodes)}
        self.places = {key: number for key, (number, _) in self.nodes.items()}
        self.edges: dict[bytes, Edge] = {}
        wanted = set(chain.from_iterable(edge[:2] for edge in records.edges))
        if any(file.sites for file in records.files):
            self.edges = {edge.hash: edge for edge in chain(records.edges, known)}
            for file in records.files:
                wanted.update(chain.from_iterable(self.edges[site.edge][:2] for site in file.sites))
        wanted.update(alias.target for alias in records.aliases)
        wanted.update(one for member in records.members for one in (member.owner, member.target))
        wanted.update(records.facts)
        wanted.update(one.node for file in records.files for one in file.declarations)
        self.refs = sorted(wanted.difference(self.places))
        self.places.update((key, number) for number, key in enumerate(self.refs, len(self.places)))
        self.ways: dict[tuple[str, str], int] = {}

    def pack(self) -> Pack:
        places, records = self.places, self.records
        if len({key[: self.width] for key in self.refs}) != len(self.refs):
            raise MalformedError("two nodes share their leading bytes", code="pack")
        ordered = [node for _, node in self.nodes.values()]
        nodes = [
            [self.packages.setdefault(node.package, len(self.packages)) for node in ordered],
            [node.name for node in ordered],
            bytes(_KINDS.index(node.kind) for node in ordered),
        ]
        edges = sorted((places[edge.source], places[edge.target], self._way(edge)) for edge in records.edges)
        sources = [edge[0] for edge in edges]
        columns = [_differences(sources), [edge[1] for edge in edges], [edge[2] for edge in edges]]
        aliases = sorted(set(records.aliases))
        shared = _shared([alias.name for alias in aliases])
        members = sorted((places[one.owner], one.name, places[one.target]) for one in set(records.members))
        facts = sorted((places[node], _facts_text(found)) for node, found in records.facts.items())
        coverage = sorted(records.coverage.items())
        files = [self._file(file) for file in sorted(records.files, key=lambda file: file.path)]
        return [
            list(self.packages),
            nodes,
            [self.width, b"".join(key[: self.width] for key in self.refs)],
            [way_code(*way) for way in self.ways],
            columns,
            [
                shared,
                [alias.name[size:] for alias, size in zip(aliases, shared, strict=True)],
                [places[alias.target] for alias in aliases],
                bytes(alias.claimed for alias in aliases),
            ],
            [list(column) for column in zip(*members, strict=True)] or [[], [], []],
            [list(column) for column in zip(*facts, strict=True)] or [[], []],
            files,
            [[path for path, _ in coverage], bytes(_REASONS.index(reason) for _, reason in coverage)],
        ]

    def _way(self, edge: Edge) -> int:
        return self.ways.setdefault((edge.type, edge.provenance), len(self.ways))

    def _file(self, file: File) -> list[Any]:
        places = self.places
        declared = sorted((one.line, places[one.node], *one[2:]) for one in set(file.declarations))
        seen = []
        for key, *place in file.sites:
            edge = self.edges[key]
            seen.append((places[edge.source], places[edge.target], self._way(edge), *place))
        seen.sort()
        lines = [one[0] for one in declared]
        return [
            file.path,
            file.content,
            [
                _differences(lines),
                [one[1] for one in declared],
                [one[2] - one[0] for one in declared],
                [one[3] for one in declared],
                [one[4] for one in declared],
            ],
            [
                _differences([one[0] for one in seen]),
                *([one[place] for one in seen] for place in range(1, 6)),
                [one[6] + 1 for one in seen],
            ],
        ]


def _facts_text(facts: Facts) -> str:
    return canonical_json(facts_to_json(canonical_facts(facts))).decode()


def _differences(numbers: Sequence[int]) -> list[int]:
    return list(map(sub, numbers, chain((0,), numbers)))


def _shared(names: Sequence[str]) -> list[int]:
    """How many leading characters each name has in common with the one before."""
    found = []
    before = ""
    for name in names:
        size = 0
        for a, b in zip(before, name, strict=False):
            if a != b:
                break
            size += 1
        found.append(size)
        before = name
    return found


def unpack_records(repo: str, layer: int, value: Any, resolve: Resolve) -> Records:
    """The records of a pack of one graph of a repository (0: source, 1: overlay)."""
    return _Unpacker(repo, layer, value, resolve).unpack()


def node_hashes(repo: str, value: Any) -> list[bytes]:
    """The hashes of the nodes that a pack has, in their order."""
    tables = _table(value, 10, "the pack")
    return [node_hash(*node) for node in _nodes(repo, tables[0], tables[1])]


class _Unpacker:
    def __init__(self, repo: str, layer: int, value: Any, resolve: Resolve) -> None:
        self.layer = layer
        self.tables = _table(value, 10, "the pack")
        self.nodes = _nodes(repo, self.tables[0], self.tables[1])
        self.keys = [node_hash(*node) for node in self.nodes]
        self.keys += _refs(self.tables[2], resolve)
        self.ways = [self._way(code) for code in _numbers(self.tables[3], "ways")]

    def _way(self, code: int) -> tuple[str, str]:
        edge_type, provenance = code >> 4, code & 15
        if edge_type >= len(_TYPES) or provenance >= len(_PROVENANCES):
            raise _malformed("a way of an edge")
        if _PROVENANCES[provenance] not in _LAYERS[self.layer]:
            raise MalformedError("an edge is of the other graph", code="pack")
        return _TYPES[edge_type], _PROVENANCES[provenance]

    def unpack(self) -> Records:
        return Records(
            nodes=self.nodes,
            edges=self._edges(self.tables[4]),
            aliases=self._aliases(self.tables[5]),
            members=self._members(self.tables[6]),
            facts=self._facts(self.tables[7]),
            files=self._files(self.tables[8]),
            coverage=_coverage(self.tables[9]),
        )

    def _key(self, place: int) -> bytes:
        if not 0 <= place < len(self.keys):
            raise _malformed("a node's place")
        return self.keys[place]

    def _edge(self, source: int, target: int, way: int) -> Edge:
        if not 0 <= way < len(self.ways):
            raise _malformed("an edge's way")
        return Edge(self._key(source), self._key(target), *self.ways[way])

    def _edges(self, value: Any) -> list[Edge]:
        sources, targets, ways = _columns(value, "nnn", "edges")
        keys, known = self.keys, self.ways
        if not sources:
            return []
        if max(targets) >= len(keys) or max(ways) >= len(known) or sum(sources) >= len(keys):
            raise _malformed("a place in edges")
        outside = {key for key, node in zip(self.keys, self.nodes, strict=False) if node.kind == NodeKind.EXTERNAL}
        found = [
            Edge(keys[source], keys[target], *known[way])
            for source, target, way in zip(accumulate(sources), targets, ways, strict=True)
        ]
        if outside and any(edge.source in outside for edge in found):
            raise MalformedError("an edge starts at a name from outside", code="pack")
        return found

    def _aliases(self, value: Any) -> list[Alias]:
        shared, rests, targets, claims = _columns(value, "ntnb", "aliases")
        found = []
        name = ""
        for size, rest, target, claimed in zip(shared, rests, targets, claims, strict=True):
            before, name = name, name[:size] + _text(rest, "an alias")
            path = parse_path(_text(name, "an alias"))
            if claimed > 1 or size > len(before) or not is_plain(path) or (claimed and in_standard_library(path)):
                raise _malformed("an alias")
            found.append(Alias(name, self._key(target), bool(claimed)))
        return found

    def _members(self, value: Any) -> list[Member]:
        owners, names, targets = _columns(value, "ntn", "members")
        return [
            Member(self._key(owner), _text(name, "a member"), self._key(target))
            for owner, name, target in zip(owners, names, targets, strict=True)
        ]

    def _facts(self, value: Any) -> dict[bytes, Facts]:
        nodes, texts = _columns(value, "nt", "facts")
        found = {}
        for node, text in zip(nodes, texts, strict=True):
            raw = _text(text, "facts", MAX_FACTS).encode()
            found[self._key(node)] = facts_from_json(parse_json(raw, MAX_FACTS), "facts")
        return _once(found, nodes, "facts of a node")

    def _files(self, value: Any) -> list[File]:
        found = [self._file(one) for one in _list(value, "files")]
        _once({file.path: file for file in found}, found, "a file")
        return found

    def _file(self, value: Any) -> File:
        path, content, declared, seen = _table(value, 4, "a file")
        lines, nodes, spans, signatures, docs = _columns(declared, "nnntt", "declarations")
        declarations = tuple(
            Declaration(self._key(node), line, line + span, _long(signature), _long(doc))
            for line, node, span, signature, doc in zip(accumulate(lines), nodes, spans, signatures, docs, strict=True)
        )
        sites = []
        sources, *rest = _columns(seen, "nnnnnnn", "sites", -MAX_TEXT)  # a decorator stands above what it decorates
        for source, target, way, ordinal, line, column, arity in zip(accumulate(sources), *rest, strict=True):
            if not 0 <= arity <= MAX_ARITY + 1 or ordinal < 0 or column < 0:
                raise _malformed("an arity")
            sites.append(Site(edge_hash(*self._edge(source, target, way)), ordinal, line, column, arity - 1))
        return File(_text(path, "a path"), _hash(content, "a content"), declarations, tuple(sites))

    def site_edges(self) -> list[Edge]:
        """The edges that call sites of this pack are of."""
        found: set[Edge] = set()
        for one in _list(self.tables[8], "files"):
            sources, targets, ways, *_ = _columns(_table(one, 4, "a file")[3], "nnnnnnn", "sites", -MAX_TEXT)
            found.update(map(self._edge, accumulate(sources), targets, ways))
        return list(found)


def unpack_with_sites(repo: str, layer: int, value: Any, resolve: Resolve) -> tuple[Records, list[Edge]]:
    """The records of a pack, and the edges that its call sites name."""
    unpacker = _Unpacker(repo, layer, value, resolve)
    return unpacker.unpack(), unpacker.site_edges()


def _nodes(repo: str, packages: Any, value: Any) -> list[NodeId]:
    names_of_packages = [_text(one, "a package") for one in _list(packages, "packages")]
    places, names, kinds = _columns(value, "ntb", "nodes")
    found = []
    for place, name, kind in zip(places, names, kinds, strict=True):
        if place >= len(names_of_packages) or kind >= len(_KINDS):
            raise _malformed("a node")
        text, package = _text(name, "a name"), names_of_packages[place]
        if kind == _EXTERNAL:
            if package:
                raise MalformedError("a name from outside has a package", code="pack")
            parse_path(text)
            found.append(external(text))
        else:
            found.append(NodeId(repo, package, text, _KINDS[kind]))
    return found


def _refs(value: Any, resolve: Resolve) -> Iterable[bytes]:
    width, data = _width(_table(value, 2, "refs")[0]), value[1]
    if not isinstance(data, bytes) or len(data) % width:
        raise _malformed("refs")
    return [resolve(data[start : start + width]) for start in range(0, len(data), width)]


def _coverage(value: Any) -> dict[str, Coverage]:
    paths, reasons = _columns(value, "tb", "coverage")
    found = {}
    for path, reason in zip(paths, reasons, strict=True):
        if reason >= len(_REASONS):
            raise _malformed("a reason")
        found[_text(path, "a path")] = _REASONS[reason]
    return _once(found, paths, "coverage of a path")


def _once(found: dict[K, V], given: Sequence[Any], what: str) -> dict[K, V]:
    """What was given for each key, if it was given once: of two readings, which would count?"""
    if len(found) != len(given):
        raise MalformedError(f"{what} stands twice in a pack", code="pack")
    return found


# Values of columns. A column is a list of numbers, a list of texts, or bytes.


def _malformed(what: str) -> MalformedError:
    return MalformedError(f"{what} of a pack is not well formed", code="pack")


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise _malformed(what)
    return value


def _table(value: Any, size: int, what: str) -> list[Any]:
    if not isinstance(value, list) or len(value) != size:
        raise _malformed(what)
    return value


def _columns(value: Any, kinds: str, what: str, lowest: int = 0) -> list[Any]:
    """Columns of equal length: `n` a list of numbers, `t` a list of texts (checked where they are used), `b` bytes."""
    columns = _table(value, len(kinds), what)
    for column, kind in zip(columns, kinds, strict=True):
        if not (isinstance(column, bytes) if kind == "b" else _all_plain(column, str if kind == "t" else int, lowest)):
            raise _malformed(what)
        if len(column) != len(columns[0]):
            raise MalformedError(f"the columns of {what} differ in length", code="pack")
    return columns


def _all_plain(column: Any, kind: type, lowest: int = 0) -> bool:
    """Whether a column is a list of texts, or of numbers in their range; a truth value is no number."""
    if not isinstance(column, list) or not set(map(type, column)) <= {kind}:
        return False
    return kind is str or not column or (min(column) >= lowest and max(column) <= encoding.MAX_INTEGER)


def _numbers(value: Any, what: str) -> list[int]:
    if not _all_plain(value, int):
        raise _malformed(what)
    found: list[int] = value
    return found


def _width(value: Any) -> int:
    if type(value) is not int or value not in WIDTHS:
        raise _malformed("a width")
    return value


def _text(value: Any, what: str, limit: int = 4096) -> str:
    if not isinstance(value, str):
        raise _malformed(what)
    return check_part(value, what, limit)


def _long(value: Any) -> str:
    return _text(value, "a signature or doc", MAX_TEXT)


def _hash(value: Any, what: str) -> bytes:
    if not isinstance(value, bytes) or len(value) != WHOLE:
        raise _malformed(what)
    return value


# What is taken away


class Branch(NamedTuple):
    """Edges of one package and type that go: their places among the branch's edges, sorted by relation and way."""

    package: str
    type: str
    size: int
    places: bytes


class Withdrawn(NamedTuple):
    """What a change takes away from a graph: edges by their place, everything else by its key."""

    nodes: Sequence[bytes] = ()
    branches: Sequence[Branch] = ()
    aliases: Sequence[tuple[str, bytes]] = ()
    members: Sequence[tuple[bytes, str, bytes]] = ()
    facts: Sequence[bytes] = ()
    files: Sequence[str] = ()
    coverage: Sequence[str] = ()


def edge_order(edge: Edge) -> tuple[bytes, int]:
    """By what edges of a branch are sorted when they are named by their places."""
    return relation_hash(edge.source, edge.target, edge.type), _PROVENANCES.index(edge.provenance)


def pack_withdrawn(gone: Withdrawn, width: int = SHORT) -> Pack:
    """What is taken away, as columns."""

    def short(keys: Iterable[bytes]) -> bytes:
        return b"".join(key[:width] for key in keys)

    return [
        width,
        short(sorted(gone.nodes)),
        [[one.package, edge_type_code(one.type), one.size, one.places] for one in sorted(gone.branches)],
        [[name for name, _ in gone.aliases], short(target for _, target in gone.aliases)],
        [
            short(owner for owner, _, _ in gone.members),
            [name for _, name, _ in gone.members],
            short(target for _, _, target in gone.members),
        ],
        short(sorted(gone.facts)),
        sorted(gone.files),
        sorted(gone.coverage),
    ]


def unpack_withdrawn(value: Any, resolve: Resolve) -> Withdrawn:
    """What a change takes away; keys are those of nodes that the receiver has."""
    width, nodes, branches, aliases, members, facts, files, coverage = _table(value, 8, "what goes")
    width = _width(width)

    def keys(data: Any) -> list[bytes]:
        if not isinstance(data, bytes) or len(data) % width:
            raise _malformed("a column of nodes")
        return [resolve(data[start : start + width]) for start in range(0, len(data), width)]

    found = []
    for one in _list(branches, "branches"):
        package, edge_type, count, places = _table(one, 4, "a branch")
        if not isinstance(places, bytes):
            raise _malformed("a branch")
        count = encoding.integer(count, "a branch's count")
        found.append(Branch(_text(package, "a package"), edge_type_of(edge_type), count, places))
    names, targets = _table(aliases, 2, "aliases")
    owners, owned, owned_targets = _table(members, 3, "members")
    try:
        return Withdrawn(
            tuple(keys(nodes)),
            tuple(found),
            tuple(zip(_texts(names), keys(targets), strict=True)),
            tuple(zip(keys(owners), _texts(owned), keys(owned_targets), strict=True)),
            tuple(keys(facts)),
            tuple(_texts(files)),
            tuple(_texts(coverage)),
        )
    except ValueError:
        raise MalformedError("the columns of what goes differ in length", code="pack") from None


def _texts(value: Any) -> list[str]:
    return [_text(one, "a text") for one in _list(value, "texts")]
