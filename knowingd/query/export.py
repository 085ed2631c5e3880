"""A repository's graph as a document: JSON for programs, DOT, Mermaid and GraphML for pictures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from knowing_protocol.hashing import NodeId
from knowing_protocol.vocabulary import CONFIDENCE, NodeKind, Provenance

from knowingd.query.names import RESOLVED, Names
from knowingd.query.scope import Repository, Scope
from knowingd.query.symbols import label, symbol_json
from knowingd.store.codes import EDGE_TYPES, LAYER_OF_PROVENANCE, PROVENANCES
from knowingd.store.interface import GraphSession
from knowingd.store.packing import unpack_sites

FORMATS = ("json", "dot", "mermaid", "graphml")


def export_json(repository: Repository, scope: Scope) -> dict[str, Any]:
    """The document of `export --format json`."""
    with repository.graph.reading() as session:
        return _export_json(session, repository, scope)


def _export_json(session: GraphSession, repository: Repository, scope: Scope) -> dict[str, Any]:
    layer = repository.graph.layer
    names = Names(scope)
    nodes = session.load_nodes(None)
    declared = _declared(session, layer)
    sites = _sites(session, layer, declared)
    found_nodes = []
    for number in session.node_ids(layer):
        row = nodes[number]
        first = min(declared.get(number, []), default=None)
        found_nodes.append(
            {
                "hash": row.hash.hex(),
                **{key: value for key, value in symbol_json(row.node).items() if key != "hash"},
                "file": first[0] if first else None,
                "line": first[1] if first else None,
            }
        )
    edges = []
    for edge in session.edges():
        if LAYER_OF_PROVENANCE[edge.provenance] != layer:
            continue
        provenance = PROVENANCES[edge.provenance]
        edges.append(
            {
                "source": nodes[edge.source].hash.hex(),
                "target": nodes[edge.target].hash.hex(),
                "type": EDGE_TYPES[edge.type],
                "provenance": provenance,
                "confidence": CONFIDENCE[Provenance(provenance)],
                "sites": sites.get(edge, []),
                "resolved": _resolved(nodes[edge.target].node, names),
            }
        )
    return {
        "repo": repository.url,
        "commit": repository.snapshot.commit,
        "working": repository.working is not None,
        "nodes": found_nodes,
        "edges": edges,
    }


def _resolved(target: NodeId, names: Names) -> dict[str, Any] | None:
    if target.kind == NodeKind.EXTERNAL:
        lead = names.lead(target.name)
        if lead.state != RESOLVED:
            return None
        (target,) = lead.definitions
    return {**symbol_json(target), "canonical": names.canonical(target)}


def _declared(session: GraphSession, layer: int) -> dict[int, list[tuple[str, int]]]:
    found: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for file in session.files(layer):
        for row in session.declarations_in(file.id):
            found[row.node].append((file.path, row.line))
    return found


def _sites(
    session: GraphSession, layer: int, declared: dict[int, list[tuple[str, int]]]
) -> dict[tuple[int, ...], list[Any]]:
    """Edge to the places where it is seen."""
    starts: dict[tuple[int, str], list[int]] = defaultdict(list)
    for node, places in declared.items():
        for path, line in sorted(places):
            starts[node, path].append(line)
    paths = {row.id: row.path for row in session.files(layer)}
    found: dict[tuple[int, ...], list[Any]] = defaultdict(list)
    for source in {edge.source for edge in session.edges()}:
        for file, packed in session.sites(source):
            lines = starts.get((source, paths[file]), [])
            for site in unpack_sites(packed):
                base = lines[site.declaration] if site.declaration < len(lines) else 0
                place = {"file": paths[file], "line": base + site.line, "col": site.column}
                found[source, site.type, site.target, site.provenance].append(place)
    return found


def _pairs(session: GraphSession) -> Iterator[tuple[int, int, str, NodeId, NodeId]]:
    nodes = session.load_nodes(None)
    seen = set()
    for edge in session.edges():
        key = (edge.source, edge.target, edge.type)
        if key not in seen:
            seen.add(key)
            yield edge.source, edge.target, EDGE_TYPES[edge.type], nodes[edge.source].node, nodes[edge.target].node


def export_text(repository: Repository, form: str) -> Iterator[str]:
    """The lines of a picture's document."""
    with repository.graph.reading() as session:
        yield from _export_text(session, repository, form)


def _export_text(session: GraphSession, repository: Repository, form: str) -> Iterator[str]:
    numbers = session.node_ids(repository.graph.layer)
    nodes = session.load_nodes(None)
    if form == "dot":
        yield "digraph knowing {"
        for one in numbers:
            text = label(nodes[one].node).replace("\\", "\\\\").replace('"', '\\"')
            yield f'  n{one} [label="{text}"];'
        for source, target, edge_type, _, _ in _pairs(session):
            yield f'  n{source} -> n{target} [label="{edge_type}"];'
        yield "}"
    elif form == "mermaid":
        yield "graph LR"
        for one in numbers:
            text = label(nodes[one].node).replace('"', "#quot;").replace("<", "#lt;").replace(">", "#gt;")
            yield f'  n{one}["{text}"]'
        for source, target, edge_type, _, _ in _pairs(session):
            yield f"  n{source} -->|{edge_type}| n{target}"
    else:
        from xml.sax.saxutils import escape, quoteattr  # noqa: PLC0415 - it brings half of the web with it

        yield '<?xml version="1.0" encoding="UTF-8"?>'
        yield '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
        for key, place in (("name", "node"), ("kind", "node"), ("type", "edge")):
            yield f'  <key id="{key}" for="{place}" attr.name="{key}" attr.type="string"/>'
        yield f'  <graph id={quoteattr(repository.url)} edgedefault="directed">'
        for one in numbers:
            node = nodes[one].node
            name = escape("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in label(node)))
            yield f'    <node id="n{one}"><data key="name">{name}</data><data key="kind">{node.kind}</data></node>'
        for source, target, edge_type, _, _ in _pairs(session):
            yield f'    <edge source="n{source}" target="n{target}"><data key="type">{edge_type}</data></edge>'
        yield "  </graph>"
        yield "</graphml>"
