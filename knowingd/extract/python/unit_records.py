"""Nodes and edges of one unit: the ground that publishing and referring stand on."""

from __future__ import annotations

from typing import Final

from knowing_protocol.hashing import NodeId, edge_hash, external, external_hash
from knowing_protocol.records import Records

from knowingd.extract.python.evaluate import Evaluator
from knowingd.extract.python.meaning import Meaning, Value
from knowingd.extract.python.phantoms import Phantoms
from knowingd.extract.python.tree import (
    Tree,
    Unit,
)

_RESOLVED: Final = "ast_resolved"


class UnitRecords:
    """The records of one unit, while they are made."""

    def __init__(self, tree: Tree, evaluator: Evaluator, phantoms: Phantoms, unit: Unit) -> None:
        self.tree = tree
        self.evaluator = evaluator
        self.phantoms = phantoms
        self.unit = unit
        self.records = Records()
        self.nodes: dict[bytes, NodeId] = {}
        self.edges: dict[tuple[bytes, bytes, str, str], bytes | None] = {}
        self.is_test = is_test(unit.package)

    def _targets_of(self, meaning: Meaning | None) -> list[bytes]:
        found: list[bytes] = []
        for value in meaning.values if meaning is not None else ():
            target = self._node(value)
            if target is not None:
                found.append(target)
        return found

    def _node(self, value: Value) -> bytes | None:
        """The node of a symbol; phantoms are contributed on the way."""
        kind = value[0]
        if kind == "X":
            phantom = self.phantoms.of(value[1])
            if phantom is None:
                return None
            self.nodes[phantom[0]] = phantom[1]
            return phantom[0]
        if kind == "M":
            return self.tree.unit(value[1]).hash("")
        if kind in {"C", "F", "V"}:
            unit = self.tree.unit(value[1])
            qualified = f"{value[2]}.{value[3]}" if kind == "V" and value[2] else value[3] if kind == "V" else value[2]
            return unit.hash(qualified) if qualified in unit.kinds else None
        return None

    def _edge(self, source: bytes, target: bytes, edge_type: str, provenance: str) -> bytes:
        key = (source, target, edge_type, provenance)
        found = self.edges.get(key)
        if found is None:
            found = self.edges[key] = edge_hash(*key)
        return found

    def _bare_edge(self, source: bytes, target: bytes, edge_type: str) -> None:
        """An edge that has no sites, so that nobody asks for its hash."""
        self.edges.setdefault((source, target, edge_type, _RESOLVED), None)

    def _unresolved(self, name: str) -> bytes:
        text = "unresolved://python/" + (name if name.isidentifier() else "?")
        phantom = external(text)
        key = external_hash(text)
        self.nodes[key] = phantom
        return key


def is_test(package: str) -> bool:
    """Whether a unit is test code, by the usual names of its path."""
    *directories, name = package.split("/")
    return (
        any(one in {"test", "tests", "testing"} for one in directories)
        or name.startswith("test_")
        or name.endswith("_test")
        or name in {"tests", "test", "conftest"}
    )
