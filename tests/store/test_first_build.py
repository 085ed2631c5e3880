"""The first snapshot of a repository: the same roots by one process or two, and after a snapshot of nothing."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest
from knowing_protocol.errors import InvalidNameError
from knowing_protocol.graph import Graph, graph_map
from knowing_protocol.records import Records
from support.generated import Size, generate

from knowingd import forked
from knowingd.config import Home
from knowingd.errors import StoreError
from knowingd.forked import beside, streamed
from knowingd.node import Node
from knowingd.snapshot import relations, snapshots, trees
from knowingd.snapshot.fsck import check_repository
from knowingd.snapshot.maps import Maps
from knowingd.snapshot.snapshots import Told
from knowingd.store.codes import PROVENANCES_OF_LAYER, SOURCE
from knowingd.store.compact import compact
from knowingd.store.interface import GraphSession
from knowingd.store.repository import RepositoryStore
from knowingd.store.rows import SEVERAL, Changes, EdgeRow, edge_number, edge_of

REPO = "github.com/generated/first"
TOLD = Told("1" * 40, "main", bytes(32))


def test_two_processes_make_the_roots_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "MANY_EDGES", 1)
    monkeypatch.setattr(trees, "LARGE_SET", 5)  # so that large sets are there
    _, records = generate(3, Size(12, 120, 900), REPO)
    for jobs in (1, 2, 3):
        store = RepositoryStore(tmp_path / f"{jobs}.db", REPO, "HEAD", bytes(32))

        def job(session: GraphSession, jobs: int = jobs) -> bytes:
            changes = [Changes(0, records, Records())]
            made, _ = snapshots.bring_up_to_date(session, changes, 1, 1, with_events=False, jobs=jobs)
            return graph_map(made).root

        assert store.write(job) == Graph(REPO, records).root
        assert check_repository(store).errors == []
        store.close()


def test_maps_made_from_a_database_are_those_made_from_what_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "LARGE_SET", 5)
    _, records = generate(5, Size(12, 120, 900), REPO)
    store = RepositoryStore(tmp_path / "one.db", REPO, "HEAD", bytes(32))

    def job(session: GraphSession) -> bytes:
        session.apply([Changes(0, records, Records())], 1, 1, with_events=False)
        root = graph_map(Maps(session, 0).build_all()).root
        Maps(session, 1).build_all()
        return root

    assert store.write(job) == Graph(REPO, records).root
    assert check_repository(store).errors == []
    store.close()


def test_records_in_parts_are_loaded_as_the_whole(tmp_path: Path) -> None:
    repo, records = generate(6, Size(5, 40, 160))
    nodes = Records(nodes=records.nodes)
    rest = Records([], records.edges, records.aliases, records.members, records.facts, records.files, records.coverage)
    first = [compact(rest, SOURCE), compact(nodes, SOURCE), compact(nodes, SOURCE)]
    with Node(Home(tmp_path / "home")) as node:
        header = node.snapshot(repo, [Changes(SOURCE, Records(), Records(), first=first)], TOLD)
        assert header is not None
        assert header.source == Graph(repo, records).root


@pytest.mark.parametrize("missing", ["nodes", "edges"])
def test_a_first_load_refuses_what_refers_to_nothing(tmp_path: Path, missing: str) -> None:
    repo, records = generate(7, Size(5, 40, 160))
    setattr(records, missing, [])
    with Node(Home(tmp_path / "home")) as node, pytest.raises(InvalidNameError, match=r"not in the graph|not given"):
        node.snapshot(repo, [Changes(SOURCE, records, Records())], TOLD)


def test_what_follows_a_snapshot_of_nothing_has_the_roots_of_the_kernel(tmp_path: Path) -> None:
    repo, records = generate(4, Size(5, 40, 160))
    with Node(Home(tmp_path / "home")) as node:
        assert node.snapshot(repo, [Changes(0, Records(), Records())], TOLD) is not None
        header = node.snapshot(repo, [Changes(0, records, Records())], TOLD._replace(commit="2" * 40))
        assert header is not None
        assert header.source == Graph(repo, records).root


def test_relations_that_were_observed_in_several_ways_are_one_number() -> None:
    one, two = PROVENANCES_OF_LAYER[SOURCE][:2]
    edges = [
        EdgeRow(1, 2, 3, one),
        EdgeRow(1, 2, 3, two),
        EdgeRow(1, 2, 4, two),
        EdgeRow(2, 2, 3, one),
    ]
    found = relations.gathered(edge_number(*edge) for edge in edges)
    assert [edge_of(number) for number in found.numbers] == [
        EdgeRow(1, 2, 3, SEVERAL),
        EdgeRow(1, 2, 4, two),
        EdgeRow(2, 2, 3, one),
    ]
    assert list(found.several.values()) == [[one, two]]


def test_all_that_children_give_comes_back() -> None:
    here = os.getpid()
    works = [
        lambda: iter(["first", str(os.getpid() != here)]),
        lambda: iter(["x" * 300_000, "last"]),
        lambda: iter([]),
    ]
    found = list(streamed(works))
    assert sorted(found) == ["True", "first", "last", "x" * 300_000]
    assert found.index("first") < found.index("True")


def test_children_end_when_nobody_wants_what_they_still_write() -> None:
    endless = [lambda: iter(partial(bytes, 300_000), b"never")] * 2
    for _ in streamed(endless):
        break  # leaving the generator ends them


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_works_beside_each_other_give_their_results_in_order(processes: int) -> None:
    done: list[str] = []
    works = [lambda: (1, os.getpid()), lambda: (2, os.getpid())]
    found = beside(works, lambda: done.append("here"), processes)
    assert [number for number, _ in found] == [1, 2]
    assert sum(process != os.getpid() for _, process in found) == processes - 1
    assert done == ["here"]


def test_a_child_that_dies_says_what_to_do(capfd: pytest.CaptureFixture[str]) -> None:
    def fails() -> list[int]:
        raise ValueError("gone")

    child = forked.Child(fails)
    with pytest.raises(StoreError, match="died") as caught:
        child.result()
    child.close()
    child.wait()
    assert caught.value.hint == "try again with --jobs 1"
    assert "gone" in capfd.readouterr().err
