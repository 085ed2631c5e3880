"""Which working view questions use instead of a repository's base: one that stands on its newest snapshot, or none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from knowingd.store.interface import GraphSession
from knowingd.store.nodestore import RosterRow
from knowingd.store.repository import RepositoryStore
from knowingd.store.rows import SnapshotRow
from knowingd.store.working import Working, open_view, working_of

Views = Mapping[str, Sequence[Path]]
"""The views that are there, by the names of their repositories' databases."""


@contextmanager
def current_view(row: RosterRow, last: SnapshotRow | None, views: Views) -> Iterator[RepositoryStore | None]:
    """The view to ask, open; None where the base is to be asked."""
    view = _open(row, last, views)
    try:
        yield view
    finally:
        if view is not None:
            view.close()


def _open(row: RosterRow, last: SnapshotRow | None, views: Views) -> RepositoryStore | None:
    paths = views.get(row.database)
    if not paths or not row.local or last is None:
        return None
    from knowingd.index.languages import extractor_id  # noqa: PLC0415 - parsers load only where there is a view

    if last.extractor != extractor_id():
        return None
    return open_view(paths, last, (row.url, row.ref, row.origin))


class Above(NamedTuple):
    """A view as a question uses it: one state of it, the snapshot beneath with the counts of the view, and the view."""

    session: GraphSession
    snapshot: SnapshotRow
    working: Working


@contextmanager
def above(row: RosterRow, last: SnapshotRow | None, views: Views) -> Iterator[Above | None]:
    """The view to ask, at one state for as long as the question lasts."""
    with current_view(row, last, views) as view:
        if view is None or last is None:
            yield None
            return
        with view.read() as session:
            about = working_of(session)
            assert about is not None
            counts = last._replace(nodes=about.nodes, edges=about.edges, coverage=about.coverage)
            yield Above(session, counts, about)


def working_json(row: RosterRow, last: SnapshotRow | None, views: Views) -> dict[str, Any] | None:
    """What the view to ask says of itself, for people."""
    with above(row, last, views) as found:
        return None if found is None else found.working.as_json()
