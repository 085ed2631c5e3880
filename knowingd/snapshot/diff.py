"""What differs between two snapshots of a repository: branches by their roots first, and then only what is in those.

Nothing is compared that did not change: the events between the two snapshots say which branches did, and what came and
went. What came and went again in between is not a difference.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from knowing_protocol.hashing import NodeId
from knowing_protocol.vocabulary import SOURCE_PROVENANCES, EdgeType

from knowingd.errors import NotFoundError
from knowingd.store.codes import EDGE_TYPES, PROVENANCES
from knowingd.store.interface import GraphSession
from knowingd.store.rows import SnapshotRow

STRUCTURE = frozenset(
    one.value
    for one in (
        EdgeType.CONTAINS,
        EdgeType.MEMBER_OF,
        EdgeType.IMPORTS,
        EdgeType.EXTENDS,
        EdgeType.IMPLEMENTS,
        EdgeType.OVERRIDES,
        EdgeType.DECORATES,
        EdgeType.REFERENCES,
        EdgeType.TYPE_HINT_OF,
        EdgeType.DEPENDS_ON,
        EdgeType.OWNED_BY,
        EdgeType.AUTHORED_BY,
        EdgeType.DOCUMENTS,
        EdgeType.TESTS,
        EdgeType.TESTED_BY,
        EdgeType.SIMILAR_TO,
        EdgeType.CO_TESTED_WITH,
    )
)
"""Edge types that say how code is built, not what it does."""


class EdgeChange(NamedTuple):
    """An edge that came or went."""

    source: NodeId
    target: NodeId
    type: str
    provenance: str


@dataclass(slots=True)
class Diff:
    """What turns the old snapshot into the new one."""

    old: SnapshotRow
    new: SnapshotRow
    packages: dict[str, list[str]] = field(default_factory=dict)  # package to edge types whose branch differs
    edges_added: list[EdgeChange] = field(default_factory=list)
    edges_removed: list[EdgeChange] = field(default_factory=list)
    symbols_added: list[NodeId] = field(default_factory=list)
    symbols_removed: list[NodeId] = field(default_factory=list)
    files_added: list[str] = field(default_factory=list)
    files_removed: list[str] = field(default_factory=list)
    files_changed: list[str] = field(default_factory=list)
    names_changed: int = 0  # aliases, members and facts
    coverage_changed: list[str] = field(default_factory=list)
    drifted: bool = False  # the overlay differs

    @property
    def change_class(self) -> str:
        """The gravest of what happened: behavioral, structural, runtime_drift, metadata_only or none."""
        edges = [one for one in (*self.edges_added, *self.edges_removed) if one.provenance in SOURCE_PROVENANCES]
        if self.old.source_root == self.new.source_root:
            return "runtime_drift" if self.drifted else "none"
        if any(one.type not in STRUCTURE for one in edges):
            return "behavioral"
        if edges or self.symbols_added or self.symbols_removed or self.names_changed:
            return "structural"
        return "runtime_drift" if self.drifted else "metadata_only"


def diff(session: GraphSession, old: SnapshotRow, new: SnapshotRow) -> Diff:
    """What differs between two snapshots that are kept."""
    for row in (old, new):
        if row.pruned:
            raise NotFoundError(
                f"what snapshot {row.log_index} differed in was pruned",
                code="pruned",
                hint="`knowing log` shows which are kept; `knowing gc --keep N` decides",
            )
    found = Diff(old, new, drifted=old.overlay_root != new.overlay_root)
    if (old.source_root, old.overlay_root) == (new.source_root, new.overlay_root):
        return found
    first, last = sorted((old.sequence, new.sequence))
    forward = old.sequence <= new.sequence
    _branches(session, first, last, found)
    _edges(session, first, last, found, forward=forward)
    _others(session, first, last, found, forward=forward)
    return found


def _branches(session: GraphSession, first: int, last: int, found: Diff) -> None:
    ends: dict[tuple[int, int, int], tuple[bytes | None, bytes | None]] = {}
    for event in session.branch_events(first, last):
        key = (event.layer, event.package, event.type)
        ends[key] = (ends[key][0] if key in ends else event.before, event.after)
    names = session.packages()
    differing = sorted(
        {(names[package], EDGE_TYPES[code]) for (_, package, code), (before, after) in ends.items() if before != after}
    )
    for package, edge_type in differing:
        found.packages.setdefault(package, []).append(edge_type)


def _edges(session: GraphSession, first: int, last: int, found: Diff, *, forward: bool) -> None:
    """An edge differs if it is there after its last event and was not before its first, or the other way round."""
    before: dict[tuple[int, ...], int] = {}
    after: dict[tuple[int, ...], int] = {}
    for added, *row in session.edge_events(first, last):
        key = tuple(row)
        before.setdefault(key, 1 - added)
        after[key] = added
    changed = [(key, came) for key, came in after.items() if before[key] != came]
    nodes = session.identities({one for (source, _, target, _), _ in changed for one in (source, target)})
    for (source, edge_type, target, provenance), came in changed:
        change = EdgeChange(nodes[source], nodes[target], EDGE_TYPES[edge_type], PROVENANCES[provenance])
        (found.edges_added if bool(came) == forward else found.edges_removed).append(change)
    found.edges_added.sort()
    found.edges_removed.sort()


def _others(session: GraphSession, first: int, last: int, found: Diff, *, forward: bool) -> None:
    states: dict[tuple[int, str, str], tuple[str | None, str | None]] = {}
    for event in session.events(first, last):
        identity, value = _identity(event.kind, event.body)
        key = (event.layer, event.kind, identity)
        before = states[key][0] if key in states else (None if event.added else value)
        states[key] = (before, value if event.added else None)
    for (_, kind, identity), (before, after) in states.items():
        if before == after:
            continue
        old, new = (before, after) if forward else (after, before)
        if kind == "node":
            node = session.node(int(identity)).node
            if node.kind != "external":
                (found.symbols_added if old is None else found.symbols_removed).append(node)
        elif kind == "file":
            part = found.files_added if old is None else found.files_removed if new is None else found.files_changed
            part.append(identity)
        elif kind == "coverage":
            found.coverage_changed.append(identity)
        else:
            found.names_changed += 1
    for lines in (found.files_added, found.files_removed, found.files_changed, found.coverage_changed):
        lines.sort()
    found.symbols_added.sort()
    found.symbols_removed.sort()


def _identity(kind: str, body: list[Any]) -> tuple[str, str]:
    """What an event is about, and what it says of it."""
    if kind == "node":
        return str(body[0]), ""
    if kind in {"facts", "file", "coverage"}:
        return str(body[0]), repr(body[1:])
    if kind == "alias":
        return repr(body[:2]), repr(body[2])
    return repr(body), ""
