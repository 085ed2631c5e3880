"""`make replay GIT=DIR [COUNT=200]`: a real history, commit by commit, each indexed by what changed and as a whole.

Commits come in topological order, so that side branches and merges are jumps between trees that differ in more than
one commit. After each of them the stored graph must be the one that indexing the whole tree gives.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from knowing_protocol.graph import Graph
from knowing_protocol.history import DEFAULT_REF

from knowingd.config import Home
from knowingd.extract.memory import index_tree
from knowingd.index.languages import language_of
from knowingd.node import Node, Options
from knowingd.source import open_source
from knowingd.store.records import read_records

URL = "local/replayed"


def main(directory: str, count: int) -> int:
    command = ["git", "-C", directory, "rev-list", "--topo-order", "--reverse", f"--max-count={count}", "HEAD"]
    commits = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    wrong = 0
    whole = changed = 0.0
    with tempfile.TemporaryDirectory() as scratch, Node(Home(Path(scratch))) as node:
        for number, commit in enumerate(commits, 1):
            with open_source(Path(directory), commit) as source:
                start = time.perf_counter()
                result = node._index(source, URL, DEFAULT_REF, directory, None, Options())
                changed += time.perf_counter() - start
                entries = [one for one in source.entries() if one.reason is None and language_of(one.path)]
                files = {entry.path: content for entry, content in source.read(entries) if entry.reason is None}
            start = time.perf_counter()
            expected, _ = index_tree(URL, files)
            whole += time.perf_counter() - start
            with node.repository(node.find(URL)).read() as session:
                found = read_records(session, 0)
            expected.coverage = found.coverage
            same = Graph(URL, found).root == Graph(URL, expected).root
            wrong += not same
            if not same or number % 20 == 0 or number == len(commits):
                state = "as a whole" if same else "DIFFERENT"
                print(f"{number:4} {commit[:12]} {result.parsed:4} read, {result.edges:,} edges, {state}", flush=True)
        report = node.fsck()
    print(f"{len(commits)} commits, {wrong} different; fsck {'ok' if report['ok'] else report}")
    print(f"by what changed {changed:.0f} s, as a whole (without writing) {whole:.0f} s")
    return 1 if wrong or not report["ok"] else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200))
