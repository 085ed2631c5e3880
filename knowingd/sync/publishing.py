"""A graph made here for a log elsewhere: what turns the hub's state into ours, as the delta that the hub checks.

The hub's state is at hand as a replica, so that what differs is found by the same descent as between two nodes, only
without a network in between.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from knowing_protocol.hashing import node_hash
from knowing_protocol.pack import Branch, Withdrawn, edge_order, pack_records, pack_withdrawn, references
from knowing_protocol.records import Edge, Records
from knowing_protocol.rice import encode_subset

from knowingd.store.codes import EDGE_TYPE_CODES, LAYERS
from knowingd.store.interface import GraphSession
from knowingd.store.records import read_records
from knowingd.store.rows import Changes
from knowingd.sync.delta import branch_edges, identity, named_nodes, safe_width
from knowingd.sync.descent import Answering, Descent
from knowingd.sync.replica import descent_changes
from knowingd.sync.spaces import Side


def delta_from_nothing(session: GraphSession) -> list[Any]:
    """All of a graph, for a hub that has nothing of it."""
    found = []
    for layer in LAYERS:
        records = read_records(session, layer)
        found.append([pack_records(records), pack_withdrawn(Withdrawn())])
    return found


def delta_between(base: GraphSession, ours: GraphSession) -> list[Any]:
    """What turns one stored state into another, named as the base has it."""
    nonce = secrets.token_bytes(16)
    theirs = Side(ours, nonce)
    descent = Descent(Side(base, nonce), Answering(theirs).top())
    while asks := descent.next():
        answered = Answering(theirs).answer(asks)
        descent.take(answered.answers, answered.packs)
    return [_graph_delta(base, change) for change in descent_changes(base, descent.found())]


def _graph_delta(base: GraphSession, change: Changes) -> list[Any]:
    added, removed = _without_common(change.added, change.removed)
    gone = Withdrawn(
        nodes=[node_hash(*node) for node in removed.nodes],
        branches=_branches(base, change.layer, removed.edges),
        aliases=sorted(
            {(one.name, one.target) for one in removed.aliases} - {(one.name, one.target) for one in added.aliases}
        ),
        members=sorted(set(removed.members)),
        facts=[key for key in removed.facts if key not in added.facts],
        files=[file.path for file in removed.files if file.path not in {one.path for one in added.files}],
        coverage=[path for path in removed.coverage if path not in added.coverage],
    )
    width = safe_width(base, [*references(added, change.known), *named_nodes(gone)])
    return [pack_records(added, change.known, width), pack_withdrawn(gone, width)]


def _without_common(added: Records, removed: Records) -> tuple[Records, Records]:
    """What comes and what goes, without what only looked as if it did both."""

    def minus(a: Records, b: Records) -> Records:
        return Records(
            nodes=sorted(set(a.nodes) - set(b.nodes)),
            edges=sorted(set(a.edges) - set(b.edges)),
            aliases=sorted(set(a.aliases) - set(b.aliases)),
            members=sorted(set(a.members) - set(b.members)),
            facts={key: facts for key, facts in a.facts.items() if b.facts.get(key) != facts},
            files=a.files,
            coverage={path: reason for path, reason in a.coverage.items() if b.coverage.get(path) != reason},
        )

    return minus(added, removed), minus(removed, added)


def _branches(base: GraphSession, layer: int, edges: Iterable[Edge]) -> list[Branch]:
    """Edges that go, by their places in the branches of the base."""
    packages = {name: number for number, name in base.packages().items()}
    going: dict[tuple[str, str], set[Edge]] = defaultdict(set)
    for edge in edges:
        going[identity(base, edge.source).package, edge.type].add(edge)
    found = []
    for (package, edge_type), some in going.items():
        every = sorted(branch_edges(base, layer, packages[package], EDGE_TYPE_CODES[edge_type]), key=edge_order)
        places = [place for place, edge in enumerate(every) if edge in some]
        found.append(Branch(package, edge_type, len(places), encode_subset(places, len(every))))
    return found
