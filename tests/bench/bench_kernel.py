"""Benchmarks of the kernel: each row a ratio to a limit or a rival that was measured in the same run."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from hashlib import sha256
from random import Random
from typing import Any, NamedTuple

import positive
from knowing_protocol import critbit, ed25519
from knowing_protocol.claims import Question
from knowing_protocol.critbit import MerkleMap
from knowing_protocol.graph import Level
from knowing_protocol.hashing import NodeId, external, node_hash
from knowing_protocol.mapproof import ProvenMap, prove_map
from knowing_protocol.prover import make_bundle
from knowing_protocol.records import Edge, Records
from knowing_protocol.trust import parse_trust
from knowing_protocol.verify import verify_bundle
from support.generated import Size, generate
from world import Node

from knowingd import keys

KEYS = 100_000


class Row(NamedTuple):
    """One measured number beside what it is held to."""

    what: str
    measured: str
    target: str
    met: bool


def best(work: Callable[[], object], times: int = 5) -> float:
    """The shortest of a few runs: noise only ever adds."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def content(count: int) -> dict[bytes, bytes]:
    random = Random(7)
    return {random.randbytes(32): random.randbytes(32) for _ in range(count)}


def messages_of(level: int, items: dict[bytes, bytes]) -> list[bytes]:
    """What the nodes of a map hash, so that the bare hashing of exactly these bytes can be timed."""
    found = [bytes((0, level)) + key + value for key, value in items.items()]
    stack = [critbit.build(level, items)]
    while stack:
        node = stack.pop()
        assert node is not None
        if len(node) == 4:
            found.append(bytes((1, level, node[1])) + node[2][0] + node[3][0])
            stack += [node[2], node[3]]
    return found


def bare(messages: list[bytes]) -> None:
    for message in messages:
        sha256(message).digest()


def maps() -> list[Row]:
    items = content(KEYS)
    level = Level.NODES
    messages = messages_of(level, items)
    limits, builds = [], []
    for _ in range(10):  # limit and subject in turns, so that a slow moment hits both
        limits.append(best(lambda: bare(messages), 2))
        builds.append(best(lambda: MerkleMap.of(level, items), 2))
    rebuild = min(builds)
    ratio = rebuild / min(limits)
    tree = MerkleMap.of(level, items)
    random = Random(8)
    fresh = [random.randbytes(32) for _ in range(2000)]
    update = best(lambda: [tree.set(key, key) for key in fresh]) / len(fresh)
    faster = rebuild / update
    asked = [*random.sample(list(items), 1000), *fresh[:1000]]
    proving = best(lambda: [prove_map(tree, (key,)) for key in asked]) / len(asked)
    proofs = [(key, prove_map(tree, (key,))) for key in asked]
    root = tree.root
    checking = best(lambda: [ProvenMap(proof, level, root, "nodes").get(key) for key, proof in proofs]) / len(proofs)
    size = sum(len(proof) for _, proof in proofs) / len(proofs)
    return [
        Row("map of 100,000 keys, built / its bare SHA-256 calls", f"{ratio:.2f}", "at most 1.8", ratio <= 1.8),
        Row("rebuild / one update, 100,000 keys", f"{faster:,.0f}", "at least 2,000", faster >= 2000),
        Row(f"one proof made, µs ({size:.0f} bytes)", f"{proving * 1e6:.0f}", "at most 50", proving <= 50e-6),
        Row("one proof checked, µs", f"{checking * 1e6:.0f}", "at most 50", checking <= 50e-6),
    ]


def bundles() -> list[Row]:
    """Sizes and times of bundles over a repository of 50,000 edges among others in the log."""
    node = Node("hub")
    repo, records = generate(1, Size(700, 12_000, 50_000))
    _settle(repo, records)
    for seed in range(2, 34):
        node.commit(*generate(seed, Size(3, 20, 40)), "0" * 40)
    header = node.commit(repo, records, "1" * 40)
    graph = node.graphs[header.index][0]
    edge = next(edge for edge in records.edges if edge.type == "calls" and graph._id(edge.target).repo)
    source, target = graph._id(edge.source), graph._id(edge.target)
    subject = node.subject(header.index)
    relation = make_bundle(Question("relation", target, ("calls",), source), [subject])
    # A name from outside whose names set has about ten members.
    outside = external("python://elsewhere.make_cart_1")
    absent = make_bundle(Question("callers", outside, ("calls",)), [subject])
    members = sum(len(row[2]) for row in absent["graphs"][0].get("names", []))
    ten_members = make_bundle(Question("callers", external("python://elsewhere.settle"), ("calls",)), [subject])
    assert [len(row[2]) for row in ten_members["graphs"][0]["names"]] == [10]
    trust = parse_trust(positive.text({"format": "knowing-trust/v1", "nodes": [node.trusted().as_json()]}).encode())
    text = positive.text(relation).encode()
    fast = best(lambda: verify_bundle(text, trust, keys.verify), 20)
    pure = best(lambda: verify_bundle(text, trust, ed25519.verify), 5)
    assert verify_bundle(text, trust).verdict == "verified"
    small, bigger, ten = _besides(relation), _besides(absent), _besides(ten_members)
    return [
        Row("bundle of a relation, bytes besides the statement", f"{small:,}", "at most 4,096", small <= 4096),
        Row(f"absence, names sets of {members} members, bytes", f"{bigger:,}", "at most 8,192", bigger <= 8192),
        Row("absence, names sets of 10 members, bytes", f"{ten:,}", "at most 8,192", ten <= 8192),
        Row("bundle of a relation verified, ms, with cryptography", f"{fast * 1e3:.2f}", "", met=True),
        Row("the same in pure Python, ms", f"{pure * 1e3:.2f}", "", met=True),
    ]


def _settle(repo: str, records: Records) -> None:
    """Ten targets that end in one name: methods of the repository, the standard library, a stranger, an unknown."""
    source = next(node for node in records.nodes if node.repo)
    targets = [NodeId(repo, source.package, f"Type{number}.settle", "method") for number in range(6)]
    targets += (external(f"python://{root}.settle") for root in ("os", "json", "requests"))
    targets.append(external("unresolved://python/settle"))
    records.nodes += targets
    records.edges += (Edge(node_hash(*source), node_hash(*one), "calls", "ast_resolved") for one in targets)


def _besides(bundle: dict[str, Any]) -> int:
    """The bytes of a bundle without its statement."""
    return len(json.dumps({**bundle, "statement": None}, separators=(",", ":"), ensure_ascii=False).encode())


def signatures() -> list[Row]:
    signer = keys.SigningKey("bench", bytes(32))
    message = b"m" * 200
    signature = signer.sign(message)
    fast = best(lambda: keys.verify(signer.public_key, message, signature), 50)
    pure = best(lambda: ed25519.verify(signer.public_key, message, signature), 20)
    return [Row("Ed25519 in pure Python, ms (cryptography: " + f"{fast * 1e3:.2f})", f"{pure * 1e3:.2f}", "", met=True)]


SECTIONS: dict[str, Callable[[], list[Row]]] = {
    "Merkle map": maps,
    "Bundles of one repository of 50,000 edges, 33 repositories in the log": bundles,
    "Signatures": signatures,
}
