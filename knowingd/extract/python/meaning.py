"""Meanings: what an expression can stand for, and the ways to put several of them together.

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
from collections.abc import Set as AbstractSet
from typing import Any, Final

from knowing_protocol.standard_library import BUILTIN_MEMBERS

from knowingd.extract.limits import MAX_HOPS, MAX_VALUES
from knowingd.extract.python.tree import SourceFile, Tree

Value = tuple[Any, ...]
UNKNOWN: Final = 1  # there may be other meanings
INFERRED: Final = 2  # found by way of a type, not by names alone
CUT: Final = 4  # the hops were used up
SELF: Final = "self"


_NO_KEYS: Final[frozenset[str]] = frozenset()


class Meaning:
    """What an entry means: values in source order, flags, and how many hops that took."""

    __slots__ = ("cut", "deps", "flags", "need", "values")

    def __init__(self, values: tuple[Value, ...] = (), flags: int = 0, need: int = 0) -> None:
        self.values = values
        self.flags = flags
        self.need = need
        self.cut = False  # something below it had to stop
        self.deps: AbstractSet[str] = _NO_KEYS


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


class Meanings:
    """What all parts of the evaluator share: the tree, the keys that were looked at, and what was found before.

    The methods that raise are given by later parts; they call each other in circles, as the code they read does.
    """

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.deps: set[str] = set()
        self._lowest = 0
        self._cut = False
        self._imports: dict[tuple[str, int, str], tuple[Value | None, list[str]]] = {}

    def visit(self, package: str, scope: str, name: str) -> None:
        """Note that a name was looked up in a scope of a unit."""
        self.deps.add(f"{package}\0{scope}\0{name}")

    def kept(self, cache: dict[Any, Any], key: Any, hops: int, compute: Callable[..., Meaning], *given: Any) -> Meaning:
        """Compute something once for as many hops as it needs, and note what it looked at for everybody who asks.

        How many hops it needs is measured, not told: what it came down to, and whether it had to stop. So a result
        that was cut anywhere below is kept for that number of hops alone.
        """
        found: Meaning | None = cache.get(key)
        if found is None or found.need > hops:
            cut_key = (key, hops)
            found = cache.get(cut_key)
            if found is None:
                outer = self.deps, self._lowest, self._cut
                self.deps, self._lowest, self._cut = set(), hops, False
                result = compute(*given)
                found = Meaning(result.values, result.flags, hops - self._lowest)
                found.cut = self._cut
                if self.deps:
                    found.deps = self.deps  # nobody adds to it from here on
                cache[cut_key if self._cut else key] = found
                self.deps, self._lowest, self._cut = outer
        return self.used(found, hops)

    def used(self, found: Meaning, hops: int) -> Meaning:
        """Note that a result is used, as if it were computed now."""
        if found.deps:
            self.deps |= found.deps
        if found.cut:
            self._cut = True
            self._lowest = 0
        elif hops - found.need < self._lowest:
            self._lowest = hops - found.need
        return found

    def enough(self, hops: int) -> bool:
        """Whether another hop is allowed. Every decision that hangs on the hops is taken here."""
        if hops <= 0:
            self._cut = True
            return False
        self._lowest = min(self._lowest, hops - 1)
        return True

    def values(self, file: SourceFile, number: int, hops: int = MAX_HOPS) -> Meaning:
        """The values that an entry may have."""
        raise NotImplementedError

    def annotation(self, file: SourceFile, scope: int, text: str, hops: int) -> Meaning:
        """The values that an annotation in a scope allows."""
        raise NotImplementedError

    def order(self, package: str, qualified: str, hops: int) -> Meaning:
        """A class and its bases in method resolution order, as ("C", …), ("X", …) and ("?",)."""
        raise NotImplementedError

    def member_of(self, value: Value, name: str, hops: int, importing: str | None = None) -> Meaning:
        """What a name means on one value."""
        raise NotImplementedError

    def call(self, value: Value, hops: int) -> Meaning:
        """The result of a call without arguments."""
        raise NotImplementedError


def lacks(value: Value, name: str) -> bool:
    """Whether a builtin's instance certainly has no such member: then it is not what is meant."""
    path = value[1]
    if value[0] == "X" and path.startswith("builtins.") and path.endswith("()"):
        members = BUILTIN_MEMBERS.get(path[9:-2])
    elif value[0] == "B" and path.startswith("builtins."):
        members = BUILTIN_MEMBERS.get(path[9:])
    else:
        return False
    return members is not None and name not in members and not name.startswith("__")


def class_of(value: Value) -> Value | None:
    """The class that a value is an instance of."""
    if value[0] == "I":
        return ("C", *value[1:])
    return ("X", value[1][:-2], None) if value[0] == "X" and value[1].endswith("()") else None


def generic_operation(value: Value, step: str) -> Meaning:
    """What a subscript, iteration or `with` gives on a generic value."""
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


def bind_to(value: Value, receiver: Value) -> Value:
    """A method or attribute with the receiver that it was found on."""
    if value[0] == "F" and value[3] is None:
        return (*value[:3], receiver)
    if value[0] == "V" and value[4] is None:
        return (*value[:4], receiver)
    return value


def bound_values(found: Meaning, bound: Value | None) -> Meaning:
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
