"""A graph out of its database as plain records: what checks, exports and full diffs start from."""

from __future__ import annotations

import json

from knowing_protocol.hashing import edge_hash
from knowing_protocol.records import (
    Alias,
    Declaration,
    Edge,
    File,
    Member,
    Records,
    Site,
    facts_from_json,
)
from knowing_protocol.vocabulary import Coverage

from knowingd.store.codes import EDGE_TYPES, LAYER_OF_PROVENANCE, PROVENANCES
from knowingd.store.session import Session
from knowingd.store.sites import unpack

ALL_SLOTS = 1 << 32


def read_records(session: Session, layer: int) -> Records:
    """All records of one graph."""
    hashes = session.hashes()
    edges = [
        Edge(hashes[edge.source], hashes[edge.target], EDGE_TYPES[edge.type], PROVENANCES[edge.provenance])
        for _, edge in session.edges()
        if LAYER_OF_PROVENANCE[edge.provenance] == layer
    ]
    return Records(
        nodes=[row.node for row in session.nodes_between(layer, 0, ALL_SLOTS)],
        edges=edges,
        aliases=[Alias(*row) for row in session.aliases_between(layer, 0, ALL_SLOTS)],
        members=[Member(*row) for row in session.members_between(layer, 0, ALL_SLOTS)],
        facts={
            key: facts_from_json(json.loads(text), "facts") for key, text in session.facts_between(layer, 0, ALL_SLOTS)
        },
        files=_files(session, layer, hashes),
        coverage={path: Coverage(reason) for path, reason in session.coverage_between(layer, 0, ALL_SLOTS)},
    )


def _files(session: Session, layer: int, hashes: dict[int, bytes]) -> list[File]:
    found = []
    rows = session.execute(
        "SELECT id, path, content_hash FROM files WHERE layer = ? ORDER BY path", (layer,)
    ).fetchall()
    for file_id, path, content in rows:
        declarations = tuple(
            Declaration(hashes[node], *rest)
            for node, *rest in session.execute(
                "SELECT node, line, end_line, signature, doc FROM declarations WHERE file = ?", (file_id,)
            )
        )
        sites = []
        for source, packed in session.execute("SELECT source, packed FROM sites WHERE file = ?", (file_id,)):
            for site in unpack(packed):
                key = edge_hash(
                    hashes[source], hashes[site.target], EDGE_TYPES[site.type], PROVENANCES[site.provenance]
                )
                sites.append(Site(key, *site[3:]))
        found.append(File(path, content, declarations, tuple(sites)))
    return found
