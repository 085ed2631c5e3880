"""Benchmarks of proofs out of stored graphs: made warm and from a new process, verified; one repository and 1,000.

Times are of the processor, not of the clock: the machine is shared. A proof from a new process is `knowing prove` as a
person runs it, less an interpreter that does nothing. Beside them stand the seed's figures, which are for proofs that
can be forged: no signature, no names, no completeness.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench_kernel import Row
from knowing_protocol import ed25519
from knowing_protocol.ed25519 import Verifier
from knowing_protocol.hashing import node_hash
from knowing_protocol.records import Records
from knowing_protocol.trust import Trust
from knowing_protocol.verify import VERIFIED, verify_bundle
from knowing_protocol.vocabulary import NodeKind
from support.generated import Size, generate

from knowingd import keys
from knowingd.config import Home
from knowingd.node import Node
from knowingd.proofs import Proofs
from knowingd.snapshot.snapshots import Told
from knowingd.store.rows import Changes

EDGES = 250_000
REPOSITORIES = 1_000
OUTSIDE = "python://hashlib.md5"
SEED_MADE, SEED_CHECKED, SEED_BYTES = "seed: 72 µs", "seed: 1.2 µs", "seed: about 3 KB"


def cpu(work: Callable[[], object], times: int = 5) -> float:
    """The least processor time of a few runs, in seconds."""
    found = []
    for _ in range(times):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def child(command: list[str], bytecode: Path) -> float:
    """The least processor time of a process, in seconds, with its bytecode kept as that of an installed program is."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(bytecode)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    found = []
    for _ in range(7):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        found.append(usage.ru_utime + usage.ru_stime)
    return min(found)


def believed(_key: bytes, _message: bytes, _signature: bytes) -> bool:
    """In place of a signature's check, to time everything else."""
    return True


def fill(path: Path, repositories: int, size: Size) -> Node:
    """A node with so many generated repositories."""
    node = Node(Home(path))
    for number in range(repositories):
        repo, records = generate(number + 1, size, f"github.com/bench/repo-{number}")
        told = Told(f"{number + 1:040x}", "main", bytes(32))
        assert node.snapshot(repo, [Changes(0, records, Records())], told) is not None
    return node


def verified(data: bytes, trust: Trust, verifier: Verifier) -> None:
    report = verify_bundle(data, trust, verifier)
    assert report.verdict == VERIFIED, (report.code, report.reason)


def packed(bundle: object) -> bytes:
    return json.dumps(bundle, separators=(",", ":"), ensure_ascii=False).encode()


def one_relation() -> Iterator[Row]:
    size = Size(250, EDGES // 5, EDGES)
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch) / "home"
        node = fill(home, 1, size)
        yield from relation_rows(node, home, size)
        node.close()


def relation_rows(node: Node, home: Path, size: Size) -> Iterator[Row]:
    repo, records = generate(1, size, "github.com/bench/repo-0")
    local = {node_hash(*one) for one in records.nodes if one.kind != NodeKind.EXTERNAL}
    edges = [one for one in records.edges if one.type == "calls" and one.target in local]
    ends = [(edge.source.hex(), edge.target.hex()) for edge in edges[:: len(edges) // 100]]
    proofs = Proofs(node)
    trust = Trust({proofs.node.keys.origin: proofs.trusted("bench", [repo])})

    def make() -> None:
        for one in ends:
            proofs.relation(*one, "calls")

    proofs.relation(*ends.pop(), "calls")  # the first question makes the catalog
    first = cpu(make, 1) / len(ends) * 1e3
    warm = cpu(make) / len(ends) * 1e3
    yield Row(f"a relation's proof made, warm, ms ({SEED_MADE})", f"{warm:.2f}", "at most 2", warm <= 2)
    yield Row("the same, of a package that was not asked about before, ms", f"{first:.2f}", "", met=True)
    bundle = packed(proofs.relation(*ends[0], "calls").bundle)
    script = "import sys; from knowingd.cli import main; main(sys.argv[1:])"
    words = ["prove", *ends[0], "-q", "--home", str(home), "-o", str(home.parent / "bundle.json")]
    kept = home.parent / "bytecode"
    bare = child([sys.executable, "-c", ""], kept)
    cold = child([sys.executable, "-c", script, *words], kept) - bare
    yield Row("the same from a new process, besides its start, ms", f"{cold * 1e3:.0f}", "at most 200", cold <= 0.2)
    loading = "import knowingd.cli.prove, knowing_protocol.verify"
    modules = child([sys.executable, "-c", loading], kept) - bare
    yield Row("of this, loading modules", f"{modules * 1e3:.0f}", "", met=True)

    def check() -> None:
        for _ in range(50):
            verified(bundle, trust, believed)

    checked = cpu(check) / 50 * 1e3
    yield Row(f"verified, besides the signature, ms ({SEED_CHECKED})", f"{checked:.2f}", "at most 1", checked <= 1)
    yield Row(f"bytes ({SEED_BYTES})", f"{len(bundle):,}", "", met=True)


def nobody() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as scratch:
        node = fill(Path(scratch) / "home", REPOSITORIES, Size(4, 80, 300))
        yield from nobody_rows(node)
        node.close()


def nobody_rows(node: Node) -> Iterator[Row]:
    proofs = Proofs(node)
    trust = Trust({proofs.node.keys.origin: proofs.trusted("bench", ["*"])})
    found: list[bytes] = []

    def make() -> None:
        found[:] = [packed(proofs.callers(OUTSIDE, ("calls",), absent=True, complete=True).bundle)]

    made = cpu(make, 2)
    yield Row("made, s", f"{made:.2f}", "at most 5", made <= 5)
    (bundle,) = found
    fast = cpu(lambda: verified(bundle, trust, keys.verify), 3)
    yield Row("verified with cryptography, s", f"{fast:.2f}", "at most 1", fast <= 1)
    slow = cpu(lambda: verified(bundle, trust, ed25519.verify), 3)
    yield Row("verified without it, s", f"{slow:.2f}", "at most 3", slow <= 3)
    yield Row("bytes", f"{len(bundle):,}", "at most 4,194,304", len(bundle) <= 4 << 20)


SECTIONS = {
    "Proofs, a repository of 250,000 edges": one_relation,
    "Nobody calls hashlib.md5, over 1,000 repositories of one origin": nobody,
}
