"""A node: the stages wired together, one method a verb. Surfaces call these and nothing deeper."""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final, Self

from knowing_protocol.errors import InvalidNameError
from knowing_protocol.hashing import snapshot_hash
from knowing_protocol.history import DEFAULT_REF, Header
from knowing_protocol.urls import canonical_url

from knowingd.config import Home
from knowingd.errors import NotFoundError, UsageError
from knowingd.keyfile import KeyRing
from knowingd.snapshot import fsck
from knowingd.snapshot.snapshots import Origin, Told, recover, take
from knowingd.store.apply import Changes
from knowingd.store.locks import DEFAULT_WAIT, exclusive
from knowingd.store.nodestore import NodeStore, RosterRow
from knowingd.store.repository import RepositoryStore

MAX_OPEN: Final = 32
"""How many repository databases are open at once, however many are registered."""


class Node:
    """A node on its data directory."""

    def __init__(self, home: Home) -> None:
        """Open the node; its key and directories are made where they are missing."""
        self.home = home
        home.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        with exclusive(home.lock("node"), "the node"):
            self.keys = KeyRing.create(home.key)
            self.store = NodeStore(home.node_database)
        self._open: OrderedDict[int, RepositoryStore] = OrderedDict()

    def close(self) -> None:
        """Close every database."""
        for store in self._open.values():
            store.close()
        self._open.clear()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def origin(self) -> Origin:
        """The node as the writer of its log."""
        epoch = self.store.epoch
        return Origin(self.keys.origin, lambda text: self.keys.sign_log(text, epoch))

    def repository(self, row: RosterRow) -> RepositoryStore:
        """The database of a repository; the one used longest ago is closed when too many are open."""
        if row.id in self._open:
            self._open.move_to_end(row.id)
            return self._open[row.id]
        store = RepositoryStore(self.home.repository(row.database), row.url, row.ref, row.origin)
        self._open[row.id] = store
        if len(self._open) > MAX_OPEN:
            _, oldest = self._open.popitem(last=False)
            oldest.close()
        return store

    def find(self, text: str) -> RosterRow:
        """The repository that a person means: a URL in any spelling, a path, or a unique tail."""
        rows = [row for row in self.store.roster() if row.ref == DEFAULT_REF]
        try:
            url = canonical_url(text)
        except InvalidNameError:
            url = ""
        exact = [row for row in rows if row.url == url or row.path == text]
        found = exact or [row for row in rows if row.url.endswith("/" + text)]
        if not found:
            raise NotFoundError(f"no repository is called {text!r}", hint="`knowing list` shows what there is")
        if len(found) > 1:
            choices = ", ".join(row.url for row in found[:8])
            raise UsageError(f"{text!r} may be any of {choices}", code="ambiguous", hint="write more of it")
        return found[0]

    def snapshot(
        self,
        url: str,
        changes: Sequence[Changes],
        told: Told,
        *,
        ref: str = DEFAULT_REF,
        path: str | None = None,
        wait: float = DEFAULT_WAIT,
    ) -> Header | None:
        """Apply changes to a local repository and sign the snapshot; None where nothing is new."""
        now = int(time.time())
        row = self.store.register(url, ref, self.keys.origin, path=path, local=True, now=now)
        with exclusive(self.home.lock(row.database), row.url, wait):
            return take(self.repository(row), self.store, self.origin, changes, told, now)

    def recover(self) -> None:
        """Finish what a crash left half done."""
        for row in self.store.roster():
            if row.local:
                with exclusive(self.home.lock(row.database), row.url):
                    recover(self.repository(row), self.store, self.origin, int(time.time()))

    def repositories(self) -> list[dict[str, Any]]:
        """All repositories with their newest snapshots."""
        found = []
        for row in self.store.roster():
            with self.repository(row).read() as session:
                last = session.last_snapshot(finished=True)
            found.append(
                {
                    "repo": row.url,
                    "ref": row.ref,
                    "origin": row.origin.hex(),
                    "local": row.local,
                    "path": row.path,
                    "commit": last.commit if last else None,
                    "index": last.log_index if last else None,
                    "nodes": last.nodes if last else 0,
                    "edges": last.edges if last else 0,
                    "time": last.timestamp if last else None,
                }
            )
        return found

    def log(self, text: str) -> list[dict[str, Any]]:
        """The snapshots of a repository, newest first, with the roots of the source graph."""
        row = self.find(text)
        with self.repository(row).read() as session:
            rows = [one for one in session.snapshots() if one.log_index is not None]
        by_index = {header.index: header for header in self.store.headers(row.url, row.ref)}
        return [
            {
                "index": one.log_index,
                "snapshot": snapshot_hash(one.source_root).hex(),
                "ref": row.ref,
                "commit": one.commit,
                "generation": one.generation,
                "parent": by_index[one.log_index].previous if one.log_index in by_index else None,
                "nodes": one.nodes,
                "edges": one.edges,
                "time": one.timestamp,
                "roots": json.loads(one.map_roots)["0"],
            }
            for one in reversed(rows)
            if one.log_index is not None
        ]

    def fsck(self, text: str | None = None, *, repair: bool = False) -> dict[str, Any]:
        """Check a repository, or all of them and the log."""
        rows = [self.find(text)] if text else self.store.roster()
        found = []
        for row in rows:
            store = self.repository(row)
            check = fsck.check_repository(store)
            if check.errors and repair:
                with exclusive(self.home.lock(row.database), row.url):
                    fsck.repair_repository(store)
                check = fsck.check_repository(store)
            found.append({"repo": row.url, "ref": row.ref, **check._asdict()})
        errors = self.check_log()
        return {"ok": not errors and not any(one["errors"] for one in found), "repos": found, "log": errors}

    def check_log(self) -> list[str]:
        """Everything that is wrong with the node's log."""
        return fsck.check_log(self.store, self.keys.first_key)
