"""Takes snapshots: the repository's database commits first, the node's log follows, and a crash between is made good.

    1  repository  changes, maps and a snapshot row without an index, in one transaction
    2  node        header, log hashes, checkpoint and head, in one durable transaction
    3  repository  the index of that header into the row

Killed before 1 is done, nothing happened. Killed before 2, the row is pending, and whoever opens the repository next
appends it. Killed before 3, the newest header of that repository is the pending row's, and it gets its index. Nothing
is served of a snapshot that is pending.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from knowing_protocol.encoding import canonical_json
from knowing_protocol.graph import graph_map
from knowing_protocol.history import Header

from knowingd.snapshot.maps import Maps
from knowingd.store.apply import Applier, Changes
from knowingd.store.codes import LAYERS, OVERLAY, SOURCE
from knowingd.store.nodestore import NodeStore, Sign
from knowingd.store.repository import RepositoryStore
from knowingd.store.session import Session, SnapshotRow


class Origin(NamedTuple):
    """Whose log is written, and how its checkpoints are signed."""

    id: bytes
    sign: Sign


class Told(NamedTuple):
    """What the source says of a state, besides its records."""

    commit: str
    branch: str
    extractor: bytes
    submitter: str = ""


def take(
    store: RepositoryStore, node: NodeStore, origin: Origin, changes: Sequence[Changes], told: Told, now: int
) -> Header | None:
    """Apply changes and append the snapshot they lead to; None where the same commit has the same roots already."""
    recover(store, node, origin, now)
    if not store.write(lambda session: _commit(session, changes, told, now, node.epoch)):
        return None
    return recover(store, node, origin, now)


def _commit(session: Session, changes: Sequence[Changes], told: Told, now: int, epoch: int) -> bool:
    last = session.last_snapshot()
    sequence = 1 if last is None else last.sequence + 1
    applier = Applier(session, now, sequence, with_events=last is not None)
    for one in changes:
        applier.apply(one)
    roots = {
        layer: Maps(session, layer).update(applier.touched[layer], sequence=sequence, with_events=last is not None)
        for layer in LAYERS
    }
    graph_roots = [graph_map(roots[layer]).root for layer in LAYERS]
    if last is not None and (last.commit, last.source_root, last.overlay_root) == (told.commit, *graph_roots):
        return False
    counts = [session.count(layer) for layer in LAYERS]
    session.add_snapshot(
        SnapshotRow(
            sequence=sequence,
            log_index=None,
            epoch=epoch,
            commit=told.commit,
            branch=told.branch,
            generation=0 if last is None else last.generation + 1,
            source_root=graph_roots[SOURCE],
            overlay_root=graph_roots[OVERLAY],
            nodes=sum(nodes for nodes, _ in counts),
            edges=sum(edges for _, edges in counts),
            coverage=canonical_json(session.coverage_counts()).decode(),
            extractor=told.extractor,
            submitter=told.submitter,
            timestamp=now,
            map_roots=json.dumps(
                {str(layer): {name: root.hex() for name, root in roots[layer].items()} for layer in LAYERS}
            ),
            pruned=0,
        )
    )
    return True


def recover(store: RepositoryStore, node: NodeStore, origin: Origin, now: int) -> Header | None:
    """Finish a snapshot that has no index yet; the header it got, or None where none was pending."""
    with store.read() as session:
        pending = session.pending_snapshot()
        before = session.last_snapshot(finished=True)
    if pending is None:
        return None
    known = node.headers(store.url, store.ref)
    header = known[-1] if known else None
    if not _is_of(header, pending, before):
        header = node.append(
            Header(
                index=0,
                repository=store.url,
                ref=store.ref,
                branch=pending.branch,
                generation=header.generation + 1 if header is not None else 0,
                commit=pending.commit,
                previous=None if header is None else header.index,
                source=pending.source_root,
                overlay=pending.overlay_root,
                nodes=pending.nodes,
                edges=pending.edges,
                coverage=json.loads(pending.coverage),
                extractor=pending.extractor,
                time=now,
                submitter=pending.submitter,
                roster=bytes(32),
            ),
            origin.id,
            now,
            origin.sign,
        )
    assert header is not None
    index = header.index
    store.write(lambda session: session.finish_snapshot(pending.sequence, index))
    return header


def _is_of(header: Header | None, pending: SnapshotRow, before: SnapshotRow | None) -> bool:
    """Whether the newest header of a repository was already appended for the pending snapshot.

    An equal header is not enough, because a revert repeats roots: it must also follow the last one known to be ours.
    """
    if header is None or (before is not None and before.log_index is not None and header.index <= before.log_index):
        return False
    stated = (header.commit, header.source, header.overlay)
    return stated == (pending.commit, pending.source_root, pending.overlay_root)
