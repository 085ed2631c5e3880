"""Where a name from outside leads, and what a definition is called where it is defined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from knowing_protocol.graph import GraphReader
from knowing_protocol.hashing import NodeId
from knowing_protocol.paths import parse_path
from knowing_protocol.standard_library import in_standard_library
from knowing_protocol.walk import walk

from knowingd.query.scope import Scope
from knowingd.resolve.graph import StoredGraph

RESOLVED, AMBIGUOUS, STANDARD, UNKNOWN, UNRESOLVED = (
    "resolved",
    "ambiguous",
    "standard library",
    "unknown",
    "unresolved",
)


class Lead(NamedTuple):
    """What a name from outside means over the repositories in scope."""

    state: str
    definitions: tuple[NodeId, ...]


class Names:
    """Leads and canonical names, remembered."""

    def __init__(self, scope: Scope) -> None:
        self._graphs: Sequence[GraphReader] = scope.graphs
        self._homes: dict[str, StoredGraph] = {graph.repo: graph for graph in scope.graphs}
        self._leads: dict[str, Lead] = {}
        self._modules: dict[tuple[str, str], str | None] = {}

    def lead(self, name: str) -> Lead:
        """Where a name leads."""
        if name not in self._leads:
            self._leads[name] = self._walk(name)
        return self._leads[name]

    def _walk(self, name: str) -> Lead:
        if name.startswith("unresolved://"):
            return Lead(UNRESOLVED, ())
        path = parse_path(name)
        outcome = walk(path, self._graphs)
        found = tuple(sorted(outcome.definitions))
        if len(found) == 1:
            return Lead(RESOLVED, found)
        if found:
            return Lead(AMBIGUOUS, found)
        return Lead(STANDARD if outcome.standard or in_standard_library(path) else UNKNOWN, ())

    def canonical(self, node: NodeId) -> str | None:
        """The import name of a definition, without scheme: where it is defined, not where it is published anew."""
        home = self._homes.get(node.repo)
        if home is None or "<" in node.name:
            return None
        module = self._module(home, node)
        if module is None:
            return None
        return f"{module}.{node.name}" if node.kind not in ("file", "package") else module

    def _module(self, home: StoredGraph, node: NodeId) -> str | None:
        key = (node.repo, node.package)
        if key not in self._modules:
            self._modules[key] = _module_of(home, node)
        found = self._modules[key]
        if found is None:  # another symbol of the module may tell
            found = self._modules[key] = _module_of(home, node)
        return found


def _module_of(home: StoredGraph, node: NodeId) -> str | None:
    """The import name of the module that a package path stands for; claimed names come before unclaimed ones."""
    top = node.name.partition(".")[0]
    dotted = node.package.replace("/", ".")
    found: list[tuple[bool, int, str]] = []
    for kind, last in (*((kind, top) for kind in _KINDS), ("file", ""), ("package", "")):
        target = NodeId(node.repo, node.package, last or node.name, kind)
        for alias in home.aliases_of(target):
            module = alias.partition("://")[2] if isinstance(alias, str) else ""
            if last and module.endswith("." + last):
                module = module[: -len(last) - 1]
            elif last:
                continue
            if module and (dotted == module or dotted.endswith("." + module)):
                claimed = any(one.claimed for one in home.alias(str(alias)) if one.node == target)
                found.append((claimed, len(module), module))
    return max(found)[2] if found else None


_KINDS = ("type", "function", "var", "const", "method", "interface")
