"""What annotations allow: generic types of the standard library, aliases of types, type variables."""

from __future__ import annotations

from knowingd.extract.limits import MAX_QUALIFIED_BYTES
from knowingd.extract.python import tables
from knowingd.extract.python.annotations import Tree as Annotation
from knowingd.extract.python.annotations import parse_annotation
from knowingd.extract.python.meaning import (
    CUT,
    INFERRED,
    NOT_KNOWN,
    NOTHING,
    SELF,
    STOPPED,
    UNKNOWN,
    Meaning,
    Value,
    class_of,
    union,
)
from knowingd.extract.python.operations import Operations
from knowingd.extract.python.tree import PARENT, SourceFile


class Types(Operations):
    """Evaluates annotations."""

    def annotation(self, file: SourceFile, scope: int, text: str, hops: int) -> Meaning:
        """The values that an annotation in a scope allows."""
        if not self.enough(hops):
            return STOPPED
        key = ("a", file.path, file.owner(scope), text)
        found = self.kept(file.unit.cache, key, hops, self._typed, file, scope, parse_annotation(text), hops - 1)
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
        if not self.enough(hops):
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
            classes = tuple(class_of(one) for one in inside.values)
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
