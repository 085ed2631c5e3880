"""The repositories that a question is asked of, each at one state for as long as the question lasts."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple

from knowingd.resolve.graph import StoredGraph
from knowingd.store.rows import SnapshotRow


class Repository(NamedTuple):
    """A repository in scope."""

    graph: StoredGraph
    snapshot: SnapshotRow

    @property
    def url(self) -> str:
        """Its canonical URL."""
        return self.graph.repo


class Scope(NamedTuple):
    """All repositories that are known, and of which of them answers are wanted."""

    repositories: tuple[Repository, ...]
    pattern: str | None = None

    @property
    def graphs(self) -> list[StoredGraph]:
        """Everything that names are resolved over."""
        return [one.graph for one in self.repositories]

    def wanted(self, url: str) -> bool:
        """Whether answers from a repository are wanted; `*` also matches `/`, and a tail is enough."""
        pattern = self.pattern
        return pattern is None or fnmatchcase(url, pattern) or fnmatchcase(url, f"*/{pattern}")

    def repository(self, url: str) -> Repository:
        """A repository by its URL."""
        return next(one for one in self.repositories if one.url == url)
