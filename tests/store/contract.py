"""What any implementation of `GraphStore` must do. A test module subclasses this and says how to open a store."""

from __future__ import annotations

import threading
from pathlib import Path
from random import Random

import pytest
from knowing_protocol.graph import Graph
from knowing_protocol.hashing import node_hash
from knowing_protocol.records import Records
from support.changes import difference, edited
from support.generated import Size, generate

from knowingd.snapshot import cachekeys
from knowingd.snapshot.maps import Maps
from knowingd.store.codes import EDGE_TYPE_CODES
from knowingd.store.interface import GraphSession, GraphStore
from knowingd.store.records import read_records
from knowingd.store.rows import Changes, SnapshotRow

REPO = "github.com/generated/contract"


def snapshot(sequence: int, log_index: int | None = None) -> SnapshotRow:
    row = SnapshotRow(sequence, log_index, 0, "c", "b", 0, bytes(32), bytes(32), 0, 0, "{}", b"", "", 1, "{}", 0)
    return row._replace(extractor=bytes(32))


class GraphStoreContract:
    """The laws; `open_store` opens the same store again for the same directory."""

    def open_store(self, directory: Path) -> GraphStore:
        raise NotImplementedError

    def write(self, store: GraphStore, sequence: int, *changes: Changes) -> list[bytes]:
        def job(session: GraphSession) -> list[bytes]:
            session.add_snapshot(snapshot(sequence, sequence))
            touched = session.apply(changes, 1, sequence, with_events=sequence > 1)
            roots = []
            for layer in (0, 1):
                made = Maps(session, layer).update(touched[layer], sequence=sequence, with_events=sequence > 1)
                roots.append(made["edges"])
            cachekeys.forget_stale(session)
            return roots

        return store.write(job)

    def test_records_come_back_as_they_went_in(self, tmp_path: Path) -> None:
        _, records = generate(1, Size(6, 60, 200), REPO)
        store = self.open_store(tmp_path)
        self.write(store, 1, Changes(0, records, Records()))
        store.close()
        store = self.open_store(tmp_path)
        with store.read() as session:
            back = read_records(session, 0)
            assert session.count(0) == (len(set(records.nodes)), len(set(records.edges)))
        assert Graph(REPO, back).root == Graph(REPO, records).root
        store.close()

    def test_edges_to_a_target_are_the_edges_from_all_sources(self, tmp_path: Path) -> None:
        random = Random(2)
        _, records = generate(2, Size(6, 60, 400), REPO)
        records.files = []
        store = self.open_store(tmp_path)
        self.write(store, 1, Changes(0, records, Records()))
        for sequence in range(2, 6):
            new = edited(records, REPO, random)
            self.write(store, sequence, difference(records, new))
            records = new
        with store.read() as session:
            every = set(session.edges())
            ids = session.node_ids(0)
            assert {edge for one in ids for edge in session.edges_from(one)} == every
            found = {edge for one in ids for code in EDGE_TYPE_CODES.values() for edge in session.edges_to(one, code)}
            assert found == every
            by_hash = {
                edge
                for one in ids
                for code in EDGE_TYPE_CODES.values()
                for edge in session.edges_to_hash(session.node(one).hash, code)
            }
            assert by_hash == every
        store.close()

    def test_a_node_is_found_by_its_hash_and_not_when_it_is_gone(self, tmp_path: Path) -> None:
        _, records = generate(3, Size(3, 20, 30), REPO)
        store = self.open_store(tmp_path)
        self.write(store, 1, Changes(0, Records(nodes=records.nodes), Records()))
        self.write(store, 2, Changes(0, Records(), Records(nodes=records.nodes[:1])))
        with store.read() as session:
            gone, kept = (node_hash(*one) for one in records.nodes[:2])
            assert session.node_id(gone) is None
            assert session.node_id(gone, deleted=True) is not None
            kept_id = session.node_id(kept)
            assert kept_id is not None
            assert session.node(kept_id).node == records.nodes[1]
            assert session.node_id(bytes(32)) is None
        store.close()

    def test_a_write_that_raises_leaves_nothing_behind(self, tmp_path: Path) -> None:
        _, records = generate(4, Size(3, 20, 30), REPO)
        store = self.open_store(tmp_path)

        def job(session: GraphSession) -> None:
            session.apply([Changes(0, records, Records())], 1, 1, with_events=False)
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            store.write(job)
        with store.read() as session:
            assert session.count(0) == (0, 0)
        self.write(store, 1, Changes(0, records, Records()))
        store.close()

    def test_a_reader_sees_one_state_while_a_writer_commits(self, tmp_path: Path) -> None:
        _, records = generate(5, Size(3, 20, 30), REPO)
        store = self.open_store(tmp_path)
        with store.read() as session:
            assert session.count(0) == (0, 0)
            writer = threading.Thread(target=self.write, args=(store, 1, Changes(0, records, Records())))
            writer.start()
            writer.join()
            assert session.count(0) == (0, 0)
        with store.read() as session:
            assert session.count(0)[0] == len(set(records.nodes))
        store.close()

    def test_writes_from_many_threads_happen_one_after_the_other(self, tmp_path: Path) -> None:
        store = self.open_store(tmp_path)

        def count_up(session: GraphSession) -> None:
            session.put_note("count", str(int(session.note("count") or 0) + 1), 1)

        threads = [threading.Thread(target=lambda: [store.write(count_up) for _ in range(20)]) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with store.read() as session:
            assert session.note("count") == "100"
        store.close()

    def test_events_undo_a_snapshot(self, tmp_path: Path) -> None:
        random = Random(6)
        _, records = generate(6, Size(4, 40, 100), REPO)
        records.files = []
        new = edited(records, REPO, random)
        store = self.open_store(tmp_path)
        self.write(store, 1, Changes(0, records, Records()))
        self.write(store, 2, difference(records, new))
        with store.read() as session:
            came = {tuple(row) for added, *row in session.edge_events(1, 2) if added}
            went = {tuple(row) for added, *row in session.edge_events(1, 2) if not added}
            before = set(session.edges()) - came | went
            assert len(before) == len(set(records.edges))
            assert {event.kind for event in session.events(1, 2)} >= {"node", "alias"}
            assert not list(session.edge_events(0, 1))
        store.close()

    def test_only_one_snapshot_is_pending_and_it_is_finished_once(self, tmp_path: Path) -> None:
        store = self.open_store(tmp_path)
        store.write(lambda session: session.add_snapshot(snapshot(1)))
        with store.read() as session:
            pending = session.pending_snapshot()
            assert pending is not None
            assert session.last_snapshot(finished=True) is None
        store.write(lambda session: session.finish_snapshot(1, 0, 7))
        with store.read() as session:
            assert session.pending_snapshot() is None
            last = session.last_snapshot(finished=True)
            assert last is not None
            assert last.log_index == 7
        store.close()

    def test_a_copy_is_whole(self, tmp_path: Path) -> None:
        _, records = generate(7, Size(3, 20, 30), REPO)
        (tmp_path / "a").mkdir()
        store = self.open_store(tmp_path / "a")
        self.write(store, 1, Changes(0, records, Records()))
        (tmp_path / "b").mkdir()
        target = tmp_path / "b" / next(path.name for path in (tmp_path / "a").iterdir() if path.suffix == ".db")
        store.backup_to(target)
        copy = self.open_store(tmp_path / "b")
        with store.read() as one, copy.read() as other:
            assert Graph(REPO, read_records(one, 0)).root == Graph(REPO, read_records(other, 0)).root
        store.close()
        copy.close()

    def test_an_answer_is_dropped_exactly_when_one_of_its_packages_changes(self, tmp_path: Path) -> None:
        _, records = generate(8, Size(5, 60, 200), REPO)
        records.files = []
        local = {node_hash(*one): one.package for one in records.nodes}
        packages = sorted({local[edge.source] for edge in records.edges})
        store = self.open_store(tmp_path)
        self.write(store, 1, Changes(0, records, Records()))

        def ask(session: GraphSession) -> None:
            for number, package in enumerate(packages):
                cachekeys.remember(session, package, [package], number, 1)
            cachekeys.remember(session, "pair", packages[:2], "both", 1)

        store.write(ask)
        gone = next(edge for edge in records.edges if local[edge.source] == packages[1])
        self.write(store, 2, Changes(0, Records(), Records(edges=[gone])))
        with store.read() as session:
            kept = {question: cachekeys.recall(session, question) for question in (*packages, "pair")}
            assert [one for one, answer in kept.items() if answer is None] == [packages[1], "pair"]
            assert session.note(cachekeys.PREFIX + "pair") is None
            assert kept[packages[0]] == 0
        store.close()
