"""The walk: from a canonical path, over what repositories publish, to the definitions it can mean.

Take the longest published prefix, whose root must be published too; then for each further step go to the member, else
through the bases in method resolution order, `()` through returns or to an instance, star imports last; through third
repositories where a target is somebody else's name. One walker serves resolution, proving and verifying: a prover
walks over a graph that records what was asked, a verifier over a graph that knows only what was proven, and both ask
exactly the same.

An outcome is *open* where something on the way is not known: then the path may mean more than was found. Nothing is
ever guessed, and names are never compared by their last part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeVar

from knowing_protocol.errors import InvalidNameError
from knowing_protocol.graph import ROOTED, GraphReader
from knowing_protocol.hashing import NodeId
from knowing_protocol.paths import CALL, WILDCARD, Path, Step, alternatives, append, format_path, parse_path
from knowing_protocol.paths import plain_prefixes as prefixes_of
from knowing_protocol.records import TypeRef
from knowing_protocol.standard_library import in_standard_library, is_builtin_instance_member
from knowing_protocol.vocabulary import NodeKind

MAX_STEPS: Final = 32  # on one way
MAX_ORDER: Final = 64  # entries of all the orders that are merged for one type
MAX_WORK: Final = 512  # on all ways of a walk together, those to its bases and star imports included

_TYPES: Final = frozenset((NodeKind.TYPE.value, NodeKind.INTERFACE.value))
_VALUES: Final = frozenset((NodeKind.VAR.value, NodeKind.CONST.value, NodeKind.FIELD.value))
_CALLABLES: Final = frozenset((NodeKind.FUNCTION.value, NodeKind.METHOD.value, NodeKind.MACRO.value))

UNPUBLISHED: Final = "no repository in scope publishes it"
UNCLAIMED: Final = "it is published by a repository whose manifest does not claim it"
UNKNOWN_RECEIVER: Final = "the receiver's type is not known"
NO_MEMBER: Final = "a type or module on the way has no such member"
NO_PORTION: Final = "a namespace package on the way has no such member in scope"
UNKNOWN_BASE: Final = "a base class on the way is not known"
UNKNOWN_RESULT: Final = "the result of a call on the way has no known type"
UNKNOWN_TYPE: Final = "a value on the way has no known type"
WILDCARD_IMPORT: Final = "a wildcard import is not expanded"
TOO_FAR: Final = "the walk is longer than 32 steps or goes in a circle"


@dataclass(slots=True)
class Outcome:
    """What a path can mean: definitions, the names it passed, and why that may not be all."""

    definitions: set[NodeId] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    standard: bool = False  # it ends, or may end, in the standard library
    open: set[str] = field(default_factory=set)  # reasons; empty where everything on the way was known

    def take(self, other: Outcome) -> None:
        """Add what another way found."""
        self.definitions |= other.definitions
        self.names |= other.names
        self.standard = self.standard or other.standard
        self.open |= other.open


@dataclass(frozen=True, slots=True)
class _Place:
    """A node on the way, in the graph that defines it; `instance` where the path stands for a value of that type."""

    graph: GraphReader
    node: NodeId
    instance: bool = False


class _UnknownBase:
    """Stands in a method resolution order for a base that cannot be looked into."""


_UNKNOWN: Final = _UnknownBase()
_Base: TypeAlias = _Place | _UnknownBase


def walk(path: str | Path, graphs: Sequence[GraphReader]) -> Outcome:
    """All that a path can mean over these graphs."""
    walker = _Walker(graphs)
    walker.path(parse_path(path) if isinstance(path, str) else path)
    return walker.outcome


class _Walker:
    """One walk with all its side ways. A hostile graph makes it give up, never run on."""

    def __init__(self, graphs: Sequence[GraphReader]) -> None:
        self.graphs = graphs
        self.outcome = Outcome()
        self.work_left = MAX_WORK
        self.depth = 0
        self.on_the_way: set[str] = set()
        self.orders: dict[_Place, list[_Base]] = {}

    def _aside(self, path: Path | str, steps: tuple[Step, ...] = ()) -> Outcome:
        """Where another path leads, without going there."""
        mine, self.outcome = self.outcome, Outcome()
        self._beyond(path, steps)
        found, self.outcome = self.outcome, mine
        return found

    def _beyond(self, path: Path | str, steps: tuple[Step, ...]) -> None:
        """Walk a path that somebody published, with further steps; it may have grown too long to be one."""
        try:
            longer = append(path, steps)
        except InvalidNameError:
            self.outcome.open.add(TOO_FAR)
        else:
            self.path(longer)

    def path(self, path: Path) -> None:
        """Walk every alternative of a path."""
        for one in alternatives(path):
            self._one(one)

    def _may_go_on(self) -> bool:
        self.work_left -= 1
        if self.depth < MAX_STEPS and self.work_left > 0:
            return True
        self.outcome.open.add(TOO_FAR)
        return False

    def _one(self, path: Path) -> None:
        text = format_path(path)
        if text in self.on_the_way:
            self.outcome.open.add(TOO_FAR)
        elif self._may_go_on():
            self.on_the_way.add(text)
            self.outcome.names.add(text)
            self._start(path)
            self.on_the_way.discard(text)

    def _start(self, path: Path) -> None:
        """Begin at what is published of a path."""
        if path.scheme == "unresolved":
            self.outcome.open.add(UNKNOWN_RECEIVER)
        elif path.steps and path.steps[-1] is WILDCARD:
            self.outcome.open.add(WILDCARD_IMPORT)
        elif not in_standard_library(path):
            self._published(path)
        elif CALL not in path.steps or is_builtin_instance_member(path):
            self.outcome.standard = True  # nobody else can publish these names
        else:
            self.outcome.open.add(UNKNOWN_RESULT)

    def _published(self, path: Path) -> None:
        """Go on from the longest prefix that each repository publishes: none can hide what another one has.

        Repositories may share a namespace package; one whose portion has no such member then says nothing.
        """
        prefixes = prefixes_of(path)
        found: list[Outcome] = []
        for graph in self.graphs:
            if path.scheme in ROOTED and not graph.alias(prefixes[-1][0]):
                continue
            for prefix, consumed in prefixes:
                targets = graph.alias(prefix)
                if targets:
                    mine, self.outcome = self.outcome, Outcome()
                    for target in targets:
                        if not target.claimed:
                            self.outcome.open.add(UNCLAIMED)
                        self._go(_Place(graph, target.node), path.steps[consumed:])
                    found.append(self.outcome)
                    self.outcome = mine
                    break
        somewhere = any(outcome.definitions or outcome.standard for outcome in found)
        for outcome in found:
            if not somewhere or outcome.definitions or outcome.standard or outcome.open != {NO_PORTION}:
                self.outcome.take(outcome)
        if not found:
            self.outcome.open.add(UNPUBLISHED)

    def _go(self, place: _Place, steps: tuple[Step, ...]) -> None:
        """Go on from a place by the steps that are left."""
        if not self._may_go_on():
            return
        self.depth += 1
        node = place.node
        if node.kind == NodeKind.EXTERNAL:
            self._beyond(node.name, ((CALL,) if place.instance else ()) + steps)
        elif not steps:
            if place.instance:  # the path ends in a call: what is used is the result itself
                self._member(place, "__call__", ())
            else:
                self.outcome.definitions.add(node)
        elif steps[0] is CALL:
            self._call(place, steps[1:])
        elif isinstance(steps[0], str):
            # One node may stand for several definitions, a class here and a variable there: both ways are gone.
            typed = not place.instance and bool(place.graph.facts(node).types)
            if typed or (not place.instance and node.kind in _VALUES):
                self._values(place, steps)
            if place.instance or node.kind not in _VALUES:
                self._member(place, steps[0], steps[1:], also_typed=typed)
        else:
            self.outcome.open.add(WILDCARD_IMPORT)
        self.depth -= 1

    def _call(self, place: _Place, rest: tuple[Step, ...]) -> None:
        """What calling a place gives: an instance of a type, or an instance of what a function returns."""
        kind = place.node.kind
        if place.instance:
            self._member(place, "__call__", (CALL, *rest))
            return
        facts = place.graph.facts(place.node)
        if kind in _TYPES:
            self._go(_Place(place.graph, place.node, instance=True), rest)
        elif kind in _CALLABLES and (not facts.returns or "returns" in facts.partial):
            self.outcome.open.add(UNKNOWN_RESULT)
        for one in facts.returns:
            self._instance_of(one, place.graph, rest)
        if facts.types or kind not in _TYPES | _CALLABLES:
            self._values(place, (CALL, *rest))

    def _values(self, place: _Place, steps: tuple[Step, ...]) -> None:
        """Go on from a variable, field or property through the types of its value."""
        facts = place.graph.facts(place.node)
        if not facts.types or "types" in facts.partial:
            self.outcome.open.add(UNKNOWN_TYPE)
        for one in facts.types:
            self._instance_of(one, place.graph, steps)

    def _instance_of(self, one: TypeRef, graph: GraphReader, steps: tuple[Step, ...]) -> None:
        if isinstance(one, str):
            self._beyond(one, (CALL, *steps))
        else:
            self._go(_Place(graph, NodeId(graph.repo, *one), instance=True), steps)

    def _member(self, place: _Place, name: str, rest: tuple[Step, ...], *, also_typed: bool = False) -> None:
        """Go on to a member: the node's own, else that of the first base which has it, else by star imports.

        A base that is not known may stand before any other but the node itself, so beside one nothing inherited is
        certain.
        """
        order = self._resolution_order(place)
        for base in order:
            targets = () if isinstance(base, _UnknownBase) else base.graph.member(base.node, name)
            if targets and not isinstance(base, _UnknownBase):
                if base is not order[0] and _UNKNOWN in order:
                    self.outcome.open.add(UNKNOWN_BASE)
                for target in targets:
                    self._go(_Place(base.graph, target), rest)
                self._by_star(place, name, rest, otherwise=None)
                return
        if _UNKNOWN in order:
            self.outcome.open.add(UNKNOWN_BASE)
            return
        miss = NO_PORTION if place.node.kind == NodeKind.PACKAGE else NO_MEMBER
        self._by_star(place, name, rest, otherwise=None if also_typed else miss)

    def _by_star(self, place: _Place, name: str, rest: tuple[Step, ...], *, otherwise: str | None) -> None:
        """Go on through every star import that may have brought a name: which one did depends on their order."""
        somewhere = False
        for star in place.graph.facts(place.node).stars:
            found = self._aside(star, (name,))
            if found.definitions or found.standard:
                self._beyond(star, (name, *rest))
            doubts = found.open - {NO_MEMBER, NO_PORTION}
            self.outcome.open |= doubts
            somewhere = somewhere or bool(found.definitions or found.standard or doubts)
        if not somewhere and otherwise is not None:
            self.outcome.open.add(otherwise)

    def _resolution_order(self, place: _Place) -> list[_Base]:
        """The place and its bases in C3 order; a base that cannot be looked into stands as unknown.

        Orders are kept for the length of the walk. A type that is its own base, or has too many of them, is
        unknown but for itself.
        """
        own = _Place(place.graph, place.node)
        if own not in self.orders:
            self.orders[own] = [own, _UNKNOWN]  # what a type finds that comes back to itself
            bases: list[_Base] = []
            facts = place.graph.facts(place.node)
            for one in facts.bases:
                bases += self._base(one, place.graph)
            if "bases" in facts.partial:
                bases.append(_UNKNOWN)
            orders = [self._order_of_base(base) for base in bases]
            if sum(map(len, orders)) <= MAX_ORDER:
                self.orders[own] = [own, *linearized([*orders, bases])]
        return self.orders[own]

    def _order_of_base(self, base: _Base) -> list[_Base]:
        if isinstance(base, _UnknownBase):
            return [base]
        self.work_left -= 1
        if self.depth >= MAX_STEPS or self.work_left <= 0:
            return [base, _UNKNOWN]
        self.depth += 1
        order = self._resolution_order(base)
        self.depth -= 1
        return order

    def _base(self, one: TypeRef, graph: GraphReader) -> list[_Base]:
        """A base as a place, unknown where it may be more than one thing; `object` has nothing to look into."""
        if not isinstance(one, str):
            place = _Place(graph, NodeId(graph.repo, *one))
            return [place] if place.node.kind in _TYPES else [place, _UNKNOWN]
        if one == "python://builtins.object":
            return []
        found = self._aside(one)
        homes = {graph.repo: graph for graph in self.graphs}
        places: list[_Base] = [_Place(homes[node.repo], node) for node in sorted(found.definitions)]
        certain = len(places) == 1 and not found.open and not found.standard
        certain = certain and all(node.kind in _TYPES for node in found.definitions)
        return places if certain else [*places, _UNKNOWN]


_T = TypeVar("_T")


def linearized(orders: list[list[_T]]) -> list[_T]:
    """The C3 merge; where the bases contradict each other, the order in which they are written."""
    merged: list[_T] = []
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
