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
from typing import Final, TypeAlias

from knowing_protocol.errors import InvalidNameError
from knowing_protocol.graph import GraphReader
from knowing_protocol.hashing import NodeId
from knowing_protocol.paths import CALL, WILDCARD, Path, Step, alternatives, append, format_path, parse_path
from knowing_protocol.paths import plain_prefixes as prefixes_of
from knowing_protocol.records import TypeRef
from knowing_protocol.standard_library import in_standard_library, is_builtin_instance_member
from knowing_protocol.vocabulary import NodeKind

MAX_STEPS: Final = 32  # on one way
MAX_WORK: Final = 512  # on all ways of a walk together, those to its bases and star imports included
MAX_NESTING: Final = 12

ROOTED: Final = frozenset(("python", "npm", "go", "rust"))
"""Schemes in which a name counts as published only where its root module, package or crate is: one lookup then tells
that a library is not in scope, however long its names are."""

_TYPES: Final = frozenset((NodeKind.TYPE.value, NodeKind.INTERFACE.value))
_VALUES: Final = frozenset((NodeKind.VAR.value, NodeKind.CONST.value, NodeKind.FIELD.value))
_CALLABLES: Final = frozenset((NodeKind.FUNCTION.value, NodeKind.METHOD.value, NodeKind.MACRO.value))

UNPUBLISHED: Final = "no repository in scope publishes it"
UNKNOWN_RECEIVER: Final = "the receiver's type is not known"
NO_MEMBER: Final = "a type or module on the way has no such member"
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
    walker = _Walker(graphs, _Budget(), 0)
    walker.path(parse_path(path) if isinstance(path, str) else path)
    return walker.outcome


@dataclass(slots=True)
class _Budget:
    """The work that a walk may still do: a hostile graph makes it give up, never run on."""

    left: int = MAX_WORK


class _Walker:
    def __init__(self, graphs: Sequence[GraphReader], budget: _Budget, nesting: int) -> None:
        self.graphs = graphs
        self.budget = budget
        self.nesting = nesting
        self.outcome = Outcome()
        self.steps_left = MAX_STEPS
        self.visited: set[str] = set()

    def _aside(self, path: Path | str, steps: tuple[Step, ...] = ()) -> Outcome:
        """Walk another path to the side, on the same budget."""
        inner = _Walker(self.graphs, self.budget, self.nesting + 1)
        if self.nesting < MAX_NESTING:
            inner._beyond(path, steps)
        else:
            inner.outcome.open.add(TOO_FAR)
        return inner.outcome

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

    def _one(self, path: Path) -> None:
        text = format_path(path)
        if text in self.visited or self.budget.left <= 0:
            self.outcome.open.add(TOO_FAR)
            return
        self.budget.left -= 1
        self.visited.add(text)
        self.outcome.names.add(text)
        if path.scheme == "unresolved":
            self.outcome.open.add(UNKNOWN_RECEIVER)
            return
        if path.steps and path.steps[-1] is WILDCARD:
            self.outcome.open.add(WILDCARD_IMPORT)
            return
        if in_standard_library(path):  # nobody else can publish its names
            if CALL not in path.steps or is_builtin_instance_member(path):
                self.outcome.standard = True
            else:
                self.outcome.open.add(UNKNOWN_RESULT)
            return
        prefixes = prefixes_of(path)
        if path.scheme in ROOTED and not self._published(prefixes[-1][0]):
            prefixes = []
        for prefix, consumed in prefixes:
            places = self._published(prefix)
            if places:
                for place in places:
                    self._go(place, path.steps[consumed:])
                return
        self.outcome.open.add(UNPUBLISHED)

    def _published(self, name: str) -> list[_Place]:
        """What a name leads to, over all graphs; a manifest's claim goes before names that nobody claims."""
        found = [(target, graph) for graph in self.graphs for target in graph.alias(name)]
        claimed = any(target.claimed for target, _ in found)
        return [_Place(graph, target.node) for target, graph in found if target.claimed or not claimed]

    def _go(self, place: _Place, steps: tuple[Step, ...]) -> None:
        """Go on from a place by the steps that are left."""
        if self.steps_left <= 0 or self.budget.left <= 0:
            self.outcome.open.add(TOO_FAR)
            return
        self.steps_left -= 1
        self.budget.left -= 1
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
            if not place.instance and (node.kind in _VALUES or place.graph.facts(node).types):
                self._values(place, steps)
            else:
                self._member(place, steps[0], steps[1:])
        else:
            self.outcome.open.add(WILDCARD_IMPORT)

    def _call(self, place: _Place, rest: tuple[Step, ...]) -> None:
        """What calling a place gives: an instance of a type, or an instance of what a function returns."""
        kind = place.node.kind
        if place.instance:
            self._member(place, "__call__", (CALL, *rest))
        elif kind in _TYPES:
            self._go(_Place(place.graph, place.node, instance=True), rest)
        elif kind in _CALLABLES:
            returns = place.graph.facts(place.node).returns
            if not returns:
                self.outcome.open.add(UNKNOWN_RESULT)
            for one in returns:
                self._instance_of(one, place.graph, rest)
        else:
            self._values(place, (CALL, *rest))

    def _values(self, place: _Place, steps: tuple[Step, ...]) -> None:
        """Go on from a variable, field or property through the types of its value."""
        types = place.graph.facts(place.node).types
        if not types:
            self.outcome.open.add(UNKNOWN_TYPE)
        for one in types:
            self._instance_of(one, place.graph, steps)

    def _instance_of(self, one: TypeRef, graph: GraphReader, steps: tuple[Step, ...]) -> None:
        if isinstance(one, str):
            self._beyond(one, (CALL, *steps))
        else:
            self._go(_Place(graph, NodeId(graph.repo, *one), instance=True), steps)

    def _member(self, place: _Place, name: str, rest: tuple[Step, ...]) -> None:
        """Go on to a member: the node's own, else that of the first base which has it, else by star imports."""
        for base in self._resolution_order(place, 0):
            if isinstance(base, _UnknownBase):
                self.outcome.open.add(UNKNOWN_BASE)
                return
            targets = base.graph.member(base.node, name)
            if targets:
                for target in targets:
                    self._go(_Place(base.graph, target), rest)
                return
        stars = place.graph.facts(place.node).stars
        for star in stars:
            if self._aside(star, (name,)).definitions:
                self._beyond(star, (name, *rest))
                return
        self.outcome.open.add(WILDCARD_IMPORT if stars else NO_MEMBER)

    def _resolution_order(self, place: _Place, depth: int) -> list[_Base]:
        """The place and its bases in C3 order; a base that cannot be looked into stands as unknown."""
        own = _Place(place.graph, place.node)
        bases: list[_Base] = []
        for one in place.graph.facts(place.node).bases:
            bases += self._base(one, place.graph)
        orders: list[list[_Base]] = [bases]
        for base in reversed(bases):
            self.budget.left -= 1
            if isinstance(base, _UnknownBase):
                orders.insert(0, [base])
            elif depth >= MAX_NESTING or self.budget.left <= 0:
                orders.insert(0, [base, _UNKNOWN])
            else:
                orders.insert(0, self._resolution_order(base, depth + 1))
        return [own, *_merge(orders)]

    def _base(self, one: TypeRef, graph: GraphReader) -> list[_Base]:
        """A base as a place; of several candidates the first that is published, and nothing for `object`."""
        if not isinstance(one, str):
            return [_Place(graph, NodeId(graph.repo, *one))]
        if one == "python://builtins.object":
            return []
        for path in alternatives(parse_path(one)):
            found = self._aside(path)
            places = [
                _Place(graph, node)
                for node in sorted(found.definitions)
                for graph in self.graphs
                if graph.repo == node.repo
            ]
            if places:
                return [places[0]] if not found.open and not found.standard and len(places) == 1 else [_UNKNOWN]
        return [_UNKNOWN]


def _merge(orders: list[list[_Base]]) -> list[_Base]:
    """The C3 merge; where the bases contradict each other, the order in which they are written."""
    merged: list[_Base] = []
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
