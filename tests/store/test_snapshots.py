"""Snapshots over the store: the same roots as the kernel gives, whole or by what changed, and across crashes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from knowing_protocol.graph import Graph
from knowing_protocol.records import Records
from knowing_protocol.section import EMPTY_GRAPH_ROOT
from support.changes import difference, edited
from support.generated import Size, generate

from knowingd.config import Home
from knowingd.node import Node
from knowingd.snapshot.snapshots import Told
from knowingd.store.records import read_records
from knowingd.store.repository import RepositorySession
from knowingd.store.rows import Changes

TOLD = Told("1" * 40, "main", bytes(32))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with Node(Home(tmp_path / "home")) as found:
        yield found


def test_roots_of_a_first_snapshot_are_those_of_the_kernel(node: Node) -> None:
    repo, records = generate(1, Size(20, 300, 1200))
    header = node.snapshot(repo, [Changes(0, records, Records())], TOLD)
    assert header is not None
    assert header.source == Graph(repo, records).root
    assert header.overlay == EMPTY_GRAPH_ROOT
    assert (header.nodes, header.edges, header.index, header.generation) == (
        len(set(records.nodes)),
        len(set(records.edges)),
        0,
        0,
    )


def test_records_read_back_are_the_records_written(node: Node) -> None:
    repo, records = generate(2, Size(10, 150, 600))
    node.snapshot(repo, [Changes(0, records, Records())], TOLD)
    with node.repository(node.find(repo)).read() as session:
        back = read_records(session, 0)
    assert Graph(repo, back).root == Graph(repo, records).root
    assert sorted(back.edges) == sorted(records.edges)
    assert {file.path: sorted(file.sites) for file in back.files} == {
        file.path: sorted(file.sites) for file in records.files
    }


@pytest.mark.parametrize("smallest", [False, True], ids=["as shipped", "everything is large"])
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6))
def test_an_incremental_snapshot_has_the_roots_of_a_full_one(
    tmp_path_factory: pytest.TempPathFactory, smallest: bool, seed: int
) -> None:
    random = Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        if smallest:  # trees of their own for nearly all sets and branches, and many buckets
            patch.setattr("knowingd.snapshot.trees.LARGE_SET", 2)
            patch.setattr("knowingd.snapshot.trees.LARGE_BRANCH", 3)
            patch.setattr("knowingd.snapshot.trees.KEYS_IN_A_BUCKET", 1)
        _check_increments(tmp_path_factory, seed, random)


def _check_increments(tmp_path_factory: pytest.TempPathFactory, seed: int, random: Random) -> None:
    home = Home(tmp_path_factory.mktemp("home"))
    repo, records = generate(seed, Size(6, 60, 200))
    records.files = []
    with Node(home) as first:
        first.snapshot(repo, [Changes(0, records, Records())], TOLD)
    for step in range(4):
        new = edited(records, repo, random)
        with Node(home) as again:  # a new process has nothing but the database
            header = again.snapshot(repo, [difference(records, new)], Told(str(step) * 40, "main", bytes(32)))
            assert header is not None
            assert header.source == Graph(repo, new).root
            assert again.fsck()["ok"]
        records = new


def test_the_same_commit_with_the_same_roots_appends_nothing(node: Node) -> None:
    repo, records = generate(3, Size(3, 20, 50))
    assert node.snapshot(repo, [Changes(0, records, Records())], TOLD) is not None
    assert node.snapshot(repo, [], TOLD) is None
    assert node.store.size() == 1
    assert node.snapshot(repo, [], TOLD._replace(commit="2" * 40)) is not None
    assert node.store.size() == 2


def test_a_revert_repeats_the_snapshot_hash_and_gets_an_index_of_its_own(node: Node) -> None:
    repo, records = generate(4, Size(3, 20, 50))
    fewer = replace(records, edges=records.edges[:-3], files=[])
    records = replace(records, files=[])
    node.snapshot(repo, [Changes(0, records, Records())], TOLD)
    node.snapshot(repo, [difference(records, fewer)], TOLD._replace(commit="2" * 40))
    node.snapshot(repo, [difference(fewer, records)], TOLD)
    log = node.log(repo)
    assert [one["index"] for one in log] == [2, 1, 0]
    assert log[0]["snapshot"] == log[2]["snapshot"] != log[1]["snapshot"]
    assert [one["parent"] for one in log] == [1, 0, None]


def test_nothing_in_the_metadata_or_search_layers_changes_a_root(node: Node) -> None:
    repo, records = generate(5, Size(3, 20, 50))
    node.snapshot(repo, [Changes(0, records, Records())], TOLD)
    store = node.repository(node.find(repo))

    def scribble(session: object) -> None:
        execute = session.execute  # type: ignore[attr-defined]
        execute("INSERT INTO graph_notes VALUES (x'00', 'k', 'v', 1)")
        execute("INSERT INTO feedback (symbol_hash, session_id, useful, timestamp) VALUES (x'00', 's', 1, 1)")
        execute("INSERT INTO task_memory (keywords, symbol_hash, score, timestamp) VALUES ('k', x'00', 1.0, 1)")
        execute(
            "INSERT INTO vocab_associations (keyword, symbol_name, symbol_hash, last_seen) VALUES ('k','s',x'00',1)"
        )
        execute("INSERT INTO route_symbols VALUES ('s', 'r', x'00', 'http', 1)")
        execute("INSERT INTO embeddings VALUES (x'00', 'm', x'00', 1)")
        execute("INSERT OR REPLACE INTO nodes_fts_content VALUES (1, 'a', 'b', 'c', 'd', 'e', 'f')")
        execute("INSERT INTO nodes_fts (nodes_fts) VALUES ('rebuild')")

    store.write(scribble)
    assert node.snapshot(repo, [], TOLD) is None
    assert node.fsck()["ok"]


def test_fsck_finds_a_changed_row_and_repairs_what_can_be_made_again(node: Node) -> None:
    repo, records = generate(6, Size(5, 60, 200))
    node.snapshot(repo, [Changes(0, records, Records())], TOLD)
    store = node.repository(node.find(repo))
    store.write(lambda session: session.execute("UPDATE tree_blocks SET roots = zeroblob(length(roots))").close())
    assert not node.fsck()["ok"]
    assert node.fsck(repair=True)["ok"]
    assert node.fsck()["ok"]
    store.write(lambda session: session.execute("DELETE FROM edges WHERE id = (SELECT min(id) FROM edges)").close())
    broken = node.fsck(repair=True)
    assert not broken["ok"]
    assert any("not the one that its newest snapshot names" in text for text in broken["repos"][0]["errors"])


def test_fsck_finds_wrong_members_of_a_large_set(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knowingd.snapshot.trees.LARGE_SET", 3)
    repo, records = generate(12, Size(5, 60, 300))
    node.snapshot(repo, [Changes(0, records, Records())], TOLD)
    store = node.repository(node.find(repo))

    def scribble(session: RepositorySession) -> None:
        tree = next(row for row in session.caches.trees(0, "inbound-set") if row.bits == 0)
        found = session.caches.block(tree.id, 0)
        assert found is not None
        session.caches.put_blocks(tree.id, [(0, found[0], [[*found[1][0][1:], 7 << 4]])])

    store.write(scribble)
    report = node.fsck()
    assert any("inbound set" in text for text in report["repos"][0]["errors"])
    assert node.fsck(repair=True)["ok"]


def test_fsck_finds_a_tampered_log(node: Node) -> None:
    repo, records = generate(7, Size(2, 10, 20))
    node.snapshot(repo, [Changes(0, records, Records())], TOLD)
    node.store.database.write(
        lambda connection: connection.execute(
            "UPDATE log_entries SET header = replace(header, ?, ?)", ("1" * 40, "9" * 40)
        ).close()
    )
    assert any("another hash" in text for text in node.fsck()["log"])


def test_a_removed_symbol_that_comes_back_is_the_same_node(node: Node) -> None:
    repo, records = generate(8, Size(3, 20, 50))
    records.files = []
    without = replace(records, edges=[], aliases=[], members=[], facts={}, nodes=records.nodes[:3])
    node.snapshot(repo, [Changes(0, records, Records())], TOLD)
    node.snapshot(repo, [difference(records, without)], TOLD._replace(commit="2" * 40))
    header = node.snapshot(repo, [difference(without, records)], TOLD._replace(commit="3" * 40))
    assert header is not None
    assert header.source == Graph(repo, records).root


def test_a_database_of_another_repository_is_refused(tmp_path: Path) -> None:
    from knowingd.errors import StoreError
    from knowingd.store.repository import RepositoryStore

    RepositoryStore(tmp_path / "x.db", "github.com/a/b", "HEAD", bytes(32)).close()
    with pytest.raises(StoreError, match=r"holds github\.com/a/b"):
        RepositoryStore(tmp_path / "x.db", "github.com/a/c", "HEAD", bytes(32))


WRITER = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[3:]
from knowing_protocol.records import Records
from knowingd.config import Home
from knowingd.node import Node
from knowingd.snapshot.snapshots import Told
from knowingd.store.repository import RepositorySession
from knowingd.store.rows import Changes
from support.generated import Size, generate
repo, records = generate(9, Size(5, 80, 300))
records.files = []
with Node(Home(Path(sys.argv[1]))) as node:
    for step in range(int(sys.argv[2]), 10**6):
        part = Records(edges=records.edges[:100])
        changes = Changes(0, part, Records()) if step % 2 else Changes(0, Records(), part)
        first = [Changes(0, records, Records())] if not node.repositories() or not node.store.size() else [changes]
        header = node.snapshot(repo, first, Told(f"{step:040}", "main", bytes(32)))
        print(header.index if header else -1, flush=True)
"""


def test_two_processes_at_once_lose_no_update(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "home"), str(start), str(root / "tests")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for start in (1001, 5001)
    ]
    time.sleep(2.5)
    told = []
    for writer in writers:
        writer.send_signal(signal.SIGKILL)
        out, errors = writer.communicate()
        assert "Traceback" not in errors, errors
        told += [int(line) for line in out.splitlines(keepends=True) if line.endswith("\n")]
    with Node(Home(tmp_path / "home")) as node:
        node.recover()
        assert node.fsck()["ok"]
        kept = {header.index for header in node.store.headers()}
    indices = [index for index in told if index >= 0]
    assert len(indices) == len(set(indices))
    assert set(indices) <= kept


def test_a_json_document_of_the_log_has_the_fields_of_the_contract(node: Node) -> None:
    repo, records = generate(10, Size(2, 10, 20))
    node.snapshot(repo, [Changes(0, records, Records())], TOLD)
    (one,) = json.loads(json.dumps(node.log(repo)))
    assert {"index", "snapshot", "ref", "commit", "generation", "parent", "nodes", "edges", "roots"} <= one.keys()
    assert {"edges", "inbound", "names", "nodes", "aliases", "members", "facts", "files", "coverage"} <= one[
        "roots"
    ].keys()
