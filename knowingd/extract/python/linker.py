"""The linker: the records of one unit, out of the summaries of the tree.

Promises: records of different units are disjoint but for phantoms; every name that was looked up elsewhere is in
`visited`. Nothing depends on which units were linked before.
"""

from __future__ import annotations

import sys
from typing import Final

from knowing_protocol.hashing import NodeId
from knowing_protocol.records import Edge, File, Records
from knowing_protocol.vocabulary import Coverage

from knowingd.extract.interface import Linked, View
from knowingd.extract.python.evaluate import Evaluator
from knowingd.extract.python.modules import MANIFEST_UNIT
from knowingd.extract.python.phantoms import Phantoms
from knowingd.extract.python.tree import (
    Tree,
)
from knowingd.extract.python.uses import Uses

_STACK: Final = 20_000  # frames; long chains through many hops nest deeply, each hop a little
_new: Final = tuple.__new__


class PythonLinker:
    """Links the units of one tree."""

    def __init__(self, repo: str, view: View) -> None:
        self.tree = Tree(repo, view)
        self.evaluator = Evaluator(self.tree)
        self.phantoms = Phantoms()

    def link(self, unit: str) -> Linked:
        """All records of a unit."""
        if unit.startswith(MANIFEST_UNIT):
            return self._manifest(unit.removeprefix(MANIFEST_UNIT))
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, _STACK))
        try:
            return _UnitLinker(self.tree, self.evaluator, self.phantoms, self.tree.unit(unit)).link()
        finally:
            sys.setrecursionlimit(limit)

    def _manifest(self, path: str) -> Linked:
        """A manifest acts through the roots; all it contributes is that it was read."""
        summary = self.tree.view.summary(path)
        coverage = {path: Coverage(summary["coverage"])} if summary["coverage"] else {}
        return Linked(Records(files=[File(path, summary["hash"])], coverage=coverage))


class _UnitLinker(Uses):
    """The work of one link."""

    def link(self) -> Linked:
        """Everything that the unit contributes."""
        self.evaluator.deps = {"\0roots"}
        unit = self.unit
        module = unit.hash("")
        kind = "file" if unit.files else "package"
        self.nodes[module] = NodeId(unit.repo, unit.package, "", kind)
        self.symbols(module)
        self.publish(module)
        for file in unit.files:
            self.file(file)
        self.records.nodes = list(self.nodes.values())
        self.records.edges = [_new(Edge, key) for key in self.edges]
        own = f"{unit.package}\0"
        visited = frozenset(key for key in self.evaluator.deps if not key.startswith(own) or key.startswith("\0"))
        return Linked(self.records, visited, list(self.edges.values()))
