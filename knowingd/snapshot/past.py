"""An earlier snapshot of a repository, made again in a copy: what came since goes, and the roots must be its own.

Files get back their content hashes and attribute roots, not what was in them: that is what maps and proofs need, and
all that events keep.
"""

from __future__ import annotations

import json
from typing import Any

from knowing_protocol.graph import graph_map
from knowing_protocol.records import Alias, Edge, Facts, File, Member, Records, facts_from_json, facts_to_json
from knowing_protocol.vocabulary import Coverage

from knowingd.errors import NotFoundError, StoreError
from knowingd.snapshot.snapshots import bring_up_to_date, paused_collection
from knowingd.store.codes import EDGE_TYPES, LAYER_OF_PROVENANCE, LAYERS, PROVENANCES
from knowingd.store.interface import GraphSession, GraphStore
from knowingd.store.rows import Changes, Event, SnapshotRow


def go_back(copy: GraphStore, to: SnapshotRow) -> None:
    """Turn a copy of a repository's database back to an earlier snapshot; refuses what cannot be made again."""
    if to.pruned:
        raise NotFoundError(
            f"what snapshot {to.log_index} was is no longer kept",
            code="pruned",
            hint="`knowing gc --keep N` keeps more",
        )
    with paused_collection():
        copy.write(lambda session: _go_back(session, to))


def _go_back(session: GraphSession, to: SnapshotRow) -> None:
    last = session.last_snapshot()
    assert last is not None
    changes = _changes_back(session, to.sequence, last.sequence)
    roots = bring_up_to_date(session, changes, to.timestamp, last.sequence + 1, with_events=False)
    made = tuple(graph_map(one).root for one in roots)
    if made != (to.source_root, to.overlay_root):
        raise StoreError(f"snapshot {to.log_index} could not be made again from its events", hint="run `knowing fsck`")


def _changes_back(session: GraphSession, to: int, last: int) -> list[Changes]:
    """What turns the newest state into an earlier one."""
    added = [Records() for _ in LAYERS]
    removed = [Records() for _ in LAYERS]
    attributes: list[dict[str, bytes]] = [{} for _ in LAYERS]
    _edges_back(session, to, last, added, removed)
    first: dict[tuple[int, str, Any], Event] = {}
    counts: dict[tuple[int, str, tuple[Any, ...]], int] = {}
    for event in session.events(to, last):
        if event.kind in ("node", "alias", "member"):
            key = (event.layer, event.kind, tuple(event.body))
            counts[key] = counts.get(key, 0) + (1 if event.added else -1)
        else:
            first.setdefault((event.layer, event.kind, event.body[0]), event)
    for (layer, kind, body), count in counts.items():
        if count:
            _row_back(session, kind, body, (removed if count > 0 else added)[layer])
    for (layer, kind, key), event in first.items():
        if kind == "facts":
            now = {node: facts_from_json(text, "facts") for node, text in session.facts(layer, [key])}
            node = session.node(key).hash
            if now:
                removed[layer].facts[node] = now[key]
            if not event.added:
                added[layer].facts[node] = facts_from_json(_whole(event.body[1]), "facts")
        elif kind == "file":
            if session.file_named(layer, key) is not None:
                removed[layer].files.append(File(key, b""))
            if not event.added:
                added[layer].files.append(File(key, bytes.fromhex(event.body[1])))
                attributes[layer][key] = bytes.fromhex(event.body[2])
        else:
            removed[layer].coverage[key] = Coverage.FAILED
            if not event.added:
                added[layer].coverage[key] = Coverage(event.body[1])
    return [Changes(layer, added[layer], removed[layer], (), attributes[layer]) for layer in LAYERS]


def _whole(text: str) -> Any:
    """Facts as they are hashed, from what is not empty of them."""
    return facts_to_json(Facts()) | json.loads(text)


def _edges_back(session: GraphSession, to: int, last: int, added: list[Records], removed: list[Records]) -> None:
    net: dict[tuple[int, int, int, int], int] = {}
    for came, *row in session.edge_events(to, last):
        key = (row[0], row[1], row[2], row[3])
        net[key] = net.get(key, 0) + (1 if came else -1)
    nodes = session.load_nodes({one for source, _, target, _ in net for one in (source, target)})
    for (source, edge_type, target, provenance), count in net.items():
        if count:
            edge = Edge(nodes[source].hash, nodes[target].hash, EDGE_TYPES[edge_type], PROVENANCES[provenance])
            (removed if count > 0 else added)[LAYER_OF_PROVENANCE[provenance]].edges.append(edge)


def _row_back(session: GraphSession, kind: str, body: tuple[Any, ...], records: Records) -> None:
    if kind == "node":
        records.nodes.append(session.node(body[0]).node)
    elif kind == "alias":
        name, target, claimed = body
        records.aliases.append(Alias(name, session.node(target).hash, bool(claimed)))
    else:
        owner, name, target = body
        records.members.append(Member(session.node(owner).hash, name, session.node(target).hash))
