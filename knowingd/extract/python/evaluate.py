"""The evaluator: from an entry of a file's table to its meaning. See `meaning` for what it promises."""

from __future__ import annotations

from typing import Any

from knowingd.extract.limits import MAX_HOPS
from knowingd.extract.python.meaning import CUT, INFERRED, NOT_KNOWN, NOTHING, SELF, STOPPED, Meaning, Value, union
from knowingd.extract.python.tree import QUALIFIED, SourceFile
from knowingd.extract.python.typed import Types


class Evaluator(Types):
    """Evaluates entries of all files of a tree, and keeps what it found."""

    def symbols(self, file: SourceFile, number: int, hops: int = MAX_HOPS) -> Meaning:
        """What an entry names: definitions, where it names any."""
        found: Meaning | None = file.memo.get(number)
        if found is not None and found.need <= hops:
            return self.used(found, hops)
        base, step = file.table[number]
        if base < 0 and step[0] in "SCUKBN?":  # these look at nothing
            found = file.memo[number] = self._head(file, step, hops)
            return found
        return self.kept(file.memo, number, hops, self._symbols, file, number, hops)

    def values(self, file: SourceFile, number: int, hops: int = MAX_HOPS) -> Meaning:
        """The values that an entry may have."""
        found = self.symbols(file, number, hops)
        for value in found.values:
            if value[0] in "VF":
                return self.kept(file.memo, ("v", number), hops, self._values, file, number, hops)
        return found

    def _values(self, file: SourceFile, number: int, hops: int) -> Meaning:
        # With fewer hops left an entry may name less, so that the names count to what the values need.
        return self.dereference(self.symbols(file, number, hops), hops)

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
        if not self.enough(hops):
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
