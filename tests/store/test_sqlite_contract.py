"""The SQLite store keeps the contract of `GraphStore`."""

from __future__ import annotations

from pathlib import Path

from store.contract import REPO, GraphStoreContract

from knowingd.store.interface import GraphStore
from knowingd.store.repository import RepositoryStore


class TestSqlite(GraphStoreContract):
    def open_store(self, directory: Path) -> GraphStore:
        return RepositoryStore(directory / "graph.db", REPO, "HEAD", bytes(32))
