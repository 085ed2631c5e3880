"""Stored graphs as the kernel's `GraphReader`: what they are asked is looked up, and remembered for the next time.

A `StoredGraph` has its session at hand. A `CatalogedGraph` gets one only when the catalog says that its repository may
have something to answer; what it answers is the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from knowing_protocol.graph import (
    NO_FACTS,
    REPUBLISHED,
    AliasTarget,
    Relation,
    RenamedMember,
    names_key,
    target_segments,
)
from knowing_protocol.hashing import NodeId, external_hash, node_hash
from knowing_protocol.records import Facts, facts_from_json
from knowing_protocol.vocabulary import NodeKind

from knowingd.resolve.catalog import Filter
from knowingd.store.codes import EDGE_TYPE_CODES, LAYER_OF_PROVENANCE, PROVENANCES, SOURCE
from knowingd.store.interface import GraphSession
from knowingd.store.rows import BLOCK_BITS, REPUBLISHED_CODE, SLOT_BITS, TYPE_BITS, slot_of

T = TypeVar("T")


class StoredGraph:
    """One graph of one repository behind a session that lives as long as it does."""

    def __init__(self, session: GraphSession, layer: int = SOURCE) -> None:
        self._begin(session.repo, lambda: nullcontext(session), layer)

    def _begin(self, repo: str, reading: Callable[[], AbstractContextManager[GraphSession]], layer: int) -> None:
        self.repo = repo
        self.reading = reading
        """The session, for as long as the context lasts and no longer."""
        self.layer = layer
        self._known: dict[tuple[Any, ...], Any] = {}
        self._ids: dict[NodeId, int | None] = {}

    def may_define(self, name: str) -> bool:  # noqa: ARG002
        """Whether a symbol whose name ends like this may be defined here."""
        return True

    def open_names(self, edge_type: str) -> Sequence[str] | None:  # noqa: ARG002
        """Targets of a type that may mean a symbol of any name, if that is known without a look; some may be gone."""
        return None

    def _once(self, make: Callable[..., T], *question: Any) -> T:
        key = (make.__name__, *question)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = make(*question)
        return found

    def id_of(self, node: NodeId) -> int | None:
        """The id of a node of this graph."""
        if node not in self._ids:
            found = None
            if node.repo in ("", self.repo):
                with self.reading() as session:
                    number = session.node_id(node_hash(*node))
                    if number is not None and session.node_ids(self.layer, [number]):
                        found = number
            self._ids[node] = found
        return self._ids[node]

    def has_node(self, node: NodeId) -> bool:
        """See `GraphReader`."""
        return self.id_of(node) is not None

    def relation(self, source: NodeId, target: NodeId, edge_type: str) -> tuple[str, ...]:
        """See `GraphReader`."""
        first, second = self.id_of(source), self.id_of(target)
        if first is None or second is None:
            return ()
        with self.reading() as session:
            codes = session.provenances(first, EDGE_TYPE_CODES[edge_type], second)
        return tuple(sorted(PROVENANCES[code] for code in codes if LAYER_OF_PROVENANCE[code] == self.layer))

    def inbound_relation(self, source: NodeId, target: NodeId, edge_type: str) -> tuple[str, ...]:
        """See `GraphReader`."""
        found = [one.provenances for one in self.inbound(edge_type, target) if one.source == source]
        return found[0] if found else ()

    def inbound(self, edge_type: str, target: NodeId) -> tuple[Relation, ...]:
        """See `GraphReader`."""
        return self._once(self._inbound, edge_type, target)

    def _inbound(self, edge_type: str, target: NodeId) -> tuple[Relation, ...]:
        if target.repo not in ("", self.repo):
            return ()
        observed: dict[int, list[str]] = defaultdict(list)
        with self.reading() as session:
            for edge in session.edges_to_hash(node_hash(*target), EDGE_TYPE_CODES[edge_type]):
                if LAYER_OF_PROVENANCE[edge.provenance] == self.layer:
                    observed[edge.source].append(PROVENANCES[edge.provenance])
            names = session.identities(observed.keys())
        self._ids.update((node, number) for number, node in names.items())  # whoever asks for callers asks where
        return tuple(sorted(Relation(names[one], tuple(sorted(how))) for one, how in observed.items()))

    def named(self, edge_type: str, segment: str) -> tuple[NodeId, ...]:
        """See `GraphReader`."""
        return self._once(self._named, edge_type, segment)

    def _named(self, edge_type: str, segment: str) -> tuple[NodeId, ...]:
        code = REPUBLISHED_CODE if edge_type == REPUBLISHED else EDGE_TYPE_CODES[edge_type]
        with self.reading() as session:
            members = self._bucket(session, "names", names_key(edge_type, segment))
            for one in [one for one in members if one < 0]:
                members += session.caches.members(-one)
            targets = {one >> TYPE_BITS for one in members if one >= 0 and one & REPUBLISHED_CODE == code}
            found = session.identities(targets)
        self._ids.update((node, number) for number, node in found.items())
        return tuple(sorted(node for node in found.values() if segment in target_segments(node)))

    def _bucket(self, session: GraphSession, name: str, key: bytes) -> list[int]:
        """The members of the bucket that a key falls into."""
        tree = session.caches.tree(self.layer, name)
        if tree is None:
            return []
        bucket = slot_of(key) >> (SLOT_BITS - tree.bits)
        inside = min(BLOCK_BITS, tree.bits)
        block = session.caches.block(tree.id, bucket >> inside)
        return list(block[1][bucket & ((1 << inside) - 1)]) if block is not None else []

    def alias(self, name: str) -> tuple[AliasTarget, ...]:
        """See `GraphReader`."""
        return self._once(self._alias, name)

    def _alias(self, name: str) -> tuple[AliasTarget, ...]:
        with self.reading() as session:
            members = self._bucket(session, "aliases", external_hash(name))
            rows = [row for row in session.aliases(self.layer, members) if row.name == name] if members else []
            names = session.identities({row.target for row in rows})
        return tuple(sorted(AliasTarget(names[row.target], row.claimed) for row in rows))

    def aliases_of(self, target: NodeId) -> tuple[str | RenamedMember, ...]:
        """See `GraphReader`."""
        return self._once(self._aliases_of, target)

    def _aliases_of(self, target: NodeId) -> tuple[str | RenamedMember, ...]:
        number = self.id_of(target)
        if number is None:
            return ()
        segments = target_segments(target)
        with self.reading() as session:
            names = sorted(row.name for row in session.aliases_of(self.layer, [number]))
            rows = [row for row in session.members_to(self.layer, [number]) if segments != {row.name}]
            owners = session.identities({row.owner for row in rows})
        return (*names, *sorted(RenamedMember(owners[row.owner], row.name) for row in rows))

    def member(self, owner: NodeId, name: str) -> tuple[NodeId, ...]:
        """See `GraphReader`."""
        return self._once(self._members, owner).get(name, ())

    def _members(self, owner: NodeId) -> dict[str, tuple[NodeId, ...]]:
        number = self.id_of(owner)
        if number is None:
            return {}
        with self.reading() as session:
            rows = list(session.members_of(self.layer, [number]))
            targets = session.identities({row.target for row in rows})
        found: dict[str, set[NodeId]] = defaultdict(set)
        for row in rows:
            found[row.name].add(targets[row.target])
        return {name: tuple(sorted(nodes)) for name, nodes in found.items()}

    def facts(self, node: NodeId) -> Facts:
        """See `GraphReader`."""
        return self._once(self._facts, node)

    def _facts(self, node: NodeId) -> Facts:
        number = self.id_of(node)
        if number is None:
            return NO_FACTS
        with self.reading() as session:
            rows = list(session.facts(self.layer, [number]))
        return facts_from_json(rows[0][1], "facts") if rows else NO_FACTS


class CatalogedGraph(StoredGraph):
    """One graph of one repository, looked into only where the catalog says that there may be something."""

    def __init__(
        self,
        repo: str,
        number: int,
        known: Filter,
        reading: Callable[[], AbstractContextManager[GraphSession]],
        layer: int = SOURCE,
    ) -> None:
        self._begin(repo, reading, layer)
        self._number = number
        self._filter = known

    def may_define(self, name: str) -> bool:
        """Whether a symbol whose name ends like this may be defined here."""
        return self._number in self._filter.definers(name)

    def open_names(self, edge_type: str) -> Sequence[str] | None:
        """Targets of a type that may mean a symbol of any name; some may be gone."""
        return self._filter.open_names(edge_type, self._number)

    def alias(self, name: str) -> tuple[AliasTarget, ...]:
        """See `GraphReader`."""
        holders = self._filter.published.get(name)
        if holders is None:
            holders = self._filter.publishers(name)
        return self._once(self._alias, name) if self._number in holders else ()

    def named(self, edge_type: str, segment: str) -> tuple[NodeId, ...]:
        """See `GraphReader`."""
        return self._once(self._named, edge_type, segment) if self._may_use(edge_type, segment) else ()

    def inbound(self, edge_type: str, target: NodeId) -> tuple[Relation, ...]:
        """See `GraphReader`."""
        if target.repo not in ("", self.repo):
            return ()
        if not any(self._may_use(edge_type, segment) for segment in target_segments(target)):
            return ()
        return self._once(self._inbound, edge_type, target)

    def aliases_of(self, target: NodeId) -> tuple[str | RenamedMember, ...]:
        """See `GraphReader`."""
        if target.kind == NodeKind.EXTERNAL and not any(
            self._may_use(REPUBLISHED, segment) for segment in target_segments(target)
        ):
            return ()
        return self._once(self._aliases_of, target)

    def _may_use(self, edge_type: str, segment: str) -> bool:
        holders = self._filter.named.get((edge_type, segment))
        if holders is None:
            holders = self._filter.users(edge_type, segment)
        return self._number in holders
