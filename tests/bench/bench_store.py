"""Benchmarks of the store: writing, sizes on disk, incremental snapshots, diffs, lookups, checks, and layouts."""

from __future__ import annotations

import gc
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from bench_kernel import Row
from knowing_protocol.hashing import node_hash
from knowing_protocol.records import Edge, Records
from support.generated import Size, generate

from knowingd.config import Home
from knowingd.node import Node
from knowingd.snapshot.fsck import check_repository
from knowingd.snapshot.snapshots import Told
from knowingd.store.codes import EDGE_TYPES, PROVENANCES
from knowingd.store.interface import GraphSession
from knowingd.store.packing import pack_ids
from knowingd.store.repository import RepositorySession, RepositoryStore
from knowingd.store.rows import Changes

EDGES = 500_000
TOLD = Told("1" * 40, "main", bytes(32))
SEARCH = ("nodes_fts%",)
SITES = ("sites", "sites_by_source")


def timed(work: Callable[[], object]) -> float:
    gc.collect()
    gc.disable()
    start = time.perf_counter()
    work()
    gc.enable()
    return time.perf_counter() - start


def bare_rows(path: Path, rows: list[tuple[int, int, int, int]]) -> float:
    """The limit: rows of four integers, one transaction, no index."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("CREATE TABLE bare (a INTEGER, b INTEGER, c INTEGER, d INTEGER)")

    def work() -> None:
        connection.execute("BEGIN")
        many = "INSERT INTO bare VALUES " + ", ".join(["(?, ?, ?, ?)"] * 100)
        for start in range(0, len(rows), 100):
            connection.execute(many, [value for row in rows[start : start + 100] for value in row])
        connection.execute("COMMIT")

    found = timed(work)
    connection.close()
    return found


def sizes(path: Path) -> dict[str, int]:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    found = dict(connection.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name"))
    connection.close()
    return found


AGAIN = """
import json, sys, time
from pathlib import Path
sys.path[:0] = [sys.argv[3]]
from knowing_protocol.records import Edge, Records
from knowingd.config import Home
from knowingd.node import Node
from knowingd.snapshot.snapshots import Told
from knowingd.store.rows import Changes
changes = json.load(open(sys.argv[2]))
added, removed = ([Edge(bytes.fromhex(s), bytes.fromhex(t), k, p) for s, t, k, p in part] for part in changes)
with Node(Home(Path(sys.argv[1]))) as node:
    repo = node.repositories()[0]["repo"]
    start = time.perf_counter()
    node.snapshot(repo, [Changes(0, Records(edges=added), Records(edges=removed))], Told("2" * 40, "main", bytes(32)))
    print(time.perf_counter() - start)
"""


def changed_package(records: Records, count: int, share: int) -> tuple[list[Edge], list[Edge]]:
    """Edges to add and to remove: every `share`-th edge of `count` packages of usual size leads elsewhere."""
    random = Random(5)
    hashes = [node_hash(*node) for node in records.nodes]
    package_of = {key: node.package for key, node in zip(hashes, records.nodes, strict=True)}
    size = Counter(package_of[edge.source] for edge in records.edges)
    usual = len(records.edges) / len(size)
    packages = set(sorted(size, key=lambda one: (abs(size[one] - usual), one))[:count])
    removed = [edge for edge in records.edges if package_of[edge.source] in packages][::share]
    added = [edge._replace(target=random.choice(hashes)) for edge in removed]
    return [edge for edge in added if edge not in set(records.edges)], removed


def _first_load(records: Records, session: RepositorySession) -> None:
    load = session.first_load(Changes(0, records, Records()))
    assert load is not None
    load.write()


def store() -> list[Row]:
    repo, records = generate(1, Size(1000, 100_000, EDGES))
    hashes = {node_hash(*node): number for number, node in enumerate(records.nodes)}
    rows = [(hashes[edge.source], hashes[edge.target], 1, 2) for edge in records.edges]
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        bare = min(bare_rows(root / f"bare{turn}.db", rows) for turn in range(3))
        plain = RepositoryStore(root / "plain.db", repo, "HEAD", bytes(32))
        part = Records(nodes=records.nodes, edges=records.edges)
        write = timed(lambda: plain.write(partial(_first_load, part)))
        plain.close()
        with Node(Home(root / "home")) as node:
            full = timed(lambda: node.snapshot(repo, [Changes(0, records, Records())], TOLD))
            path = node.home.repository(node.find(repo).database)
        by_table = sizes(path)
        search = sum(size for name, size in by_table.items() if name.startswith("nodes_fts"))
        sites = sum(by_table.get(name, 0) for name in SITES)
        declared = sum(size for name, size in by_table.items() if name.startswith("declarations"))
        rest = sum(by_table.values()) - search - sites
        added, removed = changed_package(records, 1, 3)
        changes = root / "changes.json"
        plain_edges = [
            [(e.source.hex(), e.target.hex(), e.type, e.provenance) for e in one] for one in (added, removed)
        ]
        changes.write_text(json.dumps(plain_edges))
        command = [sys.executable, "-c", AGAIN, str(root / "home"), str(changes), str(Path(__file__).parents[1])]
        again = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        lookups, by_id = _lookups(root / "home", repo, records)
    places = sum(len(file.sites) for file in records.files)
    return [
        _row(
            "100,000 nodes and 500,000 edges written / 500,000 bare rows", write / bare, "at most 3.5", 3.5, most=True
        ),
        _row("bytes on disk an edge, besides call sites and search", rest / EDGES, "at most 64", 64, most=True),
        _row("of these, for definition sites and signatures", declared / EDGES, "", 0),
        _row("bytes on disk a call site", sites / places, "at most 12", 12, most=True),
        _row(
            f"full snapshot / {len(added) + len(removed)} edges of 1 of 1,000 packages changed, new process",
            full / again,
            "at least 50",
            50,
        ),
        _row("full snapshot with attributes, search and roots, µs an edge", full / EDGES * 1e6, "", 0),
        _row("callers by the hash of a symbol, lookups a second", lookups, "at least 100,000", 100_000),
        _row("callers by the id of a symbol, lookups a second", by_id, "", 0),
    ]


def _row(what: str, value: float, target: str, limit: float, *, most: bool = False) -> Row:
    text = f"{value:,.0f}" if value >= 1000 else f"{value:.1f}"
    return Row(what, text, target, value <= limit if most else value >= limit)


def _lookups(home: Path, repo: str, records: Records) -> tuple[float, float]:
    """Callers of symbols by hash, as a query asks: who calls it, and in which way that is known."""
    keys = [node_hash(*node) for node in Random(2).sample(records.nodes, 20_000)]
    with Node(Home(home)) as node, node.repository(node.find(repo)).read() as session:

        def work() -> None:
            for key in keys:
                session.edges_to_hash(key, 0)

        ids = [number for key in keys if (number := session.node_id(key)) is not None]

        def work_by_id() -> None:
            for number in ids:
                session.edges_to(number, 0)

        by_hash = len(keys) / min(timed(work) for _ in range(3))
        return by_hash, len(ids) / min(timed(work_by_id) for _ in range(3))


def diffs() -> list[Row]:
    repo, records = generate(2, Size(500, 50_000, 250_000))
    records.files = []
    with tempfile.TemporaryDirectory() as directory, Node(Home(Path(directory))) as node:
        node.snapshot(repo, [Changes(0, records, Records())], TOLD)
        added, removed = changed_package(records, 3, 3)
        changes = Changes(0, Records(edges=added), Records(edges=removed))
        node.snapshot(repo, [changes], TOLD._replace(commit="2" * 40))
        old = {tuple(edge) for edge in records.edges}
        new = (old | {tuple(edge) for edge in added}) - {tuple(edge) for edge in removed}
        every = min(timed(lambda: (new - old, old - new)) for _ in range(3))
        ours = min(timed(lambda: node.diff(repo)) for _ in range(5))
        found = node.diff(repo)
        assert len(found.edges_added) == len(set(added) - set(records.edges))
        with node.repository(node.find(repo)).read() as session:
            reading = timed(lambda: set(session.edges()))
            naming = timed(lambda: set(_named_edges(session)))
    return [
        _row(
            "reading all edges of two snapshots by their hashes and comparing / diff, 3 packages changed",
            (2 * naming + every) / ours,
            "at least 200",
            200,
        ),
        _row("the same, by ids that both snapshots share", (2 * reading + every) / ours, "", 0),
        _row("the same, if all edges were in memory already", every / ours, "", 0),
    ]


def _named_edges(session: GraphSession) -> Iterator[Edge]:
    """The edges as anybody must read them who compares two databases: ids mean nothing outside of one."""
    nodes = session.load_nodes(None)
    for source, edge_type, target, provenance in session.edges():
        yield Edge(nodes[source].hash, nodes[target].hash, EDGE_TYPES[edge_type], PROVENANCES[provenance])


def checks() -> list[Row]:
    repo, records = generate(3, Size(180, 7_100, 24_936))
    with tempfile.TemporaryDirectory() as directory, Node(Home(Path(directory))) as node:
        node.snapshot(repo, [Changes(0, records, Records())], TOLD)
        store = node.repository(node.find(repo))
        taken = min(timed(lambda: check_repository(store)) for _ in range(3))
        messages, hashing = _hashing_of(lambda: check_repository(store))
    return [
        _row(f"fsck of {len(set(records.nodes)):,} nodes and 24,936 edges, ms", taken * 1e3, "", 0),
        _row(f"the same / its {messages:,} bare SHA-256 calls", taken / hashing, "", 0),
    ]


def _hashing_of(work: Callable[[], object]) -> tuple[int, float]:
    """How many hashes something makes, and how long these take alone, at 100 bytes each."""
    import cProfile
    import pstats
    from hashlib import sha256

    profile = cProfile.Profile()
    profile.runcall(work)
    stats: Any = pstats.Stats(profile)
    count = sum(calls for (_, _, name), (_, calls, *_) in stats.stats.items() if "openssl_sha256" in name)
    data = bytes(100)

    def bare() -> None:
        for _ in range(count):
            sha256(data).digest()

    return count, min(timed(bare) for _ in range(3))


def layouts() -> list[Row]:
    """Ways to keep 500,000 edges with their way back, as rows of a decision record."""
    _, records = generate(1, Size(1000, 100_000, EDGES))
    keys = sorted({node_hash(*node) for node in records.nodes})
    ids = {key: number for number, key in enumerate(keys)}
    kinds = {"calls": 0, "references": 1, "imports": 2, "contains": 3, "extends": 4, "type_hint_of": 5}
    rows = sorted(
        (ids[e.source], kinds[e.type], ids[e.target], int(e.provenance == "ast_inferred")) for e in records.edges
    )
    found = []
    for name, load in (
        ("hashes as keys", _hash_keys),
        ("integer ids, an index for the way back", _indexed),
        ("integer ids, the way back packed by target", _packed),
        ("both ways packed", _both_packed),
    ):
        with tempfile.TemporaryDirectory() as directory:
            connection = sqlite3.connect(Path(directory) / "x.db", isolation_level=None)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")

            def work(connection: sqlite3.Connection = connection, load: Callable[..., None] = load) -> None:
                connection.execute("BEGIN")
                load(connection, rows, keys)
                connection.execute("COMMIT")

            seconds = timed(work)
            connection.close()
            size = sum(sizes(Path(directory) / "x.db").values())
        found.append(_row(f"{name}: seconds", seconds, "", 0))
        found.append(_row(f"{name}: bytes an edge", size / EDGES, "", 0))
    return found


_Rows = list[tuple[int, int, int, int]]


def _hash_keys(connection: sqlite3.Connection, rows: _Rows, keys: list[bytes]) -> None:
    columns = "source BLOB, type INTEGER, target BLOB, provenance INTEGER"
    connection.execute(f"CREATE TABLE edges ({columns}, PRIMARY KEY (source, type, target, provenance)) WITHOUT ROWID")
    connection.execute("CREATE INDEX back ON edges (target, type)")
    connection.executemany("INSERT INTO edges VALUES (?, ?, ?, ?)", ((keys[a], b, keys[c], d) for a, b, c, d in rows))


def _indexed(connection: sqlite3.Connection, rows: _Rows, _: list[bytes]) -> None:
    columns = "source INTEGER, type INTEGER, target INTEGER, provenance INTEGER"
    connection.execute(f"CREATE TABLE edges ({columns}, PRIMARY KEY (source, type, target, provenance)) WITHOUT ROWID")
    connection.executemany("INSERT INTO edges VALUES (?, ?, ?, ?)", rows)
    connection.execute("CREATE INDEX back ON edges (target, type, source, provenance)")


def _packed(connection: sqlite3.Connection, rows: _Rows, _: list[bytes]) -> None:
    columns = "source INTEGER, type INTEGER, target INTEGER, provenance INTEGER"
    connection.execute(f"CREATE TABLE edges ({columns}, PRIMARY KEY (source, type, target, provenance)) WITHOUT ROWID")
    connection.executemany("INSERT INTO edges VALUES (?, ?, ?, ?)", rows)
    _pack(connection, "inbound", ((c, b, a << 4 | d) for a, b, c, d in rows))


def _both_packed(connection: sqlite3.Connection, rows: _Rows, _: list[bytes]) -> None:
    _pack(connection, "outbound", ((a, b, c << 4 | d) for a, b, c, d in rows))
    _pack(connection, "inbound", ((c, b, a << 4 | d) for a, b, c, d in rows))


def _pack(connection: sqlite3.Connection, name: str, ends: Any) -> None:
    lists: dict[tuple[int, int], list[int]] = defaultdict(list)
    for one, kind, other in ends:
        lists[one, kind].append(other)
    connection.execute(
        f"CREATE TABLE {name} (one INTEGER, type INTEGER, others BLOB, PRIMARY KEY (one, type)) WITHOUT ROWID"
    )
    connection.executemany(
        f"INSERT INTO {name} VALUES (?, ?, ?)", ((*key, pack_ids(lists[key])) for key in sorted(lists))
    )


SECTIONS = {
    "Store, a repository of 100,000 symbols and 500,000 edges": store,
    "Differences, 250,000 edges": diffs,
    "Checks": checks,
    "Layouts of 500,000 edges and their way back": layouts,
}
