"""What expressions mean: from an entry of a file's table to symbols and values of this repository or of others.

Promises: the meaning of an entry depends on the summaries and the number of hops that are left, on nothing else. So
results can be kept and asked for in any order, and a circle ends where the hops do. Every name that is looked up in a
unit, found or not, is noted as a key.

A meaning is a list of tuples, in source order:

    ("M", package)                      a module or namespace package
    ("C", package, class, mark)         a class; marked "self" where a subclass may be meant
    ("F", package, function, bound)     a function or method, with the instance or class it is bound to
    ("V", package, class, name, bound)  a variable of a module (class "") or an attribute
    ("I", package, class, mark)         an instance of a class, marked as above
    ("S", package, class, level)        `super()`
    ("X", path, results)                something outside, by its path; with what calling it gives, if that is known
    ("B", path, rule, args)             an instance of a generic type of the standard library, its arguments known
    ("K", results)                      a function without a name        ("T", bounds)   a type variable
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from knowing_protocol.standard_library import BUILTIN_MEMBERS

from knowingd.extract.limits import MAX_HOPS, MAX_ORDER, MAX_QUALIFIED_BYTES, MAX_STARS, MAX_VALUES
from knowingd.extract.python import tables
from knowingd.extract.python.annotations import Tree as Annotation
from knowingd.extract.python.annotations import parse_annotation
from knowingd.extract.python.tree import (
    ANNOTATION,
    BASES,
    DECORATORS,
    FLAGS,
    KIND,
    PARENT,
    QUALIFIED,
    RETURNS,
    TYPES,
    YIELDS,
    SourceFile,
    Tree,
    Unit,
)

Value = tuple[Any, ...]
UNKNOWN: Final = 1  # there may be other meanings
INFERRED: Final = 2  # found by way of a type, not by names alone
CUT: Final = 4  # the hops were used up
SELF: Final = "self"


_NO_KEYS: Final[frozenset[str]] = frozenset()


class Meaning:
    """What an entry means: values in source order, flags, and how many hops that took."""

    __slots__ = ("deps", "flags", "need", "values")

    def __init__(self, values: tuple[Value, ...] = (), flags: int = 0, need: int = 0) -> None:
        self.values = values
        self.flags = flags
        self.need = need
        self.deps: frozenset[str] = _NO_KEYS


NOTHING: Final = Meaning()
NOT_KNOWN: Final = Meaning((), UNKNOWN)
STOPPED: Final = Meaning((), CUT)


def union(found: Iterable[Meaning], flags: int = 0) -> Meaning:
    """All meanings together; too many are unknown."""
    values: dict[Value, None] = {}
    need = 0
    for one in found:
        flags |= one.flags
        need = max(need, one.need)
        for value in one.values:
            values[value] = None
    if len(values) > MAX_VALUES:
        return Meaning((), flags | UNKNOWN, need)
    return Meaning(tuple(values), flags, need)


class Evaluator:
    """Evaluates entries of all files of a tree, and keeps what it found."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.deps: set[str] = set()
        self._imports: dict[tuple[str, int, str], tuple[Value | None, list[str]]] = {}

    def visit(self, package: str, scope: str, name: str) -> None:
        """Note that a name was looked up in a scope of a unit."""
        self.deps.add(f"{package}\0{scope}\0{name}")

    def _kept(
        self, cache: dict[Any, Any], key: Any, hops: int, compute: Callable[..., Meaning], *given: Any
    ) -> Meaning:
        """Compute something once for as many hops as it needs, and note what it looked at for everybody who asks."""
        found: Meaning | None = cache.get(key)
        if found is None or found.need > hops:
            cut_key = (key, hops)
            found = cache.get(cut_key)
            if found is None:
                outer, self.deps = self.deps, set()
                result = compute(*given)
                found = Meaning(result.values, result.flags, result.need)
                if self.deps:
                    found.deps = frozenset(self.deps)
                self.deps = outer
                cache[cut_key if found.flags & CUT else key] = found
        if found.deps:
            self.deps |= found.deps
        return found

    # Entries of a table

    def symbols(self, file: SourceFile, number: int, hops: int = MAX_HOPS) -> Meaning:
        """What an entry names: definitions, where it names any."""
        found: Meaning | None = file.memo.get(number)
        if found is not None and found.need <= hops:
            if found.deps:
                self.deps |= found.deps
            return found
        base, step = file.table[number]
        if base < 0 and step[0] in "SCUKBN?":  # these look at nothing
            found = file.memo[number] = self._head(file, step, hops)
            return found
        return self._kept(file.memo, number, hops, self._symbols, file, number, hops)

    def values(self, file: SourceFile, number: int, hops: int = MAX_HOPS) -> Meaning:
        """The values that an entry may have."""
        found = self.symbols(file, number, hops)
        for value in found.values:
            if value[0] in "VF":
                return self._kept(file.memo, ("v", number), hops, self.dereference, found, hops)
        return found

    def _symbols(self, file: SourceFile, number: int, hops: int) -> Meaning:
        base, step = file.table[number]
        if base < 0:
            return self._head(file, step, hops)
        if step[0] == ".":
            return self.attribute(self.values(file, base, hops), step[1:], hops)
        receiver = self.values(file, base, hops)
        if step[0] == "(":
            return union([self._call(file, one, step, hops) for one in receiver.values], receiver.flags)
        return union([self._operate(one, step, hops) for one in receiver.values], receiver.flags)

    def _head(self, file: SourceFile, step: str, hops: int) -> Meaning:
        mark, rest = step[0], step[1:]
        if mark == "G":
            return self.global_name(file.unit, rest, hops)
        if mark == "L":
            return self._local(file, rest, hops)
        if mark in "SCUK":
            qualified = file.scopes[int(rest.partition(":")[0])][QUALIFIED]
            package = file.unit.package
            if mark in "SC":
                return Meaning((("I" if mark == "S" else "C", package, qualified, SELF),))
            return Meaning((("S", package, qualified, "i" if mark == "U" else "k"),))
        if mark == "B":
            return Meaning((("X", f"builtins.{rest}()", None),))
        if mark == "N":
            return NOTHING
        if mark in "|[{(\\":
            return self._composed(file, mark, [int(one) for one in rest.split(";") if one], hops)
        return NOT_KNOWN

    def _composed(self, file: SourceFile, mark: str, numbers: list[int], hops: int) -> Meaning:
        if hops <= 0:
            return STOPPED
        parts = [self.values(file, one, hops - 1) for one in numbers]
        together = union(parts)
        need = together.need + 1
        if mark == "|":
            return Meaning(together.values, together.flags | INFERRED, need)
        if mark == "\\":
            return Meaning((("K", together.values),), together.flags & CUT, need)
        if mark == "(":
            arguments: tuple[Any, ...] = tuple(one.values for one in parts)
            value: Value = ("B", "builtins.tuple", "tuple", arguments)
        elif mark == "{":
            value = ("B", "builtins.dict", "dict", ((), together.values))
        else:
            value = ("B", "builtins.list", "element", (together.values,))
        return Meaning((value,), together.flags & CUT, need)

    # Names

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
            self.deps |= known.deps
            return known
        bindings = [(file, found) for file in unit.files if (found := file.names.get(0, {}).get(name))]
        if bindings:
            return self._kept(unit.cache, ("n", name), hops, self._bound, unit, "", name, bindings, hops)
        if not unit.files or (name.startswith("__") and name in tables.MODULE_NAMES):
            return None
        for star in self.stars(unit):
            if star[0] == "M" and hops > 0 and star[1] != unit.package:
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
        return self._kept(file.unit.cache, key, hops, self._variables, file, bindings, hops)

    def _variables(self, file: SourceFile, bindings: list[Any], hops: int) -> Meaning:
        if hops <= 0:
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
        if hops <= 0:
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

    # Imports

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
        if hops <= 0:
            return STOPPED
        found = self._attribute(module, name, hops - 1, importing=unit.package)
        return Meaning(found.values, found.flags, found.need + 1)

    def canonical(self, package: str) -> str:
        """The import name of a unit, or an empty text."""
        names = self.tree.modules.names(package)
        self.deps.add("\0roots")
        return names[0][0] if names else ""

    # Attributes

    def attribute(self, receiver: Meaning, name: str, hops: int) -> Meaning:
        """A member of whatever a receiver may be."""
        if len(receiver.values) == 1:
            found = self._attribute(receiver.values[0], name, hops)
            if not receiver.flags & ~found.flags and receiver.need <= found.need:
                return found
            return Meaning(found.values, found.flags | receiver.flags, max(found.need, receiver.need))
        possible = [one for one in receiver.values if not _lacks(one, name)]
        found = union([self._attribute(one, name, hops) for one in possible], receiver.flags)
        return Meaning(found.values, found.flags, max(found.need, receiver.need))

    def _attribute(self, value: Value, name: str, hops: int, importing: str | None = None) -> Meaning:
        kind = value[0]
        if kind == "X":
            return self._outer_attribute(value, name)
        if kind == "M":
            return self._module_attribute(value[1], name, hops, importing)
        if kind in {"I", "C"}:
            if name == "__class__" and kind == "I":
                return Meaning((("C", *value[1:]),))
            return self.member(value, name, hops)
        if kind == "S":
            return self._super_member(value, name, hops)
        if kind == "F":
            return self._function_attribute(value, name, hops)
        if kind == "B":
            return self._generic_attribute(value, name)
        return NOT_KNOWN

    def _outer_attribute(self, value: Value, name: str) -> Meaning:
        path = f"{value[1]}.{name}"
        if len(path) > MAX_QUALIFIED_BYTES or path.count(".") > 40:
            return NOT_KNOWN
        results = None
        if value[1].startswith("builtins.") and value[1].endswith("()"):
            method = path[9:].replace("()", "")
            if method in tables.SAME_BUILTIN:
                results = (("X", value[1], None),)
            elif method in tables.OTHER_BUILTIN:
                results = (("X", f"builtins.{tables.OTHER_BUILTIN[method]}()", None),)
        return Meaning((("X", path, results),))

    def _module_attribute(self, package: str, name: str, hops: int, importing: str | None = None) -> Meaning:
        unit = self.tree.unit(package)
        # `from . import x` inside of the package itself finds the submodule: the name is only being bound.
        found = self.module_name(unit, name, hops) if importing != package else None
        if found is not None and (found.values or found.flags):
            return found
        below = f"{package}/{name}" if package else name
        self.deps.add(f"@{below}")
        if below in self.tree.modules.units:
            return Meaning((("M", below),))
        if found is not None:
            return found
        if importing == package:
            inside = self.module_name(unit, name, hops)
            if inside is not None:
                return inside
        dotted = self.canonical(package)
        outside = [f"{one}.{name}" for one in self.outer_stars(unit, hops)] if unit.files else []
        if outside:
            return Meaning((("X", candidates(outside), None),), UNKNOWN)
        return Meaning((("X", f"{dotted}.{name}", None),)) if dotted else NOT_KNOWN

    def order(self, package: str, qualified: str, hops: int) -> Meaning:
        """A class and its bases in method resolution order, as ("C", …), ("X", …) and ("?",)."""
        unit = self.tree.unit(package)
        return self._kept(unit.cache, ("o", qualified), hops, self._order, unit, qualified, hops)

    def bases(self, unit: Unit, qualified: str, hops: int) -> Meaning:
        """The bases of a class as they are written."""
        found: list[Value] = []
        flags = need = 0
        self.visit(unit.package, qualified, "<bases>")
        for file, number in unit.declared.get(qualified, ()):
            if file.scopes[number][KIND] != "c":
                continue
            for entry in file.scopes[number][BASES]:
                meaning = self.values(file, entry, hops)
                need = max(need, meaning.need)
                flags |= meaning.flags & CUT
                classes = [one for one in meaning.values if one[0] == "C" or (one[0] == "X" and one[1][-1] != ")")]
                found += [("C", *one[1:3], "") if one[0] == "C" else ("X", one[1], None) for one in classes]
                if meaning.flags & (UNKNOWN | CUT) or len(classes) != 1:
                    found.append(("?",))
        return Meaning(tuple(dict.fromkeys(found)), flags, need)

    def _order(self, unit: Unit, qualified: str, hops: int) -> Meaning:
        own: Value = ("C", unit.package, qualified, "")
        if hops <= 0:
            return Meaning((own, ("?",)), CUT)
        bases = self.bases(unit, qualified, hops - 1)
        flags, need = bases.flags, bases.need
        orders: list[list[Value]] = []
        for base in bases.values:
            if base[0] == "C" and base != own:
                above = self.order(base[1], base[2], hops - 1)
                flags |= above.flags & CUT
                need = max(need, above.need)
                orders.append(list(above.values))
            elif base[0] == "X" and base[1] in tables.INERT_BASES:
                continue
            else:
                orders.append([base])
        written = [one[0] for one in orders]
        merged = merge([*orders, written]) if sum(map(len, orders)) <= MAX_ORDER else [*written, ("?",)]
        return Meaning((own, *merged), flags, need + 1)

    def member(self, value: Value, name: str, hops: int, skip: int = 0) -> Meaning:
        """A member of a class or of its instance: the first in the resolution order, outside of it otherwise."""
        package, qualified = value[1], value[2]
        instance = value[0] == "I"
        order = self.order(package, qualified, hops)
        flags = order.flags & CUT
        outside: list[str] = []
        unknown = False
        for base in order.values[skip:]:
            if base[0] == "C":
                found = self._own_member(base[1], base[2], name, hops)
                if found is not None:
                    doubt = INFERRED if outside or unknown else 0
                    values = tuple(_bind(one, value) for one in found.values)
                    return Meaning(values, found.flags | flags | doubt, max(found.need, order.need))
            elif base[0] == "X":
                outside.append(base[1])
            else:
                unknown = True
        if name == "__new__" and not unknown:
            made: Value = ("I", package, qualified, value[3])
            path = f"{candidates(outside)}.__new__" if outside else "builtins.object.__new__"
            return Meaning((("X", path, (made,)),), flags | INFERRED, order.need)
        if outside and not unknown:
            call = "()" if instance else ""
            return Meaning((("X", f"{candidates(outside)}{call}.{name}", None),), flags, order.need)
        if not outside and not unknown and name.startswith("__") and name.endswith("__"):
            return Meaning((("X", f"builtins.object{'()' if instance else ''}.{name}", None),), flags, order.need)
        return Meaning((), flags | UNKNOWN, order.need)

    def _own_member(self, package: str, qualified: str, name: str, hops: int) -> Meaning | None:
        unit = self.tree.unit(package)
        self.visit(package, qualified, name)
        bindings = []
        for file, number in unit.declared.get(qualified, ()):
            found = file.names.get(number, {}).get(name)
            if found:
                bindings.append((file, found))
            elif name in file.attributes.get(number, ()):
                bindings.append((file, []))
        if not bindings:
            return None
        return self._kept(unit.cache, ("m", qualified, name), hops, self._bound, unit, qualified, name, bindings, hops)

    def _super_member(self, value: Value, name: str, hops: int) -> Meaning:
        own = ("I" if value[3] == "i" else "C", value[1], value[2], SELF)
        return self.member(own, name, hops, skip=1)

    def _function_attribute(self, value: Value, name: str, hops: int) -> Meaning:
        """Functions have no members but those that a decorator gives them."""
        if hops <= 0:
            return STOPPED
        unit = self.tree.unit(value[1])
        self.visit(value[1], value[2], "()")
        for file, number in unit.declared.get(value[2], ()):
            decorators = file.scopes[number][DECORATORS]
            if decorators:
                applied = self.values(file, decorators[0][1], hops - 1)
                for one in applied.values:
                    if one[0] == "X" and not one[1].startswith(("builtins.", "functools.", "contextlib.", "abc.")):
                        return Meaning((("X", f"{one[1]}().{name}", None),), UNKNOWN | INFERRED, applied.need + 1)
                    if one[0] in "CF":
                        made = self.call(one, hops - 1)
                        instances = Meaning(tuple(v for v in made.values if v[0] == "I"), made.flags, made.need)
                        if instances.values:
                            found = self.attribute(instances, name, hops - 1)
                            return Meaning(found.values, found.flags | INFERRED, max(found.need, applied.need) + 1)
                return Meaning((), UNKNOWN, applied.need + 1)
        return NOT_KNOWN

    def _generic_attribute(self, value: Value, name: str) -> Meaning:
        _, path, rule, arguments = value
        results: tuple[Value, ...] | None = None
        if rule == "dict" and len(arguments) == 2:
            if name in {"get", "pop", "setdefault", "__getitem__"}:
                results = arguments[1]
            elif name == "values":
                results = (("B", "typing.ValuesView", "element", (arguments[1],)),)
            elif name == "keys":
                results = (("B", "typing.KeysView", "element", (arguments[0],)),)
            elif name == "items":
                pair = ("B", "builtins.tuple", "tuple", (arguments[0], arguments[1]))
                results = (("B", "typing.ItemsView", "element", ((pair,),)),)
            elif name == "copy":
                results = (value,)
        elif rule == "element" and arguments:
            if name in {"pop", "popleft", "__next__", "__anext__", "__getitem__", "send"}:
                results = arguments[0]
            elif name in {"copy", "__add__", "__iter__", "union", "__or__", "intersection", "difference"}:
                results = (value,)
        return Meaning((("X", f"{path}().{name}", results),))

    # Values of variables, and results of calls

    def dereference(self, found: Meaning, hops: int) -> Meaning:
        """The values of what was named: those of variables and properties, everything else itself."""
        parts: list[Meaning] = []
        for value in found.values:
            if value[0] == "V":
                parts.append(self.variable(value, hops))
            elif value[0] == "F" and value[3] is not None and self.is_property(value):
                result = self._result(value, hops)
                parts.append(Meaning(result.values, result.flags | INFERRED, result.need))
            else:
                parts.append(Meaning((value,)))
        together = union(parts, found.flags)
        return Meaning(together.values, together.flags, max(together.need, found.need))

    def is_property(self, value: Value) -> bool:
        """Whether a method is read like an attribute."""
        unit = self.tree.unit(value[1])
        return any(
            name.endswith("property")
            for file, number in unit.declared.get(value[2], ())
            for name, _ in file.scopes[number][DECORATORS]
        )

    def variable(self, value: Value, hops: int) -> Meaning:
        """The values of a variable or attribute."""
        if hops <= 0:
            return STOPPED
        _, package, qualified, name, bound = value
        unit = self.tree.unit(package)
        found = self._kept(unit.cache, ("v", qualified, name), hops, self._variable, unit, qualified, name, hops)
        return _bound_values(found, bound)

    def _variable(self, unit: Unit, qualified: str, name: str, hops: int) -> Meaning:
        self.visit(unit.package, qualified, name)
        declared: list[Meaning] = []
        assigned: list[Meaning] = []
        places = unit.declared.get(qualified, ()) if qualified else [(file, 0) for file in unit.files]
        for file, number in places:
            for binding in file.names.get(number, {}).get(name, ()):
                if binding[0] == ":":
                    declared.append(self._binding(file, binding, hops - 1))
                elif binding[0] in "=?":
                    assigned.append(self._binding(file, binding, hops - 1))
            for _, *binding in file.attributes.get(number, {}).get(name, ()):
                into = declared if binding[0] == ":" else assigned
                into.append(self._binding(file, binding, hops - 1))
        order = self.order(unit.package, qualified, hops - 1) if qualified else NOTHING
        if any(one[0] == "X" and one[1] in tables.ENUMS for one in order.values) and not name.startswith("_"):
            return Meaning((("I", unit.package, qualified, ""),), INFERRED | (order.flags & CUT), order.need + 1)
        known = [one for one in declared if one.values]
        together = union(known or assigned or declared, INFERRED)
        if not together.values and qualified:
            inherited = self._inherited(unit, qualified, name, hops - 1)
            if inherited.values:
                together = union([together, inherited])
        return Meaning(together.values, together.flags | (order.flags & CUT), max(together.need, order.need) + 1)

    def _inherited(self, unit: Unit, qualified: str, name: str, hops: int) -> Meaning:
        """The type that a base declares for an attribute which a class sets to something unknown."""
        found = self.member(("I", unit.package, qualified, SELF), name, hops, skip=1)
        variables = [one for one in found.values if one[0] == "V"]
        if len(variables) != 1 or hops <= 0:
            return Meaning((), found.flags & CUT, found.need)
        above = self.variable(variables[0], hops - 1)
        return Meaning(above.values, above.flags, max(above.need, found.need) + 1)

    def _result(self, value: Value, hops: int) -> Meaning:
        """What calling a function gives."""
        if hops <= 0:
            return STOPPED
        _, package, qualified, bound = value
        unit = self.tree.unit(package)
        found = self._kept(unit.cache, ("r", qualified), hops, self._results, unit, qualified, hops)
        return _bound_values(found, bound)

    def result_of(self, package: str, qualified: str) -> Meaning:
        """The same, for facts."""
        return self._result(("F", package, qualified, None), MAX_HOPS)

    def _results(self, unit: Unit, qualified: str, hops: int) -> Meaning:
        self.visit(unit.package, qualified, "()")
        places = [one for one in unit.declared.get(qualified, ()) if one[0].scopes[one[1]][KIND] == "f"]
        overloads = [one for one in places if any(n == "overload" for n, _ in one[0].scopes[one[1]][DECORATORS])]
        annotated = [one for one in overloads or places if one[0].scopes[one[1]][ANNOTATION] is not None]
        setters = {"setter", "deleter"}
        places = [one for one in places if not any(n in setters for n, _ in one[0].scopes[one[1]][DECORATORS])]
        parts = [self._declared_result(file, number, hops - 1) for file, number in annotated or places]
        together = union(parts, INFERRED)
        if overloads and len(together.values) > 1:
            return Meaning((), UNKNOWN | INFERRED | (together.flags & CUT), together.need + 1)
        return Meaning(together.values, together.flags, together.need + 1)

    def _declared_result(self, file: SourceFile, number: int, hops: int) -> Meaning:
        scope = file.scopes[number]
        marks = {name for name, _ in scope[DECORATORS]}
        context = bool(marks & {"contextmanager", "asynccontextmanager"})
        if scope[ANNOTATION] is not None:
            found = self._annotated_result(file, number, scope, hops)
            if context:
                elements = [v for one in found.values if one[0] == "B" and one[3] for v in one[3][0]]
                return Meaning(
                    (("B", "typing.ContextManager", "context", (tuple(elements),)),), found.flags, found.need
                )
            return found
        if scope[YIELDS]:
            yielded = union([self.values(file, one, hops) for one in scope[YIELDS]])
            rule = ("typing.ContextManager", "context") if context else ("typing.Generator", "element")
            return Meaning((("B", *rule, (yielded.values,)),), yielded.flags & CUT, yielded.need)
        if "e" in scope[FLAGS]:
            return NOT_KNOWN
        return union([self.values(file, one, hops) for one in scope[RETURNS]])

    def _annotated_result(self, file: SourceFile, number: int, scope: list[Any], hops: int) -> Meaning:
        first = next((b for b in file.names.get(number, {}).values() if b and b[0][0] in "sk"), None)
        written = scope[ANNOTATION].strip("'\" ")
        package, owner = file.unit.package, file.class_of(number)
        if first is not None and owner and first[0][2] and written in first[0][2]:
            return Meaning((("I", package, owner, SELF),))  # def method(self: T) -> T
        return self.annotation(file, scope[PARENT], scope[ANNOTATION], hops)

    def _call(self, file: SourceFile, value: Value, step: str, hops: int) -> Meaning:
        kind = value[0]
        if kind == "X":
            return self._outer_call(file, value, step, hops)
        if kind == "C":
            return Meaning((("I", *value[1:]),))
        if kind == "F":
            return self._result(value, hops)
        if kind == "K":
            return Meaning(value[1], INFERRED)
        if kind == "I":
            return self._through(value, "__call__", hops)
        return NOT_KNOWN

    def call(self, value: Value, hops: int) -> Meaning:
        """The result of a call without arguments."""
        if value[0] == "X":
            return Meaning(value[2], INFERRED) if value[2] is not None else Meaning((("X", value[1] + "()", None),))
        if value[0] == "F":
            return self._result(value, hops)
        return Meaning((("I", *value[1:]),)) if value[0] == "C" else NOT_KNOWN

    def _through(self, value: Value, method: str, hops: int) -> Meaning:
        """The result of a method of a value."""
        found = self._attribute(value, method, hops)
        parts = [self.call(one, hops) for one in found.values]
        together = union(parts, found.flags)
        return Meaning(together.values, together.flags | INFERRED, max(together.need, found.need))

    def _outer_call(self, file: SourceFile, value: Value, step: str, hops: int) -> Meaning:
        path: str = value[1]
        if value[2] is not None:
            return Meaning(value[2], INFERRED)
        if len(path) > MAX_QUALIFIED_BYTES:
            return NOT_KNOWN
        if step.startswith("(:"):
            if path.endswith(".cast"):
                return self.annotation(file, 0, step[2:], hops)
            if path.endswith(".TypeVar"):
                bound = self.annotation(file, 0, step[2:], hops)
                return Meaning((("T", bound.values),), bound.flags & CUT, bound.need)
        if path.endswith(".TypeVar"):
            return Meaning((("T", ()),))
        if step.startswith("(=") and hops > 0:
            found = self._by_arguments(file, path, [int(one) for one in step[2:].split(";")], hops - 1)
            if found is not None:
                return Meaning(found.values, found.flags | INFERRED, found.need + 1)
        if path in tables.DECLARERS:
            return NOT_KNOWN
        path = tables.CONSTRUCTORS.get(path, path)
        return Meaning((("X", f"{path}()", None),))

    def _by_arguments(self, file: SourceFile, path: str, entries: list[int], hops: int) -> Meaning | None:
        """The few functions whose results are what was put in."""
        if path in tables.FIRST_ARGUMENT:
            found = self.values(file, entries[0], hops)
            return found if found.values else None
        if path.rpartition(".")[2] in tables.ENTERED and path.startswith(("contextlib.", "unittest.")):
            return self._operated(file, entries[0], "^", hops)
        if path in tables.ONE_ELEMENT:
            return self._operated(file, entries[0], "*", hops) if len(entries) == 1 else None
        if path in tables.ELEMENTS:
            found = self._operated(file, entries[-1], "*", hops)
            if not found.values:
                return None
            return Meaning((("B", path, "element", (found.values,)),), found.flags & CUT, found.need)
        if path in {"builtins.enumerate", "builtins.zip"}:
            elements = [self._operated(file, one, "*", hops) for one in entries]
            counted: tuple[Value, ...] = (("X", "builtins.int()", None),)
            inside = tuple(one.values for one in elements)
            pair = ("B", "builtins.tuple", "tuple", (counted, *inside) if path == "builtins.enumerate" else inside)
            together = union(elements)
            return Meaning((("B", path, "element", ((pair,),)),), together.flags & CUT, together.need)
        if path == "builtins.type" and len(entries) == 1:
            found = self.values(file, entries[0], hops)
            classes = tuple(("C", *one[1:]) for one in found.values if one[0] == "I")
            return Meaning(classes, found.flags, found.need) if classes else None
        return None

    def _operated(self, file: SourceFile, entry: int, step: str, hops: int) -> Meaning:
        receiver = self.values(file, entry, hops)
        found = union([self._operate(one, step, hops) for one in receiver.values], receiver.flags)
        return Meaning(found.values, found.flags, max(found.need, receiver.need))

    def _operate(self, value: Value, step: str, hops: int) -> Meaning:
        """Subscripts, iteration and `with`."""
        kind = value[0]
        if kind == "B":
            return _generic_operation(value, step)
        if kind == "X":
            path = value[1] + _PATH_OF_STEP.get(step, ".__getitem__()")
            if step == "[:]":
                return Meaning((value,))
            return Meaning((("X", path, None),)) if len(path) <= MAX_QUALIFIED_BYTES else NOT_KNOWN
        if kind == "C" and step.startswith("["):
            return Meaning((value,))  # a generic class with its arguments
        if kind != "I" or hops <= 0:
            return STOPPED if hops <= 0 else NOT_KNOWN
        found = self._operate_on_instance(value, step, hops)
        order = self.order(value[1], value[2], hops - 1)
        return Meaning(found.values, found.flags | (order.flags & CUT), max(found.need, order.need + 1))

    def _operate_on_instance(self, value: Value, step: str, hops: int) -> Meaning:
        held = self._held(value, step, hops - 1) if step[0] in "[*" else None
        if held is not None:
            return Meaning(held.values, held.flags, held.need + 1)
        if step[0] == "[":
            field = self._tuple_field(value, step, hops)
            return field if field is not None else self._through(value, "__getitem__", hops)
        if step[0] == "^":
            return self._through(value, "__aenter__" if step == "^~" else "__enter__", hops)
        first, second = ("__aiter__", "__anext__") if step == "*~" else ("__iter__", "__next__")
        iterator = self._through(value, first, hops)
        parts = []
        for one in iterator.values:
            if one[0] == "B":
                parts.append(_generic_operation(one, "*"))
            else:
                parts.append(self._through(one, second, hops))
        found = union(parts, iterator.flags)
        return Meaning(found.values, found.flags, max(found.need, iterator.need))

    def _held(self, value: Value, step: str, hops: int) -> Meaning | None:
        """What an instance of a class holds that extends a generic type: `class Rows(list[Row])`."""
        order = self.order(value[1], value[2], hops)
        if not any(one[0] == "X" for one in order.values):
            return None
        method = "__iter__" if step[0] == "*" else "__getitem__"
        for base in order.values:
            if base[0] != "C":
                continue
            if self._own_member(base[1], base[2], method, hops) is not None:
                return None
            self.visit(base[1], base[2], "<bases>")
            for file, number in self.tree.unit(base[1]).declared.get(base[2], ()):
                for written in file.scopes[number][TYPES] if file.scopes[number][KIND] == "c" else ():
                    typed = self.annotation(file, file.scopes[number][PARENT], written, hops)
                    for one in typed.values:
                        if one[0] == "B":
                            found = _generic_operation(one, step)
                            return Meaning(found.values, found.flags, max(typed.need, order.need))
        return None

    def _tuple_field(self, value: Value, step: str, hops: int) -> Meaning | None:
        """A field of a named tuple by its index, as unpacking takes it."""
        index = step[1:-1]
        order = self.order(value[1], value[2], hops)
        if not index.isdigit() or ("X", "typing.NamedTuple", None) not in order.values:
            return None
        unit = self.tree.unit(value[1])
        self.visit(value[1], value[2], "<fields>")
        for file, number in unit.declared.get(value[2], ()):
            fields = [name for name, found in file.names.get(number, {}).items() if found[0][0] == ":"]
            if int(index) < len(fields):
                return self.variable(("V", value[1], value[2], fields[int(index)], value), hops - 1)
        return None

    # Annotations

    def annotation(self, file: SourceFile, scope: int, text: str, hops: int) -> Meaning:
        """The values that an annotation in a scope allows."""
        if hops <= 0:
            return STOPPED
        key = ("a", file.path, file.owner(scope), text)
        found = self._kept(file.unit.cache, key, hops, self._typed, file, scope, parse_annotation(text), hops - 1)
        return Meaning(found.values, found.flags | INFERRED, found.need + 1)

    def _typed(self, file: SourceFile, scope: int, tree: Annotation, hops: int) -> Meaning:
        kind = tree[0]
        if kind == "or":
            return union([self._typed(file, scope, one, hops) for one in tree[1]])
        if kind == "none":
            return NOTHING
        if kind == "of":
            return self._generic(file, scope, tree, hops)
        if kind == "name":
            named = self._type_name(file, scope, tree[1], hops)
            parts = [self._instance(file, scope, one, (), hops) for one in named.values]
            together = union(parts, named.flags)
            return Meaning(together.values, together.flags, max(together.need, named.need))
        return NOT_KNOWN

    def _type_name(self, file: SourceFile, scope: int, dotted: str, hops: int) -> Meaning:
        name, *rest = dotted.split(".")
        found: Meaning | None = None
        number = scope
        while number > 0 and found is None:
            bindings = file.names.get(number, {}).get(name)
            if bindings and any(one[0] in "dci" for one in bindings):
                found = union([self._binding(file, one, hops) for one in bindings if one[0] in "dci"])
            number = file.scopes[number][PARENT]
        if found is None:
            found = self.global_name(file.unit, name, hops)
        for one in rest:
            found = self.attribute(found, one, hops)
        return found

    def _instance(
        self, file: SourceFile, scope: int, value: Value, arguments: tuple[Annotation, ...], hops: int
    ) -> Meaning:
        kind = value[0]
        if kind == "C":
            return Meaning((("I", value[1], value[2], ""),))
        if kind == "X":
            return self._outer_type(file, scope, value[1], arguments, hops)
        if kind == "V":
            return self._type_alias(value, hops)
        return NOT_KNOWN

    def _type_alias(self, value: Value, hops: int) -> Meaning:
        """A variable that stands for a type: `Name = Union[A, B]`, or a type variable."""
        if hops <= 0:
            return STOPPED
        _, package, qualified, name, _ = value
        unit = self.tree.unit(package)
        self.visit(package, qualified, name)
        places = unit.declared.get(qualified, ()) if qualified else [(file, 0) for file in unit.files]
        parts: list[Meaning] = []
        for file, number in places:
            for binding in file.names.get(number, {}).get(name, ()):
                if binding[0] == "=" and len(binding) > 2:
                    parts.append(self._typed(file, number, parse_annotation(binding[2]), hops - 1))
                elif binding[0] == "=":
                    meant = self.values(file, binding[1], hops - 1)
                    for one in meant.values:
                        if one[0] == "T":
                            parts.append(Meaning(one[1], UNKNOWN, meant.need))
                        else:
                            parts.append(self._instance(file, number, one, (), hops - 1))
                    parts.append(Meaning((), meant.flags, meant.need))
                elif binding[0] == ":" and binding[5]:
                    parts.append(self._typed(file, number, parse_annotation(binding[5]), hops - 1))
                elif binding[0] == ":" and binding[4] >= 0:
                    meant = self.values(file, binding[4], hops - 1)
                    parts += [self._instance(file, number, one, (), hops - 1) for one in meant.values]
                    parts.append(Meaning((), meant.flags, meant.need))
                else:
                    parts.append(NOT_KNOWN)
        together = union(parts)
        return Meaning(together.values, together.flags, together.need + 1)

    def _generic(self, file: SourceFile, scope: int, tree: Annotation, hops: int) -> Meaning:
        _, base, arguments = tree
        if base[0] != "name":
            return NOT_KNOWN
        named = self._type_name(file, scope, base[1], hops)
        parts = [self._instance(file, scope, one, arguments, hops) for one in named.values]
        together = union(parts, named.flags)
        return Meaning(together.values, together.flags, max(together.need, named.need))

    def _outer_type(
        self, file: SourceFile, scope: int, path: str, arguments: tuple[Annotation, ...], hops: int
    ) -> Meaning:
        if path.startswith("{"):  # the same type, out of `typing` or of its backport
            path = next((one for one in path[1:].partition("}")[0].split("|") if one in tables.TYPE_RULES), path)
        path = tables.TYPE_NAMES.get(path, path)
        rule = tables.TYPE_RULES.get(path)
        if rule is None:
            return Meaning((("X", f"{path}()", None),)) if len(path) <= MAX_QUALIFIED_BYTES else NOT_KNOWN
        if rule == "nothing":
            return NOTHING
        if rule == "self":
            owner = file.class_of(scope)
            return Meaning((("I", file.unit.package, owner, SELF),)) if owner else NOT_KNOWN
        if rule == "unknown" or (not arguments and rule in {"inner", "last", "union", "callable", "context"}):
            return NOT_KNOWN
        if rule == "type":
            if not arguments:
                return NOT_KNOWN
            inside = self._typed(file, scope, arguments[0], hops)
            classes = tuple(_class_of(one) for one in inside.values)
            return Meaning(tuple(one for one in classes if one), inside.flags, inside.need)
        if rule in {"inner", "last"}:
            return self._typed(file, scope, arguments[0 if rule == "inner" else -1], hops)
        meant = [self._typed(file, scope, one, hops) for one in arguments if one[0] not in {"dots", "list"}]
        together = union(meant)
        if rule == "union":
            return together
        flags, need = together.flags & CUT, together.need
        if rule == "callable":
            result = meant[-1].values if meant else ()
            return Meaning((("K", result),), flags, need)
        if rule == "tuple" and arguments and arguments[-1][0] == "dots":
            rule = "element"
        return Meaning((("B", path, rule, tuple(one.values for one in meant)),), flags, need)


_PATH_OF_STEP: Final = {
    "[]": ".__getitem__()",
    "*": ".__iter__().__next__()",
    "*~": ".__aiter__().__anext__()",
    "^": ".__enter__()",
    "^~": ".__aenter__()",
}


def _lacks(value: Value, name: str) -> bool:
    """Whether a builtin's instance certainly has no such member: then it is not what is meant."""
    path = value[1]
    if value[0] == "X" and path.startswith("builtins.") and path.endswith("()"):
        members = BUILTIN_MEMBERS.get(path[9:-2])
    elif value[0] == "B" and path.startswith("builtins."):
        members = BUILTIN_MEMBERS.get(path[9:])
    else:
        return False
    return members is not None and name not in members and not name.startswith("__")


def _class_of(value: Value) -> Value | None:
    if value[0] == "I":
        return ("C", *value[1:])
    return ("X", value[1][:-2], None) if value[0] == "X" and value[1].endswith("()") else None


def _generic_operation(value: Value, step: str) -> Meaning:
    _, _, rule, arguments = value
    if step == "[:]":
        return Meaning((value,))
    if step[0] == "^":
        return Meaning(arguments[0], INFERRED) if rule == "context" and arguments else NOT_KNOWN
    if rule == "tuple":
        if step.startswith("[") and step[1:-1].isdigit():
            index = int(step[1:-1])
            return Meaning(arguments[index], INFERRED) if index < len(arguments) else NOT_KNOWN
        return union([Meaning(one) for one in arguments], INFERRED)
    if rule == "element" and arguments:
        return Meaning(arguments[0], INFERRED if arguments[0] else UNKNOWN)
    if rule == "dict" and len(arguments) == 2:
        found = arguments[1] if step[0] == "[" else arguments[0]
        return Meaning(found, INFERRED if found else UNKNOWN)
    return NOT_KNOWN


def _bind(value: Value, receiver: Value) -> Value:
    if value[0] == "F" and value[3] is None:
        return (*value[:3], receiver)
    if value[0] == "V" and value[4] is None:
        return (*value[:4], receiver)
    return value


def _bound_values(found: Meaning, bound: Value | None) -> Meaning:
    """Put the receiver in the place of `self` in what a method returns or an attribute holds."""
    if bound is None or bound[0] not in {"I", "C"} or not any(one[-1] == SELF for one in found.values):
        return found
    values = tuple((one[0], *bound[1:]) if one[-1] == SELF and one[0] in "IC" else one for one in found.values)
    return Meaning(tuple(dict.fromkeys(values)), found.flags, found.need)


def candidates(paths: list[str]) -> str:
    """One path for several that may be meant, in source order."""
    distinct = list(dict.fromkeys(paths))
    if len(distinct) == 1:
        return distinct[0]
    plain = [one for one in distinct if "{" not in one]
    return "{" + "|".join(plain[:MAX_VALUES]) + "}" if len(plain) > 1 else distinct[0]


def merge(orders: list[list[Value]]) -> list[Value]:
    """The C3 merge; where the bases contradict each other, the order in which they are written."""
    merged: list[Value] = []
    orders = [list(order) for order in orders if order]
    while orders:
        for order in orders:
            if not any(order[0] in other[1:] for other in orders):
                head = order[0]
                break
        else:
            head = orders[0][0]
        merged.append(head)
        orders = [rest for order in orders if (rest := [one for one in order if one != head])]
    return merged
