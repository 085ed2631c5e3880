"""Takes snapshots: the repository's database commits first, the node's log follows, and a crash between is made good.

    1  repository  changes, maps and a snapshot row without an index, in one transaction
    2  node        header, log hashes, checkpoint and head, in one durable transaction
    3  repository  the index of that header into the row

Killed before 1 is done, nothing happened. Killed before 2, the row is pending, and whoever opens the repository next
appends it. Killed before 3, the newest header of that repository is the pending row's, and it gets its index. Nothing
is served of a snapshot that is pending.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, NamedTuple

from knowing_protocol.encoding import canonical_json
from knowing_protocol.errors import RejectedError
from knowing_protocol.graph import graph_map
from knowing_protocol.history import Header

from knowingd.forked import beside
from knowingd.snapshot.building import builders, keep_built
from knowingd.snapshot.cachekeys import forget_stale
from knowingd.snapshot.maps import Maps
from knowingd.store.codes import LAYERS, OVERLAY, SOURCE
from knowingd.store.interface import GraphLoad, GraphSession, GraphStore
from knowingd.store.nodestore import NodeStore, Sign
from knowingd.store.rows import Changes, SnapshotRow

MANY_EDGES: Final = 5_000  # below, children cost more than they save


def _nothing_else(_: GraphSession) -> None:
    pass


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
    store: GraphStore,
    node: NodeStore,
    origin: Origin,
    changes: Sequence[Changes],
    told: Told,
    now: int,
    also: Callable[[GraphSession], None] = _nothing_else,
    jobs: int = 1,
    expected: tuple[bytes, bytes] | None = None,
) -> Header | None:
    """Apply changes and append the snapshot they lead to; None where the same commit has the same roots already.

    `also` is done in the same transaction as the changes, whether or not they lead to a snapshot. With several jobs,
    child processes may make the maps of a first snapshot. Changes that do not lead to the `expected` roots of source
    and overlay are undone.
    """
    recover(store, node, origin, now)
    again = node.head(store.url, store.ref) is None  # withdrawn, or a new epoch: say it anew even if nothing changed
    with paused_collection():
        epoch = node.epoch

        def job(session: GraphSession) -> bool:
            return _commit(session, changes, told, now, epoch, jobs, expected, again=again, also=also)

        if not store.write(job):
            return None
    return recover(store, node, origin, now)


@contextmanager
def paused_collection() -> Iterator[None]:
    """Millions of small tuples that all live until the end are no work for the garbage collector."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def withdraw(node: NodeStore, url: str, ref: str, origin: Origin, now: int) -> Header | None:
    """Append that a repository is no longer published; None where it is not. Its database need not be readable."""
    if node.head(url, ref) is None:
        return None
    last = node.headers(url, ref)[-1]
    header = replace(
        last,
        generation=last.generation + 1,
        previous=last.index,
        commit="",
        branch="",
        source=None,
        overlay=None,
        nodes=0,
        edges=0,
        coverage={},
        submitter="",
    )
    return node.append(header, origin.id, now, origin.sign)


def publish_again(store: GraphStore, node: NodeStore, origin: Origin, now: int) -> Header | None:
    """Append the newest snapshot to a log that does not have it, as after the beginning of an epoch."""
    with store.read() as session:
        last = session.last_snapshot(finished=True)
    if last is None or node.head(store.url, store.ref) is not None:
        return None
    return take(store, node, origin, [], Told(last.commit, last.branch, last.extractor, last.submitter), now)


def _commit(
    session: GraphSession,
    changes: Sequence[Changes],
    told: Told,
    now: int,
    epoch: int,
    jobs: int,
    expected: tuple[bytes, bytes] | None,
    *,
    again: bool,
    also: Callable[[GraphSession], None],
) -> bool:
    last = session.last_snapshot()
    sequence = 1 if last is None else last.sequence + 1
    roots = bring_up_to_date(session, changes, now, sequence, with_events=last is not None, jobs=jobs, also=also)
    graph_roots = [graph_map(roots[layer]).root for layer in LAYERS]
    if expected is not None and tuple(graph_roots) != expected:
        raise RejectedError("root-mismatch", "the changes do not lead to the roots that they are said to lead to")
    same = last is not None and (last.commit, last.source_root, last.overlay_root) == (told.commit, *graph_roots)
    if same and not again:
        session.drop_events(sequence)
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


def bring_up_to_date(
    session: GraphSession,
    changes: Sequence[Changes],
    now: int,
    sequence: int,
    *,
    with_events: bool,
    jobs: int = 1,
    also: Callable[[GraphSession], None] = _nothing_else,
) -> list[dict[str, bytes]]:
    """Apply changes, and whatever is derived from the graphs; the roots of the named maps of both."""
    rest = list(changes)
    load = session.first_load(rest[0]) if rest and not with_events else None
    if load is not None:
        del rest[0]
        _load(session, load, also, jobs)
    else:
        also(session)
    touched = session.apply(rest, now, sequence, with_events=with_events)
    roots = [
        Maps(session, layer).update(touched[layer], sequence=sequence, with_events=with_events) for layer in LAYERS
    ]
    for one in touched:
        session.refresh_search(one.searchable)
    forget_stale(session)
    return roots


def _load(session: GraphSession, load: GraphLoad, also: Callable[[GraphSession], None], jobs: int) -> None:
    """Write a first load, and make its maps: at the same time, if it is large and there are several jobs."""

    def here() -> None:
        load.write()
        session.refresh_search(None)
        also(session)

    processes = jobs if len(load.rows.edges) >= MANY_EDGES else 1
    keep_built(session.caches, beside(builders(load.rows, session.caches.new_tree_id()), here, processes))


def recover(store: GraphStore, node: NodeStore, origin: Origin, now: int) -> Header | None:
    """Finish a snapshot that has no index yet; the header it got, or None where none was pending."""
    with store.read() as session:
        pending = session.pending_snapshot()
        before = session.last_snapshot(finished=True)
    if pending is None:
        return None
    known = node.headers(store.url, store.ref)
    header = known[-1] if known else None
    if not _is_of(header, pending, before, node.epoch):
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
    index, epoch = header.index, node.epoch
    store.write(lambda session: session.finish_snapshot(pending.sequence, epoch, index))
    return header


def _is_of(header: Header | None, pending: SnapshotRow, before: SnapshotRow | None, epoch: int) -> bool:
    """Whether the newest header of a repository was already appended for the pending snapshot.

    An equal header is not enough, because a revert repeats roots: it must also follow the last one known to be ours.
    """
    if header is None or header.source is None:
        return False
    if before is not None and (before.epoch, before.log_index or 0) >= (epoch, header.index):
        return False
    stated = (header.commit, header.source, header.overlay)
    return stated == (pending.commit, pending.source_root, pending.overlay_root)
