"""What one node sends to another leads to the same graph, or to nothing at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import msgpack
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from knowing_protocol.errors import KnowingError
from knowing_protocol.history import Header
from knowing_protocol.records import Records
from support.changes import difference, edited
from support.generated import Size, generate

from knowingd.config import Home
from knowingd.node import Node
from knowingd.snapshot.snapshots import Told
from knowingd.store.interface import GraphSession, GraphStore
from knowingd.store.records import read_records
from knowingd.store.repository import RepositoryStore
from knowingd.store.rows import Changes
from knowingd.sync.chunks import Piece, piece_from, pieces, read_piece
from knowingd.sync.delta import make_delta, read_delta
from knowingd.sync.descent import Answering, Descent, ask_from
from knowingd.sync.replica import Entry, NotTheSignedGraphError, commit, descent_changes, nothing_elsewhere, unpack_all
from knowingd.sync.spaces import Side

TOLD = Told("1" * 40, "main", bytes(32))


def told(number: int) -> Told:
    return TOLD._replace(commit=f"{number:040x}")


def wire(value: Any) -> Any:
    """A value as it arrives."""
    return msgpack.unpackb(msgpack.packb(value))


class Origin:
    """A node with one repository."""

    def __init__(self, path: Path, seed: int, size: Size) -> None:
        self.node = Node(Home(path))
        self.repo, self.records = generate(seed, size)
        self.count = 0
        self.replicas: list[RepositoryStore] = []
        self.header = self.snapshot(Changes(0, self.records, Records()))

    def snapshot(self, change: Changes) -> Header:
        self.count += 1
        header = self.node.snapshot(self.repo, [change], told(self.count))
        assert header is not None
        self.header = header
        return header

    def become(self, records: Records) -> None:
        self.snapshot(difference(self.records, records))
        self.records = records

    @property
    def entry(self) -> Entry:
        return Entry(self.node.keys.origin, self.node.store.epoch, self.header)

    @property
    def store(self) -> GraphStore:
        return self.node.repository(self.node.find(self.repo))

    def replica(self, path: Path) -> RepositoryStore:
        self.replicas.append(RepositoryStore(path, self.repo, "HEAD", self.node.keys.origin))
        return self.replicas[-1]

    def close(self) -> None:
        for one in self.replicas:
            one.close()
        self.node.close()


@pytest.fixture
def origin(tmp_path: Path) -> Iterator[Origin]:
    found = Origin(tmp_path / "home", 7, Size(12, 300, 1500))
    yield found
    found.close()


def send_all(origin: Origin, replica: GraphStore, change: Callable[[Piece, Any], Any] = lambda _, pack: pack) -> int:
    """A first transfer."""
    packs: list[list[Any]] = [[], []]
    with origin.store.read() as session:
        side = Side(session)
        todo = [piece_from(wire(piece.plain())) for piece in pieces(side)]
        for piece in todo:
            packs[piece.space.layer].append(change(piece, wire(read_piece(side, piece))))

    def make(session: GraphSession) -> Sequence[Changes]:
        found = []
        for layer in (0, 1):
            records, edges = unpack_all(session.repo, layer, packs[layer], nothing_elsewhere)
            found.append(Changes(layer, records, Records(), edges))
        return found

    commit(replica, origin.entry, make, 1)
    return len(todo)


def send_delta(origin: Origin, replica: GraphStore) -> list[Any]:
    with replica.read() as session:
        last = session.last_snapshot()
    assert last is not None
    with origin.store.read() as session:
        rows = {row.log_index: row.sequence for row in session.snapshots()}
        delta = wire(make_delta(session, rows[last.log_index], max(rows.values())))
    commit(replica, origin.entry, lambda session: read_delta(session, delta), 2)
    return delta  # type: ignore[no-any-return]


def descend(
    origin: Origin, replica: GraphStore, change: Callable[[Any], Any] = lambda answer: answer
) -> tuple[int, int]:
    """Round trips and bytes of identification."""
    nonce = b"n" * 16
    trips = identification = 0
    with origin.store.read() as theirs, replica.read() as mine:
        top = wire(Answering(Side(theirs, nonce)).top())
        identification += len(msgpack.packb(top))
        descent = Descent(Side(mine, nonce), top)
        trips += 1
        while asks := descent.next():
            question = wire([ask.plain() for ask in asks])
            answered = Answering(Side(theirs, nonce)).answer([ask_from(one) for one in question])
            identification += len(msgpack.packb(question)) + len(msgpack.packb(answered.answers))
            descent.take(change(wire(answered.answers)), wire(answered.packs))
            trips += 1
            assert trips < 50
    found = descent.found()
    commit(replica, origin.entry, lambda session: descent_changes(session, found), 3)
    return trips, identification


def same_graph(origin: Origin, replica: GraphStore) -> None:
    with origin.store.read() as theirs, replica.read() as mine:
        a, b = theirs.last_snapshot(), mine.last_snapshot()
        assert a is not None
        assert b is not None
        assert (a.source_root, a.overlay_root, a.log_index) == (b.source_root, b.overlay_root, b.log_index)
        for layer in (0, 1):
            one, other = read_records(theirs, layer), read_records(mine, layer)
            assert set(one.nodes) == set(other.nodes)
            assert set(one.edges) == set(other.edges)
            assert {f.path: sorted(f.sites) for f in one.files} == {f.path: sorted(f.sites) for f in other.files}


def test_a_first_transfer_leads_to_the_same_graph(origin: Origin, tmp_path: Path) -> None:
    replica = origin.replica(tmp_path / "replica.db")
    send_all(origin, replica)
    same_graph(origin, replica)


def test_a_first_transfer_of_a_large_branch_is_cut(tmp_path: Path) -> None:
    origin = Origin(tmp_path / "home", 3, Size(1, 2000, 20_000))
    replica = origin.replica(tmp_path / "replica.db")
    assert send_all(origin, replica) > 16
    same_graph(origin, replica)
    origin.close()


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6))
@example(seed=4811)
def test_deltas_and_descents_lead_to_the_same_graph(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    random = Random(seed)
    path = tmp_path_factory.mktemp("nodes")
    origin = Origin(path / "home", seed, Size(6, 60, 250))
    first, second = origin.replica(path / "first.db"), origin.replica(path / "second.db")
    for replica in (first, second):
        send_all(origin, replica)
    for _ in range(4):
        for _ in range(random.randrange(1, 3)):
            origin.become(edited(origin.records, origin.repo, random))
        send_delta(origin, first)
        same_graph(origin, first)
        if random.random() < 0.7:
            descend(origin, second)
            same_graph(origin, second)
    origin.close()


def test_a_descent_from_a_state_long_ago_leads_to_the_same_graph(origin: Origin, tmp_path: Path) -> None:
    replica = origin.replica(tmp_path / "replica.db")
    send_all(origin, replica)
    random = Random(4)
    for _ in range(25):
        origin.become(edited(origin.records, origin.repo, random))
    descend(origin, replica)
    same_graph(origin, replica)


def test_a_descent_to_an_unrelated_graph_leads_to_the_same_graph(origin: Origin, tmp_path: Path) -> None:
    replica = origin.replica(tmp_path / "replica.db")
    send_all(origin, replica)
    _, records = generate(1234, Size(5, 80, 300), origin.repo)
    origin.become(records)
    descend(origin, replica)
    same_graph(origin, replica)


def test_a_descent_again_asks_once_and_finds_nothing(origin: Origin, tmp_path: Path) -> None:
    replica = origin.replica(tmp_path / "replica.db")
    send_all(origin, replica)
    origin.snapshot(Changes(0, Records(), Records()))
    trips, _ = descend(origin, replica)
    assert trips == 1


def refused(replica: GraphStore, send: Callable[[], Any]) -> None:
    """Nothing of what was sent stays."""
    with replica.read() as session:
        before = session.last_snapshot(), session.count(0)
    with pytest.raises(KnowingError):
        send()
    with replica.read() as session:
        assert (session.last_snapshot(), session.count(0)) == before


def test_a_transfer_of_something_else_than_what_was_signed_leaves_nothing(origin: Origin, tmp_path: Path) -> None:
    replica = origin.replica(tmp_path / "replica.db")

    def without_an_edge(piece: Piece, pack: Any) -> Any:
        if piece.space.map == "edges" and pack[4][0]:
            pack[4] = [column[:-1] for column in pack[4]]
        return pack

    refused(replica, lambda: send_all(origin, replica, without_an_edge))
    send_all(origin, replica)
    same_graph(origin, replica)


def test_a_delta_to_another_root_leaves_nothing(origin: Origin, tmp_path: Path) -> None:
    replica = origin.replica(tmp_path / "replica.db")
    send_all(origin, replica)
    origin.become(edited(origin.records, origin.repo, Random(1)))
    right = origin.header
    assert right.source is not None
    origin.header = replace(right, source=bytes(32))
    refused(replica, lambda: send_delta(origin, replica))
    origin.header = replace(right, edges=right.edges + 1)
    with pytest.raises(NotTheSignedGraphError, match="counts"):
        send_delta(origin, replica)
    origin.header = right
    send_delta(origin, replica)
    same_graph(origin, replica)


def test_a_descent_with_lying_answers_leaves_nothing(origin: Origin, tmp_path: Path) -> None:
    replica = origin.replica(tmp_path / "replica.db")
    send_all(origin, replica)
    origin.become(edited(origin.records, origin.repo, Random(2)))
    refused(replica, lambda: descend(origin, replica, lambda answers: [[] for _ in answers]))
    descend(origin, replica)
    same_graph(origin, replica)
