"""The plain records of a graph: what an extractor gives, a store keeps, and the maps are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from knowing_protocol import encoding
from knowing_protocol.errors import MalformedError
from knowing_protocol.hashing import NodeId, edge_hash, external
from knowing_protocol.paths import parse_path
from knowing_protocol.vocabulary import Coverage, NodeKind


class Edge(NamedTuple):
    """One relation observed in one way; source and target are node hashes."""

    source: bytes
    target: bytes
    type: str
    provenance: str

    @property
    def hash(self) -> bytes:
        """The identity of the edge."""
        return edge_hash(*self)


class Alias(NamedTuple):
    """A canonical name under which a node can be imported; unclaimed where no manifest declares its root."""

    name: str
    target: bytes
    claimed: bool


class Member(NamedTuple):
    """A node reached from its owner by a name."""

    owner: bytes
    name: str
    target: bytes


class LocalType(NamedTuple):
    """A type of the same repository, which may have no import name."""

    package: str
    name: str
    kind: str


TypeRef: TypeAlias = str | LocalType  # a canonical path, or a node of the same repository


class Facts(NamedTuple):
    """What is known of a node's types: bases and star imports in source order, the others as sorted sets.

    `partial` names those of `bases`, `returns` and `types` that are not all there is: a function may return something
    of a known type here and of an unknown one there.
    """

    bases: tuple[TypeRef, ...] = ()
    returns: tuple[TypeRef, ...] = ()
    types: tuple[TypeRef, ...] = ()
    stars: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()


class Declaration(NamedTuple):
    """A place in a file where a node is declared."""

    node: bytes
    line: int
    end_line: int
    signature: str
    doc: str


class Site(NamedTuple):
    """A place where an edge is seen, relative to a declaration of its source in that file.

    `declaration` counts the declarations of the source in that file by line, from 0; where there is none (module
    level), `line` counts from the start of the file. `arity` is -1 where it is not known,
    and at most `MAX_ARITY`.
    """

    edge: bytes
    declaration: int
    line: int
    column: int
    arity: int


@dataclass(frozen=True, slots=True)
class File:
    """A source file: its content, and everything about its symbols that is not their identity."""

    path: str
    content: bytes
    declarations: tuple[Declaration, ...] = ()
    sites: tuple[Site, ...] = ()


@dataclass(slots=True)
class Records:
    """All records of one graph of one repository, in any order."""

    nodes: list[NodeId] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    aliases: list[Alias] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)
    facts: dict[bytes, Facts] = field(default_factory=dict)
    files: list[File] = field(default_factory=list)
    coverage: dict[str, Coverage] = field(default_factory=dict)


MAX_TYPES = 64
MAX_ARITY = 65_534
_NAME = encoding.text()
_LOCAL_KIND = encoding.one_of(*(kind.value for kind in NodeKind if kind is not NodeKind.EXTERNAL))


def canonical_path(value: Any, place: str) -> str:
    """Decoder of a canonical path."""
    found = _NAME(value, place)
    parse_path(found)
    return found


def local_type(value: Any, place: str) -> LocalType:
    """Decoder of `[package, name, kind]`, a symbol of a repository that is known from elsewhere."""
    if not isinstance(value, list) or len(value) != 3:
        raise MalformedError(f"{place} is not [package, name, kind]", code="wrong-type")
    package, name, kind = value
    return LocalType(_NAME(package, place), _NAME(name, place), _LOCAL_KIND(kind, place))


def type_ref(value: Any, place: str) -> TypeRef:
    """Decoder of a type: a canonical path, or a symbol of the same repository."""
    return local_type(value, place) if isinstance(value, list) else canonical_path(value, place)


_FACTS = encoding.record(
    {
        "bases": encoding.sequence(type_ref, MAX_TYPES),
        "partial": encoding.sequence(encoding.one_of("bases", "returns", "types"), 3),
        "returns": encoding.sequence(type_ref, MAX_TYPES),
        "stars": encoding.sequence(canonical_path, MAX_TYPES),
        "types": encoding.sequence(type_ref, MAX_TYPES),
    }
)


def facts_to_json(facts: Facts) -> dict[str, Any]:
    """Facts as they are hashed."""
    return {
        "bases": [_plain(one) for one in facts.bases],
        "partial": sorted(set(facts.partial)),
        "returns": [_plain(one) for one in _sorted_types(facts.returns)],
        "stars": list(facts.stars),
        "types": [_plain(one) for one in _sorted_types(facts.types)],
    }


def canonical_facts(facts: Facts) -> Facts:
    """The same facts in the order in which they are hashed."""
    return facts._replace(
        returns=_sorted_types(facts.returns),
        types=_sorted_types(facts.types),
        partial=tuple(sorted(set(facts.partial))),
    )


def _sorted_types(types: tuple[TypeRef, ...]) -> tuple[TypeRef, ...]:
    return tuple(sorted(set(types), key=lambda one: _type_order(_plain(one))))


def facts_from_json(value: Any, place: str) -> Facts:
    """Decoder of facts, in their canonical order only."""
    found = Facts(**_FACTS(value, place))
    if facts_to_json(found) != value:
        raise MalformedError(f"{place} is not in canonical order", code="not-canonical")
    return found


def _plain(one: TypeRef) -> str | list[str]:
    return one if isinstance(one, str) else list(one)


def _type_order(one: str | list[str]) -> tuple[int, list[str]]:
    return (0, [one]) if isinstance(one, str) else (1, one)


def symbol_to_json(node: NodeId, repo: str) -> str | list[str]:
    """A node as it stands in a bundle about one repository: its path if it is a phantom, else its three parts."""
    if node.kind == NodeKind.EXTERNAL:
        return node.name
    if node.repo != repo:
        raise MalformedError(f"{node.name} is of {node.repo}, not of {repo}", code="foreign-symbol")
    return [node.package, node.name, node.kind]


def symbol_from_ref(ref: TypeRef, repo: str) -> NodeId:
    """The identity that a path or a local symbol stands for."""
    return external(ref) if isinstance(ref, str) else NodeId(repo, *ref)
