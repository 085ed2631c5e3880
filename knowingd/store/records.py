"""The records of a stored graph as the kernel knows them: for checks, exports and whole transfers."""

from __future__ import annotations

from collections.abc import Mapping

from knowing_protocol.hashing import edge_hash
from knowing_protocol.records import Alias, Declaration, Edge, File, Member, Records, Site, facts_from_json
from knowing_protocol.vocabulary import Coverage

from knowingd.store.codes import EDGE_TYPES, LAYER_OF_PROVENANCE, PROVENANCES
from knowingd.store.interface import GraphSession
from knowingd.store.packing import unpack_ids, unpack_sites
from knowingd.store.rows import FileRow, NodeRow


def read_records(session: GraphSession, layer: int) -> Records:
    """All records of one graph."""
    nodes = session.load_nodes(None)
    return Records(
        nodes=[nodes[one].node for one in session.node_ids(layer)],
        edges=[
            Edge(nodes[edge.source].hash, nodes[edge.target].hash, EDGE_TYPES[edge.type], PROVENANCES[edge.provenance])
            for edge in session.edges()
            if LAYER_OF_PROVENANCE[edge.provenance] == layer
        ],
        aliases=[Alias(row.name, nodes[row.target].hash, row.claimed) for row in session.aliases(layer)],
        members=[Member(nodes[row.owner].hash, row.name, nodes[row.target].hash) for row in session.members(layer)],
        facts={nodes[node].hash: facts_from_json(found, "facts") for node, found in session.facts(layer)},
        files=[read_file(session, row, nodes) for row in sorted(session.files(layer), key=lambda row: row.path)],
        coverage={path: Coverage(reason) for _, path, reason in session.coverage(layer)},
    )


def read_file_with_edges(session: GraphSession, row: FileRow) -> tuple[File, set[Edge]]:
    """One file, and the edges that its call sites are of."""
    sources = unpack_ids(session.sources_in(row.id))
    seen = [
        (source, site)
        for source in sources
        for _, packed in session.sites(source, row.id)
        for site in unpack_sites(packed)
    ]
    declared = {one.node for one in session.declarations_in(row.id)}
    nodes = session.load_nodes({*sources, *declared, *(site.target for _, site in seen)})
    edges = {
        Edge(nodes[source].hash, nodes[site.target].hash, EDGE_TYPES[site.type], PROVENANCES[site.provenance])
        for source, site in seen
    }
    return read_file(session, row, nodes), edges


def read_file(session: GraphSession, row: FileRow, nodes: Mapping[int, NodeRow]) -> File:
    """One file with its declarations and call sites."""
    declarations = tuple(
        Declaration(nodes[one.node].hash, one.line, one.end_line, one.signature, one.doc)
        for one in session.declarations_in(row.id)
    )
    sites = []
    for source in unpack_ids(session.sources_in(row.id)):
        for _, packed in session.sites(source, row.id):
            for site in unpack_sites(packed):
                key = edge_hash(
                    nodes[source].hash, nodes[site.target].hash, EDGE_TYPES[site.type], PROVENANCES[site.provenance]
                )
                sites.append(Site(key, *site[3:]))
    return File(row.path, row.content, declarations, tuple(sites))
