"""The keys under which a repository has something to say: what the catalog knows of it.

There is a key for every alias, for every pair of edge type and last segment of a target, for the last segment of every
name from outside that is published anew, and for the last part of every name that is defined. Keys are made of both
graphs of a repository. What was added since a snapshot gives all keys that the snapshot did not have; keys of what has
gone may stay, because too many keys cost time and too few would cost answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from knowing_protocol.graph import REPUBLISHED, names_key, target_segments
from knowing_protocol.hashing import NodeId, external_hash
from knowing_protocol.paths import ANY_NAME
from knowing_protocol.vocabulary import NodeKind

from knowingd.store.codes import EDGE_TYPES, LAYERS
from knowingd.store.interface import GraphSession

VERSION: Final = 1
"""Of what counts as a key; a catalog made by another version is made anew."""
_DEFINED: Final = "defined"  # in place of an edge type: names that are defined


def fingerprint(key: bytes) -> int:
    """The leading 64 bits of a key, as a signed number."""
    return int.from_bytes(key[:8], "big", signed=True)


def alias_key(name: str) -> int:
    """The key of a published name."""
    return fingerprint(external_hash(name))


def named_key(edge_type: str, segment: str) -> int:
    """The key of all targets of a type, or `REPUBLISHED`, that end in a segment."""
    return fingerprint(names_key(edge_type, segment))


def defined_key(name: str) -> int:
    """The key of all symbols whose names end like this one: what follows the last dot."""
    return fingerprint(names_key(_DEFINED, name.rpartition(".")[2]))


@dataclass(slots=True)
class Keys:
    """Keys that were found, references that may mean a symbol of any name, and how many records went."""

    fingerprints: set[int] = field(default_factory=set)
    open_names: set[tuple[int, str]] = field(default_factory=set)
    gone: int = 0


class _Collector:
    """Collects keys; what is met again and again is worked out once."""

    def __init__(self, nodes: dict[int, NodeId]) -> None:
        self.found = Keys()
        self._nodes = nodes
        self._segments: dict[int, frozenset[str]] = {}
        self._named: set[tuple[str, str]] = set()

    def _segments_of(self, node: int) -> frozenset[str]:
        found = self._segments.get(node)
        if found is None:
            found = self._segments[node] = target_segments(self._nodes[node])
        return found

    def _name(self, edge_type: str, segment: str) -> None:
        if (edge_type, segment) not in self._named:
            self._named.add((edge_type, segment))
            self.found.fingerprints.add(named_key(edge_type, segment))

    def target(self, edge_type: int, target: int) -> None:
        """A target of an edge."""
        for segment in self._segments_of(target):
            self._name(EDGE_TYPES[edge_type], segment)
            if segment == ANY_NAME:
                self.found.open_names.add((edge_type, self._nodes[target].name))

    def alias(self, name: str, target: int) -> None:
        """A published name."""
        self.found.fingerprints.add(alias_key(name))
        self._republished(target)

    def member(self, name: str, target: int) -> None:
        """A member; one that is called otherwise than its target is one of the target's names."""
        if self._nodes[target].kind == NodeKind.EXTERNAL and self._segments_of(target) != {name}:
            self._republished(target)

    def _republished(self, target: int) -> None:
        if self._nodes[target].kind == NodeKind.EXTERNAL:
            for segment in self._segments_of(target):
                self._name(REPUBLISHED, segment)

    def defined(self, nodes: Iterable[int]) -> None:
        """Symbols of the repository."""
        tails = {
            self._nodes[node].name.rpartition(".")[2] for node in nodes if self._nodes[node].kind != NodeKind.EXTERNAL
        }
        self.found.fingerprints.update(map(defined_key, tails))


def all_keys(session: GraphSession) -> Keys:
    """All keys of a repository."""
    collector = _Collector(session.identities(None))
    for edge_type, target in session.targets():
        collector.target(edge_type, target)
    for layer in LAYERS:
        for alias in session.aliases(layer):
            collector.alias(alias.name, alias.target)
        for member in session.members(layer):
            collector.member(member.name, member.target)
        collector.defined(session.node_ids(layer))
    return collector.found


def keys_since(session: GraphSession, after: int, upto: int) -> Keys:
    """The keys that came with the snapshots after one, and perhaps some that were there before."""
    edges = [(edge_type, target) for added, _, edge_type, target, _ in session.edge_events(after, upto) if added]
    gone = sum(not added for added, *_ in session.edge_events(after, upto))
    events = list(session.events(after, upto))
    aliases = [event.body for event in events if event.kind == "alias" and event.added]
    members = [event.body for event in events if event.kind == "member" and event.added]
    nodes = [event.body[0] for event in events if event.kind == "node" and event.added]
    targets = {target for _, target in edges} | {body[1] for body in aliases} | {body[2] for body in members}
    collector = _Collector(session.identities(targets | set(nodes)))
    for edge_type, target in set(edges):
        collector.target(edge_type, target)
    for name, target, *_ in aliases:
        collector.alias(name, target)
    for _, name, target in members:
        collector.member(name, target)
    collector.defined(nodes)
    collector.found.gone = gone + sum(not event.added for event in events)
    return collector.found
