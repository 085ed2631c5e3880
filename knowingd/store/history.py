"""What snapshots changed, and the end of what is kept of it.

A snapshot's events lead from the one before it to it. To open a snapshot, its successors' events are undone; so events
may go once no snapshot before them is kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from knowingd.store.rows import BranchEvent, Event, Removed
from knowingd.store.session import Session


def edge_events(session: Session, after: int, upto: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Edges that came and went, in order: whether one came, source, type, target, provenance."""
    return session.execute(
        "SELECT added, source, type, target, provenance FROM edge_events WHERE sequence > ? AND sequence <= ? "
        "ORDER BY sequence, rowid",
        (after, upto),
    )


def events(session: Session, after: int, upto: int) -> Iterator[Event]:
    """Everything else that came and went, in order."""
    rows = session.execute(
        "SELECT added, kind, layer, body FROM events WHERE sequence > ? AND sequence <= ? ORDER BY sequence, rowid",
        (after, upto),
    )
    return (Event(bool(added), kind, layer, json.loads(body)) for added, kind, layer, body in rows)


def branch_events(session: Session, after: int, upto: int) -> Iterator[BranchEvent]:
    """Branches whose roots changed, in order."""
    rows = session.execute(
        "SELECT layer, package_id, type, root_before, root_after FROM branch_events "
        "WHERE sequence > ? AND sequence <= ? ORDER BY sequence, rowid",
        (after, upto),
    )
    return map(BranchEvent._make, rows)


def put_branch_event(session: Session, sequence: int, event: BranchEvent) -> None:
    """Keep what root a branch had before a snapshot, and after it."""
    session.execute("INSERT INTO branch_events VALUES (?, ?, ?, ?, ?, ?)", (sequence, *event))


def drop_events(session: Session, sequence: int) -> None:
    """Changes that led to the same roots are no events."""
    for table in ("edge_events", "events", "branch_events"):
        session.execute(f"DELETE FROM {table} WHERE sequence = ?", (sequence,))


def prune(session: Session, keep: int, deleted_before: int) -> Removed:
    """Keep the newest snapshots openable, and take away what nothing can ask for any more."""
    rows = session.execute("SELECT sequence FROM snapshots ORDER BY sequence DESC LIMIT ?", (max(keep, 1),)).fetchall()
    oldest = rows[-1][0] if rows else 0
    snapshots = session.execute("UPDATE snapshots SET pruned = 1 WHERE sequence < ? AND pruned = 0", (oldest,)).rowcount
    gone = 0
    for table in ("edge_events", "events", "branch_events"):
        gone += session.execute(f"DELETE FROM {table} WHERE sequence <= ?", (oldest,)).rowcount
    nodes = _prune_nodes(session, deleted_before)
    packages = session.execute(
        "DELETE FROM packages WHERE NOT EXISTS (SELECT 1 FROM nodes n WHERE n.package_id = packages.id) "
        "AND NOT EXISTS (SELECT 1 FROM branch_events b WHERE b.package_id = packages.id)"
    ).rowcount
    session.execute("DELETE FROM alias_prefixes WHERE id NOT IN (SELECT prefix FROM aliases)")
    return Removed(snapshots, gone, nodes, packages, 0)


def _prune_nodes(session: Session, deleted_before: int) -> int:
    """Nodes that left the graphs long ago and that no kept event speaks of."""
    candidates = {
        node for (node,) in session.execute("SELECT id FROM nodes WHERE deleted_at < ?", (deleted_before,)).fetchall()
    }
    if not candidates:
        return 0
    for _, source, _, target, _ in edge_events(session, 0, 1 << 62):
        candidates -= {source, target}
    for event in events(session, 0, 1 << 62):
        candidates -= {part for part in event.body if isinstance(part, int)}
    session.executemany("DELETE FROM nodes WHERE id = ?", ((node,) for node in candidates))
    return len(candidates)
