"""Calls, subscripts, iteration and `with`: what they give, also for the few functions that pass on what they get."""

from __future__ import annotations

from typing import Final

from knowingd.extract.limits import MAX_QUALIFIED_BYTES
from knowingd.extract.python import tables
from knowingd.extract.python.meaning import CUT, INFERRED, NOT_KNOWN, STOPPED, Meaning, Value, generic_operation, union
from knowingd.extract.python.results import Results
from knowingd.extract.python.tree import KIND, PARENT, TYPES, SourceFile


class Operations(Results):
    """Applies the steps of an entry that are no attributes."""

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
        if step.startswith("(=") and self.enough(hops):
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
            return generic_operation(value, step)
        if kind == "X":
            path = value[1] + _PATH_OF_STEP.get(step, ".__getitem__()")
            if step == "[:]":
                return Meaning((value,))
            return Meaning((("X", path, None),)) if len(path) <= MAX_QUALIFIED_BYTES else NOT_KNOWN
        if kind == "C" and step.startswith("["):
            return Meaning((value,))  # a generic class with its arguments
        if kind != "I":
            return NOT_KNOWN
        if not self.enough(hops):
            return STOPPED
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
                parts.append(generic_operation(one, "*"))
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
                            found = generic_operation(one, step)
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


_PATH_OF_STEP: Final = {
    "[]": ".__getitem__()",
    "*": ".__iter__().__next__()",
    "*~": ".__aiter__().__anext__()",
    "^": ".__enter__()",
    "^~": ".__aenter__()",
}
