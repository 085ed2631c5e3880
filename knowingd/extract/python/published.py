"""What a unit publishes: its symbols, what is known of their types, and the names under which they can be reached."""

from __future__ import annotations

from typing import Final

from knowing_protocol.hashing import NodeId
from knowing_protocol.records import Alias, Facts, LocalType, Member, TypeRef

from knowingd.extract.limits import MAX_HOPS, MAX_STARS, MAX_TYPES
from knowingd.extract.python.meaning import CUT, UNKNOWN, Meaning, Value
from knowingd.extract.python.tree import (
    ANNOTATION,
    DECORATORS,
    RETURNS,
    YIELDS,
    Unit,
)
from knowingd.extract.python.unit_records import UnitRecords

_NO_FACTS: Final = Facts()


class Published(UnitRecords):
    """Symbols, facts and names of a unit."""

    def symbols(self, module: bytes) -> None:
        """The nodes of a unit with their places, members and facts."""
        unit = self.unit
        for qualified, kind in unit.kinds.items():
            key = unit.hash(qualified)
            self.nodes[key] = NodeId(unit.repo, unit.package, qualified, kind)
            parent, _, _ = qualified.rpartition(".")
            parent = parent.removesuffix(".<locals>")
            owner = unit.hash(parent) if parent in unit.kinds else module
            self._bare_edge(owner, key, "contains")
            if unit.kinds.get(parent) == "type" and not qualified.startswith(f"{parent}.<locals>"):
                self._bare_edge(key, owner, "member_of")
                self.records.members.append(Member(owner, qualified.rpartition(".")[2], key))
            facts = self._facts(qualified, kind)
            if facts != _NO_FACTS:
                self.records.facts[key] = facts
            if kind == "type":
                self._imported_members(qualified, key)
            elif kind == "method":
                self._overrides(qualified, key, parent)

    def _imported_members(self, qualified: str, key: bytes) -> None:
        """Names that a class body binds by importing, or by a second name for a method."""
        for file, number in self.unit.declared[qualified]:
            for name, bindings in file.names.get(number, {}).items():
                if f"{qualified}.{name}" not in self.unit.kinds:
                    for binding in bindings:
                        if binding[0] == "i":
                            meaning = self.evaluator.imported(self.unit, binding[1], binding[2], binding[3], MAX_HOPS)
                            for target in self._targets_of(meaning):
                                self.records.members.append(Member(key, name, target))

    def _overrides(self, qualified: str, key: bytes, owner: str) -> None:
        name = qualified.rpartition(".")[2]
        order = self.evaluator.order(self.unit.package, owner, MAX_HOPS)
        for base in order.values[1:]:
            if base[0] != "C":
                return
            other = self.tree.unit(base[1])
            self.evaluator.visit(base[1], base[2], name)
            if other.kinds.get(f"{base[2]}.{name}") == "method":
                self._bare_edge(key, other.hash(f"{base[2]}.{name}"), "overrides")
                if self._is_abstract(other, f"{base[2]}.{name}"):
                    self._bare_edge(key, other.hash(f"{base[2]}.{name}"), "implements")
                return

    def _is_abstract(self, unit: Unit, qualified: str) -> bool:
        self.evaluator.visit(unit.package, qualified, "()")
        return any(
            name.startswith("abstract")
            for file, number in unit.declared.get(qualified, ())
            for name, _ in file.scopes[number][DECORATORS]
        )

    def _facts(self, qualified: str, kind: str) -> Facts:
        evaluator, package = self.evaluator, self.unit.package
        if kind == "type":
            bases = evaluator.bases(self.unit, qualified, MAX_HOPS)
            found = [self._type(one) for one in bases.values if one[0] != "?"]
            partial: tuple[str, ...] = ("bases",) if len(found) != len(bases.values) or None in found else ()
            return Facts(bases=tuple(one for one in found if one is not None)[:MAX_TYPES], partial=partial)
        if kind in {"function", "method"}:
            if self._returns_nothing(qualified):
                return _NO_FACTS
            meaning = evaluator.result_of(package, qualified)
            if evaluator.is_property(("F", package, qualified, None)):
                types, partial = self._types(meaning, "types")
                return Facts(types=types, partial=partial)
            types, partial = self._types(meaning, "returns")
            return Facts(returns=types, partial=partial)
        owner, _, name = qualified.rpartition(".")
        meaning = evaluator.variable(("V", package, owner, name, None), MAX_HOPS)
        types, partial = self._types(meaning, "types")
        # A second name of a class, or of something outside: calling it gives what calling that gives.
        others = [one for one in meaning.values if one[0] == "C" or (one[0] == "X" and not one[1].endswith("()"))]
        returns = tuple(known for one in others[:MAX_TYPES] if (known := self._type(one)) is not None)
        return Facts(types=types, returns=returns, partial=partial)

    def _returns_nothing(self, qualified: str) -> bool:
        """The short way for most functions of most programs."""
        return all(
            not scope[RETURNS] and scope[ANNOTATION] is None and not scope[YIELDS]
            for scope in (file.scopes[number] for file, number in self.unit.declared.get(qualified, ()))
        )

    def _types(self, meaning: Meaning, what: str) -> tuple[tuple[TypeRef, ...], tuple[str, ...]]:
        found: list[TypeRef] = []
        missing = bool(meaning.flags & (UNKNOWN | CUT))
        for value in meaning.values:
            one = None
            if value[0] == "I":
                one = self._type(("C", *value[1:]))
            elif value[0] == "X" and value[1].endswith("()"):
                one = self._type(("X", value[1][:-2]))
            elif value[0] == "B":
                one = self._type(("X", value[1]))
            if one is None:
                missing = True
            else:
                found.append(one)
        return tuple(found[:MAX_TYPES]), (what,) if missing and found else ()

    def _type(self, value: Value) -> TypeRef | None:
        if value[0] == "C":
            unit = self.tree.unit(value[1])
            kind = unit.kinds.get(value[2])
            return LocalType(value[1], value[2], kind) if kind == "type" else None
        phantom = self.phantoms.of(value[1])
        return phantom[1].name if phantom is not None else None

    def publish(self, module: bytes) -> None:
        """The names under which a unit can be imported, and those that it binds."""
        unit, evaluator = self.unit, self.evaluator
        names = self.tree.modules.names(unit.package)
        bound: dict[str, set[bytes]] = {}
        for file in unit.files:
            for name in file.names.get(0, {}):
                if name not in bound:
                    bound[name] = set(self._targets_of(evaluator.module_name(unit, name, MAX_HOPS)))
        for star in evaluator.stars(unit) if unit.files else ():
            if star[0] == "M":
                for name in self._exported(star[1], MAX_HOPS):
                    if name not in bound and evaluator.exports(self.tree.unit(star[1]), name):
                        bound[name] = set(self._targets_of(evaluator.module_name(unit, name, MAX_HOPS)))
        for name, targets in bound.items():
            for target in sorted(targets):
                self.records.members.append(Member(module, name, target))
                for dotted, claimed in names:
                    self._alias(f"{dotted}.{name}", target, claimed=claimed)
        parent, _, last = unit.package.rpartition("/")
        hidden = self._hidden_by_parent(parent, last)
        if not hidden:
            if parent in self.tree.modules.units and unit.package:
                owner = self.tree.unit(parent).hash("")
                self.records.members.append(Member(owner, last, module))
            for dotted, claimed in names:
                self._alias(dotted, module, claimed=claimed)
        outer = evaluator.outer_stars(unit, MAX_HOPS) if unit.files else []
        stars = [found[1].name for one in outer[:MAX_STARS] if (found := self.phantoms.of(one)) is not None]
        if stars:
            self.records.facts[module] = Facts(stars=tuple(stars))

    def _hidden_by_parent(self, parent: str, last: str) -> bool:
        """An attribute of a package goes before its submodule, and is the package's to publish."""
        if parent not in self.tree.modules.units or not self.unit.package:
            self.evaluator.deps.add(f"@{parent}")
            return False
        self.evaluator.deps.add(f"@{parent}")
        found = self.evaluator.module_name(self.tree.unit(parent), last, MAX_HOPS)
        return bool(self._targets_of(found))

    def _exported(self, package: str, hops: int) -> list[str]:
        """The names that a star import of a module of this repository can bring."""
        unit = self.tree.unit(package)
        self.evaluator.visit(package, "", "*")
        found = [name for file in unit.files for name in file.names.get(0, {})]
        if hops > 0:
            for star in self.evaluator.stars(unit) if unit.files else ():
                if star[0] == "M" and star[1] != package:
                    found += self._exported(star[1], hops - 1)
        return list(dict.fromkeys(found))

    def _alias(self, dotted: str, target: bytes, *, claimed: bool) -> None:
        phantom = self.phantoms.of(dotted)
        if phantom is not None:
            self.records.aliases.append(Alias(phantom[1].name, target, claimed))
