"""Commits what came from a peer, if and only if it leads to the roots that its origin signed.

Changes are applied, every root and count is made again from what is then in the database, and compared with the header;
a difference undoes the whole transaction. So nothing unverified is ever committed, whatever was claimed on the way, and
readers see the state before or the state after.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from knowing_protocol.encoding import canonical_json
from knowing_protocol.errors import MalformedError
from knowing_protocol.graph import graph_map
from knowing_protocol.history import Header
from knowing_protocol.pack import Resolve, node_hashes, unpack_with_sites
from knowing_protocol.records import Edge, Records
from knowing_protocol.vocabulary import NodeKind

from knowingd.errors import PeerError
from knowingd.snapshot.snapshots import bring_up_to_date, paused_collection
from knowingd.store.codes import LAYERS
from knowingd.store.interface import GraphSession, GraphStore
from knowingd.store.rows import Changes, SnapshotRow
from knowingd.sync.delta import resolver
from knowingd.sync.descent import Found
from knowingd.sync.spaces import EVERYTHING, Side, together


class Entry(NamedTuple):
    """A header of an origin's log that was checked: its signature, its place, and that the log only grew."""

    origin: bytes
    epoch: int
    header: Header


class Committed(NamedTuple):
    """How many edges and symbols came and went."""

    added: int
    removed: int


class NotTheSignedGraphError(PeerError):
    """What was sent does not lead to what was signed."""

    code = "root-mismatch"


def commit(store: GraphStore, entry: Entry, make: Callable[[GraphSession], Sequence[Changes]], now: int) -> Committed:
    """Apply the changes that `make` reads, and keep them if they lead to the entry's roots."""
    with paused_collection():
        return store.write(lambda session: _commit(session, entry, make(session), now))


def _commit(session: GraphSession, entry: Entry, changes: Sequence[Changes], now: int) -> Committed:
    header = entry.header
    assert header.source is not None  # a withdrawal has no graph
    assert header.overlay is not None
    last = session.last_snapshot()
    again = last is not None and (last.epoch, last.log_index) == (entry.epoch, header.index)
    sequence = 1 if last is None else last.sequence + 1
    roots = bring_up_to_date(session, changes, now, sequence, with_events=last is not None and not again)
    made = [graph_map(one).root for one in roots]
    for name, mine, signed in zip(("source", "overlay"), made, (header.source, header.overlay), strict=True):
        if mine != signed:
            raise NotTheSignedGraphError(
                f"the {name} graph of {header.repository} that was sent has the root {mine.hex()[:16]}, "
                f"its origin signed {signed.hex()[:16]}"
            )
    counts = [session.count(layer) for layer in LAYERS]
    stated = (header.nodes, header.edges, dict(header.coverage))
    counted = (sum(one[0] for one in counts), sum(one[1] for one in counts), session.coverage_counts())
    if counted != stated:
        raise NotTheSignedGraphError(f"the header of {header.repository} counts what is not in its graph")
    _refuse_edges_of_phantoms(session)
    if not again:
        _add_snapshot(session, entry, sequence, roots)
    return Committed(
        sum(len(one.added.edges) + len(one.added.nodes) for one in changes),
        sum(len(one.removed.edges) + len(one.removed.nodes) for one in changes),
    )


def _add_snapshot(session: GraphSession, entry: Entry, sequence: int, roots: Sequence[dict[str, bytes]]) -> None:
    header = entry.header
    assert header.source is not None
    assert header.overlay is not None
    session.add_snapshot(
        SnapshotRow(
            sequence=sequence,
            log_index=header.index,
            epoch=entry.epoch,
            commit=header.commit,
            branch=header.branch,
            generation=header.generation,
            source_root=header.source,
            overlay_root=header.overlay,
            nodes=header.nodes,
            edges=header.edges,
            coverage=canonical_json(dict(header.coverage)).decode(),
            extractor=header.extractor,
            submitter=header.submitter,
            timestamp=header.time,
            map_roots=json.dumps(
                {str(layer): {name: root.hex() for name, root in roots[layer].items()} for layer in LAYERS}
            ),
            pruned=0,
        )
    )


def _refuse_edges_of_phantoms(session: GraphSession) -> None:
    """No edge starts at a name from outside; all of those are in the package without a name."""
    for number, name in session.packages().items():
        if not name:
            sources = {edge.source for edge in session.edges_of_package(number)}
            if any(node.kind == NodeKind.EXTERNAL for node in session.identities(sources).values()):
                raise NotTheSignedGraphError("an edge starts at a name from outside")


# From what was fetched to changes


def descent_changes(session: GraphSession, found: Found) -> list[Changes]:
    """What a descent found, as changes."""
    side = Side(session)
    changes = []
    for layer in LAYERS:
        removed = Records()
        for space, keys in found.gone.items():
            if space.layer == layer and keys:
                together(removed, side.records(space, keys)[0])
        for space in found.gone_branches:
            if space.layer == layer:
                keys = set(side.leaves(space, EVERYTHING).values())
                together(removed, side.records(space, keys)[0])
        added, edges = unpack_all(session.repo, layer, found.packs[layer], resolver(session))
        changes.append(Changes(layer, added, removed, edges))
    return changes


def unpack_all(repo: str, layer: int, packs: Iterable[Any], elsewhere: Resolve) -> tuple[Records, list[Edge]]:
    """The records of many packs that refer to each other's nodes, and perhaps to others."""
    packs = list(packs)
    known: dict[bytes, set[bytes]] = {}
    for pack in packs:
        for key in node_hashes(repo, pack):
            known.setdefault(key[:8], set()).add(key)

    def resolve(prefix: bytes) -> bytes:
        found = [key for key in known.get(prefix[:8], ()) if key.startswith(prefix)]
        if not found:
            return elsewhere(prefix)
        if len(found) > 1:
            raise MalformedError(f"the node {prefix.hex()[:16]} may be several", code="unknown-node")
        return found[0]

    whole, edges = Records(), set[Edge]()
    for pack in packs:
        records, seen = unpack_with_sites(repo, layer, pack, resolve)
        together(whole, records)
        edges.update(seen)
    whole.nodes = list(dict.fromkeys(whole.nodes))
    return whole, list(edges)


def nothing_elsewhere(prefix: bytes) -> bytes:
    """The resolver of a first transfer: every node is in the packs."""
    raise MalformedError(f"the node {prefix.hex()[:16]} was not sent", code="unknown-node")
