"""Values of variables, and results of functions."""

from __future__ import annotations

from typing import Any

from knowingd.extract.limits import MAX_HOPS
from knowingd.extract.python import tables
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
    bound_values,
    union,
)
from knowingd.extract.python.members import Members
from knowingd.extract.python.tree import ANNOTATION, DECORATORS, FLAGS, KIND, PARENT, RETURNS, YIELDS, SourceFile, Unit


class Results(Members):
    """Goes from variables and functions to the values they give."""

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
        if not self.enough(hops):
            return STOPPED
        _, package, qualified, name, bound = value
        unit = self.tree.unit(package)
        found = self.kept(unit.cache, ("v", qualified, name), hops, self._variable, unit, qualified, name, hops)
        return bound_values(found, bound)

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
        if len(variables) != 1 or not self.enough(hops):
            return Meaning((), found.flags & CUT, found.need)
        above = self.variable(variables[0], hops - 1)
        return Meaning(above.values, above.flags, max(above.need, found.need) + 1)

    def _result(self, value: Value, hops: int) -> Meaning:
        """What calling a function gives."""
        if not self.enough(hops):
            return STOPPED
        _, package, qualified, bound = value
        unit = self.tree.unit(package)
        found = self.kept(unit.cache, ("r", qualified), hops, self._results, unit, qualified, hops)
        return bound_values(found, bound)

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

    def call(self, value: Value, hops: int) -> Meaning:
        """The result of a call without arguments."""
        if value[0] == "X":
            return Meaning(value[2], INFERRED) if value[2] is not None else Meaning((("X", value[1] + "()", None),))
        if value[0] == "F":
            return self._result(value, hops)
        return Meaning((("I", *value[1:]),)) if value[0] == "C" else NOT_KNOWN

    def _through(self, value: Value, method: str, hops: int) -> Meaning:
        """The result of a method of a value."""
        found = self.member_of(value, method, hops)
        parts = [self.call(one, hops) for one in found.values]
        together = union(parts, found.flags)
        return Meaning(together.values, together.flags | INFERRED, max(together.need, found.need))
