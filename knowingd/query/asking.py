"""Graphs as `callers` asks them: without references that may have any name and are certainly not the symbol.

Nearly every repository calls the result of some call, which may be a symbol of any name. A proof lists all of these;
people are not shown those that stay undecided. The catalog knows their names, so that a repository is opened for them
only if one of them does lead to the symbol.
"""

from __future__ import annotations

from collections.abc import Sequence

from knowing_protocol.graph import REPUBLISHED
from knowing_protocol.hashing import NodeId
from knowing_protocol.paths import ANY_NAME, WILDCARD, format_path, parse_path
from knowing_protocol.paths import alternatives as alternatives_of
from knowing_protocol.walk import Outcome, walk

from knowingd.resolve.graph import StoredGraph


class AskedGraph:
    """A graph that leaves out references of any name, if none of them can be the symbol asked about."""

    def __init__(self, graph: StoredGraph, asking: Asking) -> None:
        self.repo = graph.repo
        self._graph = graph
        self._asking = asking
        self.has_node = graph.has_node
        self.relation = graph.relation
        self.inbound_relation = graph.inbound_relation
        self.inbound = graph.inbound
        self.alias = graph.alias
        self.aliases_of = graph.aliases_of
        self.member = graph.member
        self.facts = graph.facts

    def named(self, edge_type: str, segment: str) -> tuple[NodeId, ...]:
        """See `GraphReader`."""
        if segment == ANY_NAME and edge_type != REPUBLISHED:
            names = self._graph.open_names(edge_type)
            if names is not None and not any(map(self._asking.may_be_meant, names)):
                return ()
        return self._graph.named(edge_type, segment)


class Asking:
    """All graphs of a question, and where references of any name lead."""

    def __init__(self, graphs: Sequence[StoredGraph]) -> None:
        self._graphs = [AskedGraph(graph, self) for graph in graphs]
        self._symbol: NodeId | None = None
        self._outcomes: dict[str, tuple[Outcome, frozenset[str]] | None] = {}

    def about(self, symbol: NodeId) -> list[AskedGraph]:
        """The graphs to ask about a symbol, until they are asked about the next one."""
        self._symbol = symbol
        return self._graphs

    def may_be_meant(self, name: str) -> bool:
        """Whether a reference leads to the symbol, or anywhere but to itself, where it may meet the symbol's names."""
        if name not in self._outcomes:
            self._outcomes[name] = self._walk(name)
        found = self._outcomes[name]
        if found is None:
            return True
        outcome, own = found
        return self._symbol in outcome.definitions or not outcome.names <= own

    def _walk(self, name: str) -> tuple[Outcome, frozenset[str]] | None:
        """Where a reference leads, and what it is itself; None where that depends on the symbol."""
        path = parse_path(name)
        if path.steps and path.steps[-1] is WILDCARD:
            return None
        return walk(path, self._graphs), frozenset(format_path(one) for one in alternatives_of(path))
