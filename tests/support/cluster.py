"""Nodes for tests: real processes that serve on loopback, and homes with generated repositories."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

from knowing_protocol.records import Records

from knowingd.config import Home
from knowingd.federation import Federation, Synced
from knowingd.node import Node
from knowingd.snapshot.snapshots import Told
from knowingd.store.peerstore import PeerRow
from knowingd.store.rows import Changes
from support.changes import difference, edited
from support.generated import Size, generate

SMALL = Size(5, 60, 250)


class Machine:
    """A home, and perhaps a process that serves it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.process: subprocess.Popen[str] | None = None
        self.url = ""
        self.records: dict[str, Records] = {}
        self.count = 0
        self.node = Node(Home(home))
        self.federation = Federation(self.node)

    def snapshot(self, repo: str, change: Changes) -> None:
        self.count += 1
        assert self.node.snapshot(repo, [change], Told(f"{self.count:040x}", "main", bytes(32))) is not None

    def add(self, name: str, seed: int = 1, size: Size = SMALL) -> str:
        """A generated repository of this node."""
        repo, records = generate(seed, size, f"github.com/{name}")
        self.records[repo] = records
        self.snapshot(repo, Changes(0, records, Records()))
        return repo

    def edit(self, repo: str, seed: int = 1) -> None:
        """Somebody works on a repository."""
        before = self.records[repo]
        after = edited(before, repo, Random(seed * 1000 + self.count))
        self.snapshot(repo, difference(before, after))
        self.records[repo] = after

    def serve(self, *options: str, port: int = 0) -> str:
        """Start serving; the address."""
        command = [sys.executable, "-m", "knowingd.cli", "serve", "--home", str(self.home), "--json"]
        command += ["--listen", f"127.0.0.1:{port}", *options]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        errors = (self.home / "serve.log").open("a")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
        errors.close()
        assert self.process.stdout is not None
        text = ""
        for line in self.process.stdout:
            text += line
            if line.startswith("}"):
                break
        found: dict[str, Any] = json.loads(text)
        self.url = found["url"]
        return self.url

    def stop(self, how: int = signal.SIGTERM) -> int:
        """End the process; its exit code."""
        assert self.process is not None
        self.process.send_signal(how)
        code = self.process.wait(20)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = None
        return code

    def join(self, other: Machine, *patterns: str, relay: bool = False) -> PeerRow:
        """Become a peer of a node that serves, by its invitation."""
        return self.federation.add_peer(other.federation.invite(list(patterns), relay=relay))

    def sync(self, peer: PeerRow, pattern: str | None = None) -> Synced:
        return self.federation.sync(peer, pattern)

    def modes(self, peer: PeerRow) -> dict[str, str]:
        """Sync, and what happened to each repository."""
        synced = self.sync(peer)
        assert synced.error is None, synced.error
        for one in synced.outcomes:
            assert one.error is None, one.error
        return {one.repo: one.mode for one in synced.outcomes}

    def roots(self, repo: str) -> tuple[bytes, bytes, int | None] | None:
        """The newest roots of a repository, from whatever origin."""
        for row in self.node.store.roster():
            if row.url == repo:
                with self.node.lend(row) as store, store.read() as session:
                    last = session.last_snapshot(finished=True)
                if last is not None:
                    return last.source_root, last.overlay_root, last.log_index
        return None

    def close(self) -> None:
        if self.process is not None:
            self.stop(signal.SIGKILL)
        self.node.close()
