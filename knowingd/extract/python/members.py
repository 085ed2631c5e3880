"""Members: attributes of modules, of classes and their instances in resolution order, and of whatever is outside."""

from __future__ import annotations

from knowing_protocol.walk import linearized

from knowingd.extract.limits import MAX_HOPS, MAX_ORDER, MAX_QUALIFIED_BYTES
from knowingd.extract.python import tables
from knowingd.extract.python.meaning import (
    CUT,
    INFERRED,
    NOT_KNOWN,
    SELF,
    STOPPED,
    UNKNOWN,
    Meaning,
    Value,
    bind_to,
    candidates,
    lacks,
    union,
)
from knowingd.extract.python.names import Names
from knowingd.extract.python.tree import BASES, DECORATORS, KIND, Unit


class Members(Names):
    """Looks up attributes."""

    def attribute(self, receiver: Meaning, name: str, hops: int) -> Meaning:
        """A member of whatever a receiver may be."""
        if len(receiver.values) == 1:
            found = self.member_of(receiver.values[0], name, hops)
            if not receiver.flags & ~found.flags and receiver.need <= found.need:
                return found
            return Meaning(found.values, found.flags | receiver.flags, max(found.need, receiver.need))
        possible = [one for one in receiver.values if not lacks(one, name)]
        found = union([self.member_of(one, name, hops) for one in possible], receiver.flags)
        return Meaning(found.values, found.flags, max(found.need, receiver.need))

    def member_of(self, value: Value, name: str, hops: int, importing: str | None = None) -> Meaning:
        """See `Meanings`."""
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
        outside = [f"{one}.{name}" for one in self.outer_stars(unit, MAX_HOPS)] if unit.files else []
        if outside:
            return Meaning((("X", candidates(outside), None),), UNKNOWN)
        return Meaning((("X", f"{dotted}.{name}", None),)) if dotted else NOT_KNOWN

    def order(self, package: str, qualified: str, hops: int) -> Meaning:
        """A class and its bases in method resolution order, as ("C", …), ("X", …) and ("?",)."""
        unit = self.tree.unit(package)
        return self.kept(unit.cache, ("o", qualified), hops, self._order, unit, qualified, hops)

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
        if not self.enough(hops):
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
        merged = linearized([*orders, written]) if sum(map(len, orders)) <= MAX_ORDER else [*written, ("?",)]
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
                    values = tuple(bind_to(one, value) for one in found.values)
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
        return self.kept(unit.cache, ("m", qualified, name), hops, self._bound, unit, qualified, name, bindings, hops)

    def _super_member(self, value: Value, name: str, hops: int) -> Meaning:
        own = ("I" if value[3] == "i" else "C", value[1], value[2], SELF)
        return self.member(own, name, hops, skip=1)

    def _function_attribute(self, value: Value, name: str, hops: int) -> Meaning:
        """Functions have no members but those that a decorator gives them."""
        if not self.enough(hops):
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
