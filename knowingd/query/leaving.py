"""What a symbol uses, and what leaves a repository."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from knowing_protocol.hashing import NodeId
from knowing_protocol.paths import parse_path
from knowing_protocol.vocabulary import NodeKind

from knowingd.query.callers import Place, places_of
from knowingd.query.names import UNRESOLVED, Names
from knowingd.query.scope import Repository, Scope
from knowingd.store.codes import EDGE_TYPE_CODES, EDGE_TYPES, PROVENANCES


class Used(NamedTuple):
    """Something that a symbol uses."""

    target: NodeId
    definitions: tuple[NodeId, ...]
    type: str
    provenance: str
    places: tuple[Place, ...]


class Dangling(NamedTuple):
    """A name that leaves a repository."""

    name: str
    module: str
    state: str
    edges: int
    definitions: tuple[NodeId, ...]


def callees(symbol: NodeId, scope: Scope, types: tuple[str, ...], *, with_unresolved: bool) -> list[Used]:
    """What a symbol uses, and where that is defined."""
    repository = scope.repository(symbol.repo)
    number = repository.graph.id_of(symbol)
    if number is None:
        return []
    names = Names(scope)
    wanted = {EDGE_TYPE_CODES[one] for one in types}
    with repository.graph.reading() as session:
        edges = [edge for edge in session.edges_from(number) if edge.type in wanted]
        nodes = session.identities({edge.target for edge in edges})
    found = []
    for edge in edges:
        target = nodes[edge.target]
        definitions: tuple[NodeId, ...] = (target,)
        if target.kind == NodeKind.EXTERNAL:
            lead = names.lead(target.name)
            if lead.state == UNRESOLVED and not with_unresolved:
                continue
            definitions = lead.definitions
        edge_type = EDGE_TYPES[edge.type]
        places = places_of(repository, symbol, target, edge_type)
        found.append(Used(target, definitions, edge_type, PROVENANCES[edge.provenance], places))
    return sorted(found, key=lambda one: (one.places[:1], one.target, one.type))


def dangling(repository: Repository, scope: Scope) -> list[Dangling]:
    """The names from outside that a repository refers to, and what they lead to."""
    with repository.graph.reading() as session:
        counts = Counter(edge.target for edge in session.edges())
        nodes = session.identities(counts.keys())
    names = Names(scope)
    found = []
    for number, node in nodes.items():
        if node.kind == NodeKind.EXTERNAL:
            lead = names.lead(node.name)
            module = "" if lead.state == UNRESOLVED else parse_path(node.name).heads[0].module.partition(".")[0]
            found.append(Dangling(node.name, module, lead.state, counts[number], lead.definitions))
    return sorted(found, key=lambda one: (-one.edges, one.name))
