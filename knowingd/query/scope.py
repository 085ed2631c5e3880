"""The repositories that a question is asked of, each at one state for as long as the question lasts."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import NamedTuple

from knowingd.resolve.graph import StoredGraph
from knowingd.store.rows import SnapshotRow
from knowingd.store.working import Working


class Repository(NamedTuple):
    """A repository in scope."""

    graph: StoredGraph
    snapshot: SnapshotRow
    working: Working | None = None
    """The working view that is asked in place of the signed base, if one is."""

    @property
    def url(self) -> str:
        """Its canonical URL."""
        return self.graph.repo


@dataclass(frozen=True)
class Scope:
    """All repositories that are known, and of which of them answers are wanted."""

    repositories: tuple[Repository, ...]
    pattern: str | None = None

    @cached_property
    def graphs(self) -> list[StoredGraph]:
        """Everything that names are resolved over."""
        return [one.graph for one in self.repositories]

    @cached_property
    def _by_url(self) -> dict[str, Repository]:
        return {one.url: one for one in reversed(self.repositories)}

    def wanted(self, url: str) -> bool:
        """Whether answers from a repository are wanted; `*` also matches `/`, and a tail is enough."""
        pattern = self.pattern
        return pattern is None or fnmatchcase(url, pattern) or fnmatchcase(url, f"*/{pattern}")

    @property
    def working(self) -> dict[str, Working]:
        """The working views among them that answers are wanted of, by URL."""
        return {one.url: one.working for one in self.repositories if one.working is not None and self.wanted(one.url)}

    def repository(self, url: str) -> Repository:
        """A repository by its URL."""
        return self._by_url[url]

    def defining(self, name: str) -> list[Repository]:
        """The repositories that may define a symbol whose name ends like this."""
        return [one for one in self.repositories if one.graph.may_define(name)]
