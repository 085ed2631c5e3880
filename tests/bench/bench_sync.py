"""Benchmarks of what travels between nodes: deltas and descents against their floors and rivals, and first transfers.

The account. *Identification* is everything that tells what differs: in a delta, the branches' names and the places of
edges that go; in a descent, all questions and answers. *Records* are the packs. The floor of identification is nothing
for an edge whose record is sent, and the entropy of the removed set among the branch's edges. What everything together
is held to is what changed, through zstd: in the columns in which it is sent, and as MessagePack rows with whole hashes.
All sizes are of bodies as they are sent.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from hashlib import sha256
from math import comb, log2
from pathlib import Path
from random import Random
from typing import Any

import msgpack
import zstandard
from bench_kernel import Row
from knowing_protocol.hashing import NodeId, node_hash
from knowing_protocol.records import Edge, Records

from knowingd.config import Home
from knowingd.node import Node
from knowingd.snapshot.snapshots import Told
from knowingd.store.interface import GraphSession, GraphStore
from knowingd.store.repository import RepositoryStore
from knowingd.store.rows import Changes
from knowingd.sync.chunks import pieces, read_piece
from knowingd.sync.delta import make_delta, read_delta
from knowingd.sync.descent import Answering, Descent
from knowingd.sync.replica import Entry, commit, descent_changes, nothing_elsewhere, unpack_all
from knowingd.sync.spaces import Side
from knowingd.sync.wire import MEDIA_TYPE, decode, encode

REPO = "github.com/bench/branch"
TOLD = Told("1" * 40, "main", bytes(32))


def branch(size: int, seed: int = 1) -> tuple[Records, list[bytes]]:
    """One package whose functions call each other so many times."""
    random = Random(seed)
    nodes = [NodeId(REPO, "pkg", f"function_{number}", "function") for number in range(size // 4)]
    hashes = [node_hash(*node) for node in nodes]
    edges: set[Edge] = set()
    while len(edges) < size:
        edges.add(Edge(random.choice(hashes), random.choice(hashes), "calls", "ast_resolved"))
    return Records(nodes=nodes, edges=sorted(edges)), hashes


def changed(records: Records, hashes: list[bytes], count: int, seed: int) -> Changes:
    """Half of the changes remove an edge, half add one; one change adds one."""
    random = Random(seed)
    removed = random.sample(records.edges, count // 2)
    known = set(records.edges)
    added: set[Edge] = set()
    while len(added) < count - count // 2:
        edge = Edge(random.choice(hashes), random.choice(hashes), "calls", "ast_resolved")
        if edge not in known:
            added.add(edge)
    return Changes(0, Records(edges=sorted(added)), Records(edges=removed))


class Pair:
    """An origin and a replica of one repository."""

    def __init__(self, path: Path, records: Records, repo: str = REPO) -> None:
        self.node = Node(Home(path / "home"))
        self.repo = repo
        self.count = 0
        self.snapshot(Changes(0, records, Records()))
        self.replica = RepositoryStore(path / "replica.db", repo, "HEAD", self.node.keys.origin)

    def snapshot(self, change: Changes) -> None:
        self.count += 1
        header = self.node.snapshot(self.repo, [change], TOLD._replace(commit=f"{self.count:040x}"))
        assert header is not None
        self.entry = Entry(self.node.keys.origin, self.node.store.epoch, header)

    @property
    def store(self) -> GraphStore:
        return self.node.repository(self.node.find(self.repo))

    def first(self) -> tuple[int, int]:
        """A first transfer: bytes and pieces."""
        packs: list[list[Any]] = [[], []]
        size = 0
        with self.store.read() as session:
            side = Side(session)
            todo = pieces(side)
            for piece in todo:
                body, media_type = encode(read_piece(side, piece))
                size += len(body)
                packs[piece.space.layer].append(decode(body, media_type))

        def make(session: GraphSession) -> list[Changes]:
            found = []
            for layer in (0, 1):
                records, edges = unpack_all(session.repo, layer, packs[layer], nothing_elsewhere)
                found.append(Changes(layer, records, Records(), edges))
            return found

        commit(self.replica, self.entry, make, 1)
        return size, len(todo)

    def delta(self) -> list[Any]:
        with self.replica.read() as session:
            last = session.last_snapshot()
        assert last is not None
        with self.store.read() as session:
            rows = {row.log_index: row.sequence for row in session.snapshots()}
            return make_delta(session, rows[last.log_index], max(rows.values()))

    def apply_delta(self, delta: Any) -> None:
        commit(self.replica, self.entry, lambda session: read_delta(session, delta), 2)

    def descend(self) -> tuple[int, int, int]:
        """Round trips, bytes of identification, bytes of records; the replica has the new state afterwards."""
        nonce = bytes(16)
        trips, identification, sent = 1, 0, 0
        with self.store.read() as theirs, self.replica.read() as mine:
            top = Answering(Side(theirs, nonce)).top()
            identification += len(encode([nonce, top])[0])
            descent = Descent(Side(mine, nonce), top)
            while asks := descent.next():
                answered = Answering(Side(theirs, nonce)).answer(asks)
                identification += len(encode([ask.plain() for ask in asks])[0]) + len(encode(answered.answers)[0])
                sent += len(encode(answered.packs)[0])
                descent.take(decode(*_plain(answered.answers)), decode(*_plain(answered.packs)))
                trips += 1
        found = descent.found()
        commit(self.replica, self.entry, lambda session: descent_changes(session, found), 3)
        return trips, identification, sent


def _plain(value: Any) -> tuple[bytes, str]:
    return msgpack.packb(value), MEDIA_TYPE


def floor(edges: int, removed: int) -> float:
    """The entropy of the removed set, in bytes."""
    return log2(comb(edges, removed)) / 8


def rows_of(change: Changes) -> int:
    """What changed, as rows with whole hashes, compressed."""
    rows = [[edge.source, edge.target, edge.type, edge.provenance] for edge in change.added.edges]
    rows += [[edge.hash] for edge in change.removed.edges]
    return len(zstandard.ZstdCompressor(level=3).compress(msgpack.packb(rows)))


def negentropy(
    mine: set[bytes], theirs: set[bytes], buckets: int = 16, width: int = 16, few: int = 32
) -> tuple[int, int]:
    """Round trips and bytes of range-based reconciliation as negentropy does it: sorted ids, 16 buckets a range."""
    total = trips = 0
    ranges = [(sorted(mine), sorted(theirs))]
    while ranges:
        trips += 1
        following: list[tuple[list[bytes], list[bytes]]] = []
        for ours, other in ranges:
            if len(ours) <= few or len(other) <= few:
                total += 3 + 32 * len(ours) + 3 + 32 * len(set(other) - set(ours))
                continue
            step = -(-len(ours) // buckets)
            for start in range(0, len(ours), step):
                part = ours[start : start + step]
                low, after = part[0], ours[start + step] if start + step < len(ours) else b"\xff" * 33
                low = low if start else b""
                total += width + 4  # a fingerprint and the bound of its range
                share = [one for one in other if low <= one < after]
                if set(share) != set(part):
                    following.append((part, share))
        ranges = following
    return trips, total


def known_and_unknown() -> Iterator[Row]:
    records, hashes = branch(50_000)
    for count in (1, 10, 1000):
        with tempfile.TemporaryDirectory() as name:
            path = Path(name)
            pair = Pair(path, records)
            pair.first()
            change = changed(records, hashes, count, count)
            pair.snapshot(change)
            delta = pair.delta()
            total = len(encode(delta)[0])
            withdrawn = delta[0][1]
            identification = len(msgpack.packb(withdrawn[2]))
            limit = floor(50_000, count // 2)
            rival = rows_of(change)
            changes = f"{count:,} change{'s' * (count > 1)}"
            if count == 1000:
                ratio = identification / limit
                yield Row(f"known base, {changes}: identification / floor ({identification:,} B, {limit:,.0f} B)",
                          f"{ratio:.2f}", "at most 1.10", ratio <= 1.10)  # fmt: skip
                records_alone = len(encode(delta[0][0])[0])
                ratio = total / records_alone
                yield Row(
                    f"known base, {changes}: all / its records in columns, zstd ({total:,} B, {records_alone:,} B)",
                    f"{ratio:.2f}",
                    "at most 1.25",
                    ratio <= 1.25,
                )
                ratio = total / rival
                yield Row(f"the same / rows with whole hashes, zstd ({rival:,} B)",
                          f"{ratio:.2f}", "at most 1.25", ratio <= 1.25)  # fmt: skip
            else:
                yield Row(f"known base, {changes}: bytes, 1 round trip (floor of identification {limit:,.0f} B)",
                          f"{total:,}", "", met=True)  # fmt: skip
            trips, found, sent = pair.descend()
            asked = count == 1
            yield Row(f"unknown base, {changes}: bytes of identification (records besides: {sent:,})",
                      f"{found:,}", "at most 1,024" if asked else "", found <= 1024 or not asked)  # fmt: skip
            yield Row(f"unknown base, {changes}: round trips", str(trips), "at most 3" if asked else "",
                      trips <= 3 or not asked)  # fmt: skip
            before = {sha256(edge.hash).digest() for edge in records.edges}
            after = before - {sha256(one.hash).digest() for one in change.removed.edges}
            after |= {sha256(one.hash).digest() for one in change.added.edges}
            trips, cost = negentropy(before, after)
            yield Row(f"the same by negentropy's algorithm: bytes ({trips} round trips)", f"{cost:,}", "", met=True)
            pair.node.close()
            pair.replica.close()
    yield Row("the same by a flat list of hashes: bytes", f"{50_000 * 32:,}", "", met=True)


def large_branch() -> Iterator[Row]:
    records, hashes = branch(500_000)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        start = time.perf_counter()
        pair = Pair(path, records)
        written = time.perf_counter() - start
        start = time.perf_counter()
        size, count = pair.first()
        fetched = time.perf_counter() - start
        speed = written / fetched
        yield Row(f"first transfer of 500,000 edges ({size:,} B, {count} pieces), speed / writing them here",
                  f"{speed:.2f}", "at least 0.40", speed >= 0.40)  # fmt: skip
        pair.snapshot(changed(records, hashes, 1, 5))
        trips, found, _ = pair.descend()
        yield Row("unknown base, 1 change of 500,000 edges: bytes of identification", f"{found:,}", "at most 1,536",
                  found <= 1536)  # fmt: skip
        yield Row("unknown base, 1 change of 500,000 edges: round trips", str(trips), "at most 4", trips <= 4)
        pair.node.close()
        pair.replica.close()


SECTIONS = {
    "Sync, a branch of 50,000 edges": known_and_unknown,
    "Sync, a branch of 500,000 edges": large_branch,
}
