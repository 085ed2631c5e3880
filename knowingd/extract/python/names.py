"""Names and imports: what a module or scope binds, and where it comes from."""

from __future__ import annotations

from typing import Any

from knowingd.extract.limits import MAX_HOPS, MAX_STARS
from knowingd.extract.python import tables
from knowingd.extract.python.meaning import (
    CUT,
    INFERRED,
    NOT_KNOWN,
    SELF,
    STOPPED,
    UNKNOWN,
    Meaning,
    Meanings,
    Value,
    candidates,
    union,
)
from knowingd.extract.python.tree import KIND, PARENT, QUALIFIED, TYPES, SourceFile, Unit


class Names(Meanings):
    """Looks up names."""

    def global_name(self, unit: Unit, name: str, hops: int) -> Meaning:
        """A name as the code of a module sees it."""
        found = self.module_name(unit, name, hops)
        if found is not None:
            return found
        if name in tables.BUILTINS:
            return Meaning((("X", f"builtins.{name}", None),))
        outside = self.outer_stars(unit, MAX_HOPS)
        if outside and name not in tables.MODULE_NAMES:
            return Meaning((("X", candidates([f"{one}.{name}" for one in outside]), None),), UNKNOWN)
        return NOT_KNOWN

    def module_name(self, unit: Unit, name: str, hops: int) -> Meaning | None:
        """What a module binds a name to, also by star imports from this repository; None if it does not."""
        self.visit(unit.package, "", name)
        known: Meaning | None = unit.cache.get(("n", name))
        if known is not None and known.need <= hops:
            return self.used(known, hops)
        bindings = [(file, found) for file in unit.files if (found := file.names.get(0, {}).get(name))]
        if bindings:
            return self.kept(unit.cache, ("n", name), hops, self._bound, unit, "", name, bindings, hops)
        if not unit.files or (name.startswith("__") and name in tables.MODULE_NAMES):
            return None
        for star in self.stars(unit):
            if star[0] == "M" and star[1] != unit.package and self.enough(hops):
                other = self.tree.unit(star[1])
                if self.exports(other, name):
                    brought = self.module_name(other, name, hops - 1)
                    if brought is not None:
                        return Meaning(brought.values, brought.flags, brought.need + 1)
        return None

    def exports(self, unit: Unit, name: str) -> bool:
        """Whether a star import of a module brings a name."""
        self.visit(unit.package, "", "*")
        listed = [file.summary["all"] for file in unit.files if file.summary.get("all") is not None]
        if listed:
            return any(name in one for one in listed)
        return not name.startswith("_")

    def stars(self, unit: Unit) -> list[Value]:
        """The modules that a module imports with a star, here and elsewhere."""
        self.visit(unit.package, "", "*")
        if not unit.has_stars:
            return []
        found: list[Value] = []
        for file in unit.files:
            for scope, level, module, name, *_ in file.summary.get("imports", ()):
                if name == "*" and scope == 0:
                    value = self.module(unit, level, module)
                    if value is not None:
                        found.append(value)
        return found[:MAX_STARS]

    def outer_stars(self, unit: Unit, hops: int) -> list[str]:
        """The modules of others that a module imports with a star, also by way of modules of this repository."""
        found: list[str] = []
        for star in self.stars(unit):
            if star[0] == "X":
                found.append(star[1])
            elif hops > 0 and star[1] != unit.package:
                found += self.outer_stars(self.tree.unit(star[1]), hops - 1)
        return list(dict.fromkeys(found))[:MAX_STARS]

    def _local(self, file: SourceFile, rest: str, hops: int) -> Meaning:
        where, _, name = rest.partition(":")
        name, _, chosen = name.partition("@")
        scope = int(where)
        bindings = file.names.get(scope, {}).get(name)
        if not bindings:
            return NOT_KNOWN
        if file.scopes[scope][KIND] == "c":
            qualified = file.scopes[scope][QUALIFIED]
            return self._bound(file.unit, qualified, name, [(file, bindings)], hops)
        if chosen:
            indexes = [int(one) for one in chosen.split(",")]
            bindings = [bindings[one] for one in indexes if one < len(bindings)]
        key = ("l", file.path, rest)
        return self.kept(file.unit.cache, key, hops, self._variables, file, bindings, hops)

    def _variables(self, file: SourceFile, bindings: list[Any], hops: int) -> Meaning:
        if not self.enough(hops):
            return STOPPED
        found = [self._binding(file, one, hops - 1) for one in bindings]
        together = union(found)
        inferred = 0 if len(bindings) == 1 and bindings[0][0] in "dci" else INFERRED
        return Meaning(together.values, together.flags | inferred, together.need + 1)

    def _bound(
        self, unit: Unit, qualified: str, name: str, bindings: list[tuple[SourceFile, list[Any]]], hops: int
    ) -> Meaning:
        """What a module or class binds a name to: its definitions, else a variable of that name."""
        found: list[Meaning] = []
        for file, several in bindings:
            found += [self._binding(file, one, hops) for one in several if one[0] in "dci"]
        own = f"{qualified}.{name}" if qualified else name
        kind = unit.kinds.get(own)
        if kind in {"var", "const", "field"}:
            found.append(Meaning((("V", unit.package, qualified, name, None),)))
        merged = union(found)
        outside = [one[1] for one in merged.values if one[0] == "X"]
        if len(outside) > 1:
            others = tuple(one for one in merged.values if one[0] != "X")
            return Meaning((*others, ("X", candidates(outside), None)), merged.flags | INFERRED, merged.need)
        several_places = len(merged.values) > 1
        return Meaning(merged.values, merged.flags | (INFERRED if several_places else 0), merged.need)

    def _binding(self, file: SourceFile, binding: list[Any], hops: int) -> Meaning:
        kind = binding[0]
        package = file.unit.package
        if kind == "=":
            return self.values(file, binding[1], hops)
        if kind == ":":
            declared = self.annotation(file, binding[2], binding[1], hops)
            if binding[3]:
                value: Value = ("B", "builtins.tuple", "element", (declared.values,))
                if binding[3] == "**":
                    value = ("B", "builtins.dict", "dict", ((), declared.values))
                return Meaning((value,), declared.flags & CUT, declared.need)
            if not declared.values and binding[4] >= 0:
                return self.values(file, binding[4], hops)
            return declared
        if kind == "d":
            return Meaning((("F", package, file.scopes[binding[1]][QUALIFIED], None),))
        if kind == "c":
            return Meaning((("C", package, file.scopes[binding[1]][QUALIFIED], ""),))
        if kind == "i":
            return self.imported(file.unit, binding[1], binding[2], binding[3], hops)
        if kind == "p":
            return self._parameter(file, binding, hops)
        if kind in "sk":
            qualified = file.scopes[binding[1]][QUALIFIED]
            return Meaning((("I" if kind == "s" else "C", package, qualified, SELF),))
        return NOT_KNOWN

    def _parameter(self, file: SourceFile, binding: list[Any], hops: int) -> Meaning:
        """A parameter without a type is of the type that the method which it overrides declares."""
        _, number, name, default = binding
        owner, _, method = file.scopes[number][QUALIFIED].rpartition(".")
        if not self.enough(hops):
            return STOPPED
        order = self.order(file.unit.package, owner, hops - 1)
        for base in order.values[1:]:
            if base[0] != "C":
                break
            unit = self.tree.unit(base[1])
            self.visit(base[1], f"{base[2]}.{method}", "<parameters>")
            for declared, scope in unit.declared.get(f"{base[2]}.{method}", ()):
                written = declared.scopes[scope][TYPES].get(name) if declared.scopes[scope][KIND] == "f" else None
                if written is not None:
                    found = self.annotation(declared, declared.scopes[scope][PARENT], written, hops - 1)
                    return Meaning(found.values, found.flags, max(found.need, order.need) + 1)
        found = self.values(file, default, hops - 1) if default >= 0 else NOT_KNOWN
        return Meaning(found.values, found.flags | (order.flags & CUT), max(found.need, order.need) + 1)

    def module(self, unit: Unit, level: int, dotted: str) -> Value | None:
        """The module that an import statement names."""
        key = (unit.package, level, dotted)
        found = self._imports.get(key)
        if found is None:
            visited: list[str] = []
            found = self._imports[key] = (self._module(unit, level, dotted, visited), visited)
        self.deps.update(found[1])
        return found[0]

    def _module(self, unit: Unit, level: int, dotted: str, visited: list[str]) -> Value | None:
        modules = self.tree.modules
        if level == 0:
            package = modules.find(dotted, unit.package, visited)
            return ("M", package) if package is not None else ("X", dotted, None)
        home = unit.package
        visited.append(f"@{home}")
        for _ in range(level - (1 if home in modules.packages else 0)):
            if not home:
                return None
            home = home.rpartition("/")[0]
        target = "/".join(part for part in (home, dotted.replace(".", "/")) if part)
        visited.append(f"@{target}")
        if target in modules.units:
            return ("M", target)
        # Not here: a C extension, or generated. Its name is known if that of a package around it is.
        parent, _, last = target.rpartition("/")
        missing = [last]
        while parent and not modules.names(parent):
            parent, _, last = parent.rpartition("/")
            missing.append(last)
        names = modules.names(parent) if parent else []
        visited.append("\0roots")
        return ("X", ".".join([names[0][0], *reversed(missing)]), None) if names else None

    def imported(self, unit: Unit, level: int, dotted: str, name: str, hops: int) -> Meaning:
        """What an import binds."""
        module = self.module(unit, level, dotted)
        if module is None:
            return NOT_KNOWN
        if not name:
            return Meaning((module,))
        if not self.enough(hops):
            return STOPPED
        found = self.member_of(module, name, hops - 1, importing=unit.package)
        return Meaning(found.values, found.flags, found.need + 1)

    def canonical(self, package: str) -> str:
        """The import name of a unit, or an empty text."""
        names = self.tree.modules.names(package)
        self.deps.add("\0roots")
        return names[0][0] if names else ""
