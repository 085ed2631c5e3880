"""What differs between snapshots, what is kept of them, and what comes back from a backup."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from knowing_protocol.graph import Graph
from knowing_protocol.hashing import NodeId, node_hash
from knowing_protocol.records import Alias, Edge, File, Records
from knowing_protocol.vocabulary import Coverage
from support.changes import difference, edited
from support.generated import Size, generate

from knowingd.config import Home
from knowingd.errors import KnowingError, NotFoundError, StoreError, UsageError
from knowingd.node import Node
from knowingd.snapshot.backup import restore_backup
from knowingd.snapshot.diff import EdgeChange
from knowingd.snapshot.snapshots import Told
from knowingd.store.rows import Changes

TOLD = Told("1" * 40, "main", bytes(32))


def commit(number: int) -> Told:
    return TOLD._replace(commit=f"{number:040x}")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with Node(Home(tmp_path / "home")) as found:
        yield found


def edges_of(records: Records) -> set[EdgeChange]:
    names = {node_hash(*one): one for one in records.nodes}
    return {
        EdgeChange(names[edge.source], names[edge.target], edge.type, edge.provenance) for edge in set(records.edges)
    }


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6))
def test_a_diff_is_the_difference_of_the_records(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    random = Random(seed)
    repo, records = generate(seed, Size(5, 40, 120))
    records.files = []
    states = [records]
    with Node(Home(tmp_path_factory.mktemp("home"))) as node:
        node.snapshot(repo, [Changes(0, records, Records())], commit(0))
        for step in range(1, 5):
            states.append(edited(states[-1], repo, random))
            node.snapshot(repo, [difference(states[-2], states[-1])], commit(step))
        for old in range(5):
            for new in range(5):
                found = node.diff(repo, str(old), str(new))
                a, b = states[old], states[new]
                assert set(found.edges_added) == edges_of(b) - edges_of(a)
                assert set(found.edges_removed) == edges_of(a) - edges_of(b)
                assert set(found.symbols_added) == {one for one in set(b.nodes) - set(a.nodes) if one.repo}
                assert set(found.symbols_removed) == {one for one in set(a.nodes) - set(b.nodes) if one.repo}
                assert set(found.files_added) == {one.path for one in b.files} - {one.path for one in a.files}
                touched = {one.source for one in (*found.edges_added, *found.edges_removed)}
                assert {one.package for one in touched} == set(found.packages)
                assert (found.change_class == "none") == (Graph(repo, a).root == Graph(repo, b).root)


@pytest.mark.parametrize(
    ("what", "expected"),
    [("call", "behavioral"), ("import", "structural"), ("alias", "structural"), ("file", "metadata_only")],
)
def test_a_change_has_the_class_of_the_gravest_part_of_it(node: Node, what: str, expected: str) -> None:
    repo, records = generate(1, Size(3, 20, 50))
    node.snapshot(repo, [Changes(0, records, Records())], commit(1))
    a, b = (node_hash(*one) for one in records.nodes[:2])
    added = {
        "call": Records(edges=[Edge(a, b, "throws", "ast_resolved")]),
        "import": Records(edges=[Edge(a, b, "overrides", "ast_resolved")]),
        "alias": Records(aliases=[Alias("python://own", a, claimed=True)]),
        "file": Records(files=[File("README.md", bytes(32))]),
    }[what]
    node.snapshot(repo, [Changes(0, added, Records())], commit(2))
    assert node.diff(repo).change_class == expected
    assert node.diff(repo, "1", "1").change_class == "none"


def test_what_only_the_overlay_says_is_runtime_drift(node: Node) -> None:
    repo, records = generate(2, Size(3, 20, 50))
    node.snapshot(repo, [Changes(0, records, Records())], commit(1))
    nodes = records.nodes[:2]
    edge = Edge(node_hash(*nodes[0]), node_hash(*nodes[1]), "runtime_calls", "otel_trace_10")
    node.snapshot(repo, [Changes(1, Records(nodes=list(nodes), edges=[edge]), Records())], commit(1))
    assert node.diff(repo).change_class == "runtime_drift"
    assert node.fsck()["ok"]


def test_gc_keeps_roots_and_history_and_forgets_what_older_snapshots_changed(node: Node) -> None:
    random = Random(3)
    repo, records = generate(3, Size(5, 60, 200))
    records.files = []
    node.snapshot(repo, [Changes(0, records, Records())], commit(0))
    for step in range(1, 6):
        new = edited(records, repo, random)
        node.snapshot(repo, [difference(records, new)], commit(step))
        records = new
    before = node.log(repo)
    (report,) = node.gc(2)
    assert report["snapshots"] == 4
    assert report["events"] > 0
    assert node.log(repo) == before
    assert node.fsck()["ok"]
    assert node.diff(repo, "4", "5").change_class != "none"
    with pytest.raises(NotFoundError, match="pruned"):
        node.diff(repo, "3", "5")
    again = edited(records, repo, random)
    header = node.snapshot(repo, [difference(records, again)], commit(9))
    assert header is not None
    assert header.source == Graph(repo, again).root
    assert node.gc(2)[0]["snapshots"] == 1


def test_gc_gives_the_space_of_what_it_forgets_back_to_the_disk(node: Node) -> None:
    repo, records = generate(14, Size(10, 200, 3000))
    records.files = []
    edges = records.edges
    node.snapshot(repo, [Changes(0, records, Records())], commit(0))
    for step in range(1, 7):
        part = Records(edges=edges[:2500])
        change = Changes(0, Records(), part) if step % 2 else Changes(0, part, Records())
        node.snapshot(repo, [change], commit(step))
    store = node.repository(node.find(repo))

    def pages() -> int:
        with store.database.read() as connection:
            found: int = connection.execute("PRAGMA page_count").fetchone()[0]
        return found

    before = pages()
    freed = node.gc(1)[0]["pages"]
    assert freed > 50
    assert pages() < before - freed // 2


def test_gc_takes_symbols_that_are_long_gone_and_not_those_that_left_just_now(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo, records = generate(4, Size(3, 20, 50))
    without = Records(nodes=records.nodes[:3])
    node.snapshot(repo, [Changes(0, replace(records, files=[]), Records())], commit(1))
    node.snapshot(repo, [difference(replace(records, files=[]), without)], commit(2))
    assert node.gc(1)[0]["nodes"] == 0
    monkeypatch.setattr("knowingd.node.DELETED_FOR", -10)
    assert node.gc(1)[0]["nodes"] == len(set(records.nodes)) - 3
    assert node.fsck()["ok"]
    header = node.snapshot(repo, [difference(without, records)], commit(3))
    assert header is not None
    assert header.source == Graph(repo, records).root


def test_a_removed_repository_leaves_the_roster_and_comes_back_with_a_new_entry(node: Node) -> None:
    repo, records = generate(5, Size(3, 20, 50))
    node.snapshot(repo, [Changes(0, records, Records())], commit(1))
    node.remove(repo)
    assert node.repositories() == []
    assert node.store.headers()[-1].source is None
    assert node.check_log() == []
    header = node.snapshot(repo, [], commit(1))
    assert header is not None
    assert (header.index, header.generation, header.source) == (2, 2, Graph(repo, records).root)
    node.remove(repo, purge=True)
    assert not list((node.home.path / "repos").glob("*"))
    header = node.snapshot(repo, [Changes(0, records, Records())], commit(1))
    assert header is not None
    assert header.source == Graph(repo, records).root
    assert node.fsck()["ok"]


# Backup and restore


def test_a_restored_node_signs_nothing_until_a_new_epoch_begins(node: Node, tmp_path: Path) -> None:
    repo, records = generate(6, Size(3, 20, 50))
    node.snapshot(repo, [Changes(0, records, Records())], commit(1))
    node.backup(tmp_path / "b.tar", with_key=True)
    node.snapshot(repo, [], commit(2))  # signed after the backup: the restored node does not know of it
    restore_backup(tmp_path / "b.tar", Home(tmp_path / "other"))
    with Node(Home(tmp_path / "other")) as back:
        assert back.keys.origin == node.keys.origin
        assert [one["commit"] for one in back.log(repo)] == [commit(1).commit]
        with pytest.raises(StoreError, match="signs nothing"):
            back.snapshot(repo, [], commit(3))
        assert back.store.size() == 1
        assert back.fsck()["ok"]
        assert back.begin_epoch() == 1
        assert back.store.held() == ""
        (entry,) = back.store.headers()
        # The snapshot that was waiting to be signed is the one that the new epoch begins with.
        assert (entry.index, entry.source) == (0, Graph(repo, records).root)
        header = back.snapshot(repo, [], commit(4))
        assert header is not None
        assert back.fsck()["ok"]


def test_a_backup_without_the_key_comes_back_read_only(node: Node, tmp_path: Path) -> None:
    repo, records = generate(7, Size(3, 20, 50))
    node.snapshot(repo, [Changes(0, records, Records())], commit(1))
    node.backup(tmp_path / "b.tar")
    with tarfile.open(tmp_path / "b.tar") as archive:
        assert not any("keys" in name for name in archive.getnames())
    restore_backup(tmp_path / "b.tar", Home(tmp_path / "other"))
    with Node(Home(tmp_path / "other")) as back:
        assert back.keys.origin != node.keys.origin
        (one,) = back.repositories()
        assert not one["local"]
        assert back.fsck()["ok"]
        other, more = generate(8, Size(2, 10, 20))
        assert back.snapshot(other, [Changes(0, more, Records())], commit(1)) is not None


def test_a_backup_file_is_readable_by_its_owner_alone_and_is_never_overwritten(node: Node, tmp_path: Path) -> None:
    node.backup(tmp_path / "b.tar", with_key=True)
    assert (tmp_path / "b.tar").stat().st_mode & 0o077 == 0
    with pytest.raises(UsageError, match="is there already"):
        node.backup(tmp_path / "b.tar")
    with pytest.raises(UsageError, match="already holds a node"):
        restore_backup(tmp_path / "b.tar", node.home)


@pytest.mark.parametrize("defect", ["truncated", "not a tar", "missing", "climbs out", "link", "foreign file"])
def test_a_backup_that_is(defect: str, node: Node, tmp_path: Path) -> None:
    repo, records = generate(9, Size(3, 20, 50))
    node.snapshot(repo, [Changes(0, records, Records())], commit(1))
    good, bad = tmp_path / "good.tar", tmp_path / "bad.tar"
    node.backup(good)
    shutil.copy(good, bad)
    if defect == "truncated":
        os.truncate(bad, good.stat().st_size // 2)
    elif defect == "not a tar":
        bad.write_bytes(b"SQLite format 3\0" * 100)
    elif defect == "missing":
        bad.unlink()
    else:
        with tarfile.open(bad, "a") as archive:
            entry = tarfile.TarInfo({"climbs out": "repos/../../x.db", "link": "repos/x.db"}.get(defect, "evil.sh"))
            if defect == "link":
                entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(entry)
    with pytest.raises(StoreError, match="backup"):
        restore_backup(bad, Home(tmp_path / "other"))
    assert not (tmp_path / "other" / "node.db").exists()
    assert not list((tmp_path / "other").glob("**/*.db"))


# Keys


def test_a_rotated_key_signs_from_then_on_and_the_log_still_verifies(node: Node) -> None:
    repo, records = generate(10, Size(3, 20, 50))
    node.snapshot(repo, [Changes(0, records, Records())], commit(1))
    first = node.key_chain.current
    second = node.rotate_key()
    assert node.key_chain.keys == (first, second)
    node.snapshot(repo, [], commit(2))
    assert node.check_log() == []
    assert node.keys.origin == Node(node.home).keys.origin
    node.revoke_key(first.hex()[:12], None)
    node.snapshot(repo, [], commit(3))
    assert node.check_log() == []
    with pytest.raises(UsageError, match="cannot be revoked"):
        node.revoke_key(second.hex(), None)
    with pytest.raises(NotFoundError):
        node.revoke_key("00" * 32, None)


def test_a_key_revoked_from_an_earlier_size_on_makes_later_checkpoints_of_it_invalid(node: Node) -> None:
    repo, records = generate(11, Size(3, 20, 50))
    node.snapshot(repo, [Changes(0, records, Records())], commit(1))
    node.snapshot(repo, [], commit(2))
    first = node.key_chain.current
    node.rotate_key()
    node.revoke_key(first.hex(), 1)
    assert any("size 2" in text for text in node.check_log())


def test_a_key_file_that_others_can_read_is_refused(node: Node) -> None:
    (file,) = node.home.key.glob("*.seed")
    assert file.stat().st_mode & 0o077 == 0
    file.chmod(0o644)
    with pytest.raises(KnowingError, match="can be read by others"):
        Node(node.home)


def test_an_imported_key_is_the_identity_of_a_node_that_signed_nothing(node: Node, tmp_path: Path) -> None:
    (file,) = node.home.key.glob("*.seed")
    with Node(Home(tmp_path / "fresh")) as fresh:
        fresh.import_key(file)
        assert fresh.keys.origin == node.keys.origin
    repo, records = generate(12, Size(2, 10, 20))
    with Node(Home(tmp_path / "used")) as used:
        used.snapshot(repo, [Changes(0, records, Records())], commit(1))
        with pytest.raises(UsageError, match="none of them"):
            used.import_key(file)


def test_an_alias_whose_claim_changes_and_a_file_that_changes_are_seen_in_the_diff(node: Node) -> None:
    repo, records = generate(13, Size(3, 20, 50))
    node.snapshot(repo, [Changes(0, records, Records())], commit(1))
    file, alias = records.files[0], records.aliases[0]
    changed = Records(
        files=[File(file.path, b"\1" * 32)],
        aliases=[alias._replace(claimed=False)],
        coverage={"docs/logo.png": Coverage.IGNORED},
    )
    node.snapshot(repo, [Changes(0, changed, Records())], commit(2))
    found = node.diff(repo)
    assert found.files_changed == [file.path]
    assert found.names_changed == 1
    assert found.coverage_changed == ["docs/logo.png"]
    assert node.fsck()["ok"]


def test_searching_finds_symbols_by_their_words_and_never_raises(node: Node) -> None:
    from knowingd.store import search

    repo = "github.com/acme/shop"
    names = ["HTTPConnectionPool", "parse_user_token", "Cart.addItem"]
    nodes = [NodeId(repo, "src/net/pool", name, "type") for name in names]
    node.snapshot(repo, [Changes(0, Records(nodes=nodes), Records())], commit(1))
    store = node.repository(node.find(repo))

    def found(text: str) -> list[str]:
        with store.read() as session:
            return [session.node(hit.node).node.name for hit in search.find(session, text, 10)]

    assert found("connection") == ["HTTPConnectionPool"]
    assert found("HTTPConnectionPool")[0] == "HTTPConnectionPool"
    assert found("user token")[0] == "parse_user_token"
    assert found("add") == ["Cart.addItem"]
    for text in ('"', "*", "NEAR(", "a AND", "col:x", "^", "\0", "'; DROP TABLE nodes; --", "é" * 5000, "", "-x"):
        found(text)
    node.snapshot(repo, [Changes(0, Records(), Records(nodes=nodes[:1]))], commit(2))
    assert found("connection") == []
