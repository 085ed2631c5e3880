"""What changed since a snapshot that both sides have: made from events, read into changes, verified by nobody here.

A delta is `[[pack, withdrawn] of the source graph, the same of the overlay]`. Edges that go are named by their places
among the edges of their branch as the base has them, which both sides can put in the same order; what comes is sent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from knowing_protocol.errors import MalformedError
from knowing_protocol.hashing import NodeId
from knowing_protocol.pack import (
    SHORT,
    WHOLE,
    Branch,
    Resolve,
    Withdrawn,
    edge_order,
    pack_records,
    pack_withdrawn,
    references,
    unpack_with_sites,
    unpack_withdrawn,
)
from knowing_protocol.records import Alias, Edge, Facts, File, Member, Records, facts_from_json
from knowing_protocol.rice import decode_subset, encode_subset
from knowing_protocol.vocabulary import Coverage, NodeKind

from knowingd.store.codes import EDGE_TYPE_CODES, EDGE_TYPES, LAYER_OF_PROVENANCE, LAYERS, PROVENANCES
from knowingd.store.interface import GraphSession
from knowingd.store.records import read_file_with_edges
from knowingd.store.rows import Changes, EdgeRow


class _Events(NamedTuple):
    """What came (+1) and went (-1) of one graph, after everything that cancels out; of the rest, what was touched."""

    edges: dict[EdgeRow, int]
    nodes: dict[int, int]
    aliases: dict[tuple[str, int, int], int]
    members: dict[tuple[int, str, int], int]
    facts: dict[int, bool]  # whether the base has some of that node
    files: set[str]
    coverage: set[str]


def make_delta(session: GraphSession, base: int, head: int) -> list[Any]:
    """What leads from one snapshot (by sequence) to the newest one."""
    events = _net_events(session, base, head)
    return [_graph_delta(session, layer, events[layer]) for layer in LAYERS]


def _net_events(session: GraphSession, base: int, head: int) -> list[_Events]:
    found = [_Events({}, {}, {}, {}, {}, set(), set()) for _ in LAYERS]
    for added, *edge in session.edge_events(base, head):
        row = EdgeRow(*edge)
        _count(found[LAYER_OF_PROVENANCE[row.provenance]].edges, row, added=bool(added))
    for event in session.events(base, head):
        layer, body = found[event.layer], event.body
        if event.kind == "node":
            _count(layer.nodes, body[0], added=event.added)
        elif event.kind == "alias":
            _count(layer.aliases, tuple(body), added=event.added)
        elif event.kind == "member":
            _count(layer.members, tuple(body), added=event.added)
        elif event.kind == "facts":
            layer.facts.setdefault(body[0], not event.added)
        else:
            (layer.files if event.kind == "file" else layer.coverage).add(body[0])
    return found


def _count(net: dict[Any, int], key: Any, *, added: bool) -> None:
    net[key] = net.get(key, 0) + (1 if added else -1)


def _came(net: dict[Any, int]) -> list[Any]:
    return [key for key, count in net.items() if count > 0]


def _went(net: dict[Any, int]) -> list[Any]:
    return [key for key, count in net.items() if count < 0]


def _graph_delta(session: GraphSession, layer: int, events: _Events) -> list[Any]:
    nodes = session.load_nodes(
        {
            *events.nodes,
            *events.facts,
            *(one for edge in events.edges for one in (edge.source, edge.target)),
            *(target for _, target, _ in events.aliases),
            *(one for owner, _, target in events.members for one in (owner, target)),
        }
    )
    facts = {node: facts_from_json(text, "facts") for node, text in session.facts(layer, events.facts)}
    files, known, gone_files = _files(session, layer, events.files)
    covered = {path: reason for _, path, reason in session.coverage(layer) if path in events.coverage}
    published = {(name, target) for name, target, _ in _came(events.aliases)}
    added = Records(
        nodes=[nodes[one].node for one in _came(events.nodes)],
        edges=_edges(session, _came(events.edges)),
        aliases=[Alias(name, nodes[target].hash, bool(claimed)) for name, target, claimed in _came(events.aliases)],
        members=[Member(nodes[owner].hash, name, nodes[target].hash) for owner, name, target in _came(events.members)],
        facts={nodes[node].hash: found for node, found in facts.items()},
        files=files,
        coverage={path: Coverage(reason) for path, reason in covered.items()},
    )
    gone = Withdrawn(
        nodes=[nodes[one].hash for one in _went(events.nodes)],
        branches=_withdrawn_edges(session, layer, events.edges),
        aliases=sorted(
            (name, nodes[target].hash)
            for name, target, _ in _went(events.aliases)
            if (name, target) not in published  # it is only claimed otherwise now
        ),
        members=sorted((nodes[owner].hash, name, nodes[to].hash) for owner, name, to in _went(events.members)),
        facts=[nodes[node].hash for node, before in events.facts.items() if before and node not in facts],
        files=gone_files,
        coverage=[path for path in events.coverage if path not in covered],
    )
    width = safe_width(session, [*references(added, known), *named_nodes(gone)])
    return [pack_records(added, known, width), pack_withdrawn(gone, width)]


def named_nodes(gone: Withdrawn) -> list[bytes]:
    """All nodes that a withdrawal names."""
    found = [*gone.nodes, *gone.facts, *(target for _, target in gone.aliases)]
    found += (one for owner, _, target in gone.members for one in (owner, target))
    return found


def safe_width(session: GraphSession, keys: Iterable[bytes]) -> int:
    """How many leading bytes tell these nodes from every other of the database."""
    for key in keys:
        if len(session.hashes_with_prefix(key[:SHORT], deleted=True)) > 1:
            return WHOLE
    return SHORT


def _files(session: GraphSession, layer: int, paths: Iterable[str]) -> tuple[list[File], list[Edge], list[str]]:
    """The files at these paths, the edges that their call sites are of, and the paths where no file is any more."""
    found, gone = [], []
    edges: set[Edge] = set()
    for path in sorted(paths):
        row = session.file_named(layer, path)
        if row is None:
            gone.append(path)
        else:
            file, seen = read_file_with_edges(session, row)
            found.append(file)
            edges |= seen
    return found, list(edges), gone


def _edges(session: GraphSession, rows: Collection[EdgeRow]) -> list[Edge]:
    nodes = session.load_nodes({one for edge in rows for one in (edge.source, edge.target)})
    return [
        Edge(nodes[source].hash, nodes[target].hash, EDGE_TYPES[edge_type], PROVENANCES[provenance])
        for source, edge_type, target, provenance in rows
    ]


def branch_edges(session: GraphSession, layer: int, package: int, edge_type: int) -> list[Edge]:
    """All edges of a branch."""
    rows = session.edges_of_package(package)
    return _edges(
        session, [row for row in rows if row.type == edge_type and LAYER_OF_PROVENANCE[row.provenance] == layer]
    )


def _withdrawn_edges(session: GraphSession, layer: int, net: dict[EdgeRow, int]) -> list[Branch]:
    """The edges that went, by their places among those that the base has."""
    packages = session.package_ids({edge.source for edge in net})
    names = session.packages()
    changed: dict[tuple[int, int], dict[EdgeRow, int]] = defaultdict(dict)
    for edge, count in net.items():
        changed[packages[edge.source], edge.type][edge] = count
    found = []
    for (package, edge_type), edges in changed.items():
        going = set(_edges(session, _went(edges)))
        if going:
            now = set(branch_edges(session, layer, package, edge_type))
            base = sorted(now - set(_edges(session, _came(edges))) | going, key=edge_order)
            places = [place for place, edge in enumerate(base) if edge in going]
            found.append(Branch(names[package], EDGE_TYPES[edge_type], len(places), encode_subset(places, len(base))))
    return found


# The receiver's side


def read_delta(session: GraphSession, value: Any) -> list[Changes]:
    """The changes that a delta on top of what is here leads to."""
    if not isinstance(value, list) or len(value) != len(LAYERS):
        raise MalformedError("a delta is of two graphs", code="delta")
    return [_read_graph(session, layer, one) for layer, one in enumerate(value)]


def resolver(session: GraphSession) -> Resolve:
    """Hashes of nodes that are here, from their leading bytes."""
    known: dict[bytes, bytes] = {}

    def resolve(prefix: bytes) -> bytes:
        found = known.get(prefix)
        if found is None:
            keys = session.hashes_with_prefix(prefix)
            if len(keys) != 1:
                what = "may be several" if keys else "is not here"
                raise MalformedError(f"the node {prefix.hex()[:16]} {what}", code="unknown-node")
            found = known[prefix] = keys[0]
        return found

    return resolve


def _read_graph(session: GraphSession, layer: int, value: Any) -> Changes:
    if not isinstance(value, list) or len(value) != 2:
        raise MalformedError("a delta of a graph is what comes and what goes", code="delta")
    resolve = resolver(session)
    gone = unpack_withdrawn(value[1], resolve)
    added, site_edges = unpack_with_sites(session.repo, layer, value[0], resolve)
    _refuse_phantom_sources(session, added)
    removed = Records(
        nodes=[identity(session, key) for key in gone.nodes],
        edges=_edges_at(session, layer, gone.branches),
        aliases=[Alias(name, target, claimed=False) for name, target in gone.aliases],
        members=[Member(*one) for one in gone.members],
        facts=facts_here(session, layer, gone.facts),
        files=[File(path, b"") for path in gone.files],
        coverage=dict.fromkeys(gone.coverage, Coverage.FAILED),
    )
    return Changes(layer, added, removed, site_edges)


def _refuse_phantom_sources(session: GraphSession, added: Records) -> None:
    """No edge starts at a name from outside; of the nodes of a pack itself, reading it says so."""
    ids = {number for key in {one.source for one in added.edges} if (number := session.node_id(key)) is not None}
    if any(node.kind == NodeKind.EXTERNAL for node in session.identities(ids).values()):
        raise MalformedError("an edge starts at a name from outside", code="pack")


def identity(session: GraphSession, key: bytes) -> NodeId:
    """What a node that is here is."""
    number = session.node_id(key)
    if number is None:
        raise MalformedError(f"the node {key.hex()[:16]} is not here", code="unknown-node")
    return session.node(number).node


def facts_here(session: GraphSession, layer: int, keys: Iterable[bytes]) -> dict[bytes, Facts]:
    """The facts that are here of some nodes."""
    ids = {number: key for key in keys if (number := session.node_id(key)) is not None}
    return {ids[node]: facts_from_json(found, "facts") for node, found in session.facts(layer, ids)}


def _edges_at(session: GraphSession, layer: int, branches: Iterable[Branch]) -> list[Edge]:
    packages = {name: number for number, name in session.packages().items()}
    found: list[Edge] = []
    for package, edge_type, size, places in branches:
        if package not in packages:
            raise MalformedError(f"the package {package[:80]!r} is not here", code="delta")
        edges = branch_edges(session, layer, packages[package], EDGE_TYPE_CODES[edge_type])
        edges.sort(key=edge_order)
        found += (edges[place] for place in decode_subset(places, size, len(edges)))
    return found
