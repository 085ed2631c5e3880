"""Keeps a repository's working view true to its work tree: a copy of the signed base, with uncommitted files on top.

The view gets what an ordinary index of the work tree changes, and nothing else: no snapshot, no event, no header, no
signature. While the base stays, each refresh builds on the view as it is; when the base moves, the view is made anew;
when nothing differs any more, it is removed. Killed at any moment, what is left is the view as it was, or a file
without a note, which nobody uses and the next refresh removes. The caller holds the repository's lock.
"""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from knowing_protocol.encoding import canonical_json
from knowing_protocol.graph import graph_map
from knowing_protocol.hashing import snapshot_hash
from knowing_protocol.vocabulary import Coverage

from knowingd.errors import StoreError
from knowingd.index import Report, silent
from knowingd.index.driver import Indexed, index
from knowingd.index.languages import extractor_id, language_of
from knowingd.snapshot.snapshots import bring_up_to_date
from knowingd.source import Entry, Source, SourceError, WorkingView, uncommitted
from knowingd.store.codes import LAYERS, SOURCE
from knowingd.store.interface import GraphSession, GraphStore
from knowingd.store.repository import RepositoryStore
from knowingd.store.rows import SnapshotRow
from knowingd.store.working import Working, base_of, copy_of, drop_views, open_view, put_working, views_of

_ATTEMPTS: Final = 3
"""How often a work tree is looked at again that changes while it is read."""


class Refreshed(NamedTuple):
    """What came of a refresh: the view, if one is needed, what was read for it, and why none could be made."""

    working: Working | None = None
    parsed: int = 0
    problem: str = ""


def refresh(
    base: RepositoryStore, source: Source, *, jobs: int = 1, full: bool = False, report: Report = silent
) -> Refreshed:
    """Bring the view of a repository up to date with the work tree above its newest snapshot, or remove it.

    `source` is what that snapshot was made from. `full` copies the base anew.
    """
    found = Refreshed()
    for _ in range(_ATTEMPTS):
        try:
            tree = uncommitted(source)
            if tree is None:
                drop_views(base.path)
                return found
            with tree:
                done = _refresh(base, tree, jobs=jobs, full=full, report=report)
        except SourceError as error:  # the commit was read; what is above it is worth a word, not a failure
            drop_views(base.path)
            return Refreshed(None, found.parsed, error.message)
        found = Refreshed(done.working, found.parsed + done.parsed)
        if not tree.unsettled:
            break
        full = False
    return found


def _refresh(base: RepositoryStore, tree: WorkingView, *, jobs: int, full: bool, report: Report) -> Refreshed:
    now = int(time.time())
    with base.read() as session:
        last = session.last_snapshot(finished=True)
        moved = last is None or (last.commit, last.extractor) != (tree.commit, extractor_id())
        files = 0 if moved else len(differing(session, tree.entries()))
    if last is None or not files:
        drop_views(base.path)
        return Refreshed()
    identity = (base.url, base.ref, base.origin)
    kept = None if full else open_view(views_of(base.path), last, identity)
    if kept is None:
        drop_views(base.path)
        report("copying", 0, 0)
    view = kept or RepositoryStore(copy_of(base), *identity, create=False)
    try:
        drop_views(base.path, keep=view.path)
        found = index(view, tree, jobs=jobs, report=report)
        report("writing", 0, 0)
        working = view.write(lambda session: _write(session, found, tree, last, now, files))
    except StoreError:
        if kept is None:
            raise
        view.close()  # it was damaged since: the base has all that it takes to make it again
        return _refresh(base, tree, jobs=jobs, full=True, report=report)
    finally:
        view.close()
    return Refreshed(working, found.counts.parsed)


def _write(
    session: GraphSession, found: Indexed, tree: WorkingView, last: SnapshotRow, now: int, files: int
) -> Working:
    """What the work tree changes, and the note that makes the view valid, in one transaction."""
    found.keep(session)
    session.index.drop_files(tree.unsettled)  # to be read again, even if they are then as they were listed
    roots = bring_up_to_date(session, found.changes, now, last.sequence + 1, with_events=False)
    snapshot = snapshot_hash(graph_map(roots[SOURCE]).root).hex()
    counts = [session.count(layer) for layer in LAYERS]
    coverage = canonical_json(session.coverage_counts()).decode()
    nodes, edges = sum(one for one, _ in counts), sum(one for _, one in counts)
    working = Working(base_of(last), snapshot, now, files, nodes, edges, coverage)
    put_working(session, working)
    return working


def unseen(store: GraphStore, source: Source) -> int:
    """How many files of the work tree above a source are not as a base or a view has them."""
    tree = uncommitted(source)
    if tree is None:
        return 0
    with tree, store.read() as session:
        return len(differing(session, tree.entries()))


def differing(session: GraphSession, entries: list[Entry]) -> set[str]:
    """The paths whose part in the graph is another one than when this database was indexed.

    A changed file that no extractor reads has no part in it but its name.
    """
    kept = session.index.files()
    coverage = {path: reason for _, path, reason in session.coverage(SOURCE)}
    found = {*kept, *coverage} - {entry.path for entry in entries}
    for entry in entries:
        if entry.reason is None and language_of(entry.path) is not None:
            same = entry.path in kept and kept[entry.path].content_id == entry.content_id
        else:
            reason = entry.reason or Coverage.UNSUPPORTED
            same = entry.path not in kept and coverage.get(entry.path) == reason.value
        if not same:
            found.add(entry.path)
    return found
