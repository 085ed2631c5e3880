"""Trees of a few files, and their graphs in words that tests can read."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import dedent
from typing import Any

from knowing_protocol.graph import Graph
from knowing_protocol.hashing import NodeId, node_hash
from knowing_protocol.records import Facts, Records, canonical_facts
from knowing_protocol.walk import Outcome, walk

from knowingd.extract.memory import index_tree

REPO = "example.org/acme/app"
MANIFEST = b'[project]\nname = "app"\n[build-system]\nrequires = []\n'


def tree(files: Mapping[str, str | bytes], *, manifest: bool = True) -> dict[str, bytes]:
    """Files as bytes, dedented; with a manifest that lets everything be discovered."""
    found = {path: dedent(text).encode() if isinstance(text, str) else text for path, text in files.items()}
    return {"pyproject.toml": MANIFEST, **found} if manifest else found


class Indexed:
    """The graph of a tree."""

    def __init__(self, files: Mapping[str, str | bytes], repo: str = REPO, *, manifest: bool = True) -> None:
        self.records, self.state = index_tree(repo, tree(files, manifest=manifest))
        self.graph = Graph(repo, self.records)
        self.ids = {node_hash(*node): node for node in self.records.nodes}

    def name(self, key: bytes) -> str:
        """`package:name` of a local node, the path of any other."""
        return shown(self.ids[key])

    def edges(self, edge_type: str) -> set[tuple[str, str]]:
        """All relations of a type."""
        return {(self.name(one.source), self.name(one.target)) for one in self.records.edges if one.type == edge_type}

    def targets(self, source: str, edge_type: str = "calls") -> set[str]:
        """What a symbol relates to."""
        return {target for start, target in self.edges(edge_type) if start == source}

    def provenance(self, source: str, target: str, edge_type: str = "calls") -> set[str]:
        """How a relation was observed."""
        return {
            one.provenance
            for one in self.records.edges
            if (self.name(one.source), self.name(one.target), one.type) == (source, target, edge_type)
        }

    def sites(self, source: str, target: str, edge_type: str = "calls") -> list[tuple[str, int, int, int]]:
        """File, line (from the start of the file), column and arity of every site of a relation."""
        wanted = {
            one.hash: one.source
            for one in self.records.edges
            if (self.name(one.source), self.name(one.target), one.type) == (source, target, edge_type)
        }
        found = []
        for file in self.records.files:
            for edge, declaration, line, column, arity in file.sites:
                if edge in wanted:
                    lines = sorted(one.line for one in file.declarations if one.node == wanted[edge])
                    found.append((file.path, line + (lines[declaration] if lines else 0), column, arity))
        return sorted(found)

    def aliases(self) -> dict[str, set[str]]:
        """Every published name without its scheme, and what it leads to."""
        found: dict[str, set[str]] = {}
        for name, target, _ in self.records.aliases:
            found.setdefault(name.removeprefix("python://"), set()).add(self.name(target))
        return found

    def facts(self, name: str) -> Facts:
        """The facts of a node."""
        return next((facts for key, facts in self.records.facts.items() if self.name(key) == name), Facts())

    def walk(self, path: str, *others: Indexed) -> Outcome:
        """Walk a path over this graph and others."""
        return walk(path, [self.graph, *(one.graph for one in others)])


def shown(node: NodeId) -> str:
    """A node in a word."""
    return node.name if node.kind == "external" else f"{node.package}:{node.name}"


def plain(records: Records) -> dict[str, Any]:
    """Records in a form in which equal graphs are equal."""
    return {
        "nodes": sorted(set(records.nodes)),
        "edges": sorted(set(records.edges)),
        "aliases": sorted(set(records.aliases)),
        "members": sorted(set(records.members)),
        "facts": {key: canonical_facts(facts) for key, facts in records.facts.items() if facts != Facts()},
        "files": sorted((one.path, one.content, sorted(one.declarations), sorted(one.sites)) for one in records.files),
        "coverage": dict(records.coverage),
    }
