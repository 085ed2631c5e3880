"""A stored graph that can also show its maps: what the kernel's prover asks for.

Maps are opened where a proof walks, from kept bucket roots; what is read is hashed on the way, so that a damaged cache
makes no proof, right or wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

from knowing_protocol.critbit import MerkleMap
from knowing_protocol.graph import MAP_LEVELS, graph_map

from knowingd.errors import StoreError
from knowingd.resolve.graph import StoredGraph
from knowingd.snapshot.stored import StoredMaps
from knowingd.store.codes import EDGE_TYPE_CODES
from knowingd.store.interface import GraphSession


class LayerGraph(StoredGraph):
    """One graph of a repository behind sessions that somebody else holds."""

    def __init__(self, repo: str, reading: Callable[[], AbstractContextManager[GraphSession]], layer: int) -> None:
        self._begin(repo, reading, layer)


class ProvableGraph:
    """See the kernel's `ProvableGraph`."""

    def __init__(self, inner: StoredGraph, root: bytes) -> None:
        """`root` is the one that was signed; maps that do not lead to it prove nothing."""
        self.inner = inner
        self.repo = inner.repo
        self.root = root
        self._session: GraphSession | None = None
        self._stored: StoredMaps | None = None
        self.has_node = inner.has_node
        self.relation = inner.relation
        self.inbound_relation = inner.inbound_relation
        self.inbound = inner.inbound
        self.named = inner.named
        self.alias = inner.alias
        self.aliases_of = inner.aliases_of
        self.member = inner.member
        self.facts = inner.facts

    def _maps(self) -> StoredMaps:
        """The maps over the session that is open now; another one means other maps of the same state."""
        with self.inner.reading() as session:
            if self._stored is None or session is not self._session:
                self._session, self._stored = session, StoredMaps(session, self.inner.layer)
        return self._stored

    def tree(self, name: str, keys: Iterable[bytes] = (), /) -> MerkleMap:
        """A named map, or `graph` for the map of all of them."""
        maps = self._maps()
        if name == "graph":
            return graph_map({one: maps.root(one) for one in MAP_LEVELS})
        found = maps.tree(name, keys)
        if found.root != maps.root(name):
            raise StoreError("a kept root does not fit what it is of", hint="run `knowing fsck --repair`")
        return found

    def package_tree(self, package: str) -> MerkleMap | None:
        """The map of a package's edge types."""
        maps = self._maps()
        number = maps.session.package_number(package)
        found = None if number is None else maps.package_tree(number)
        return None if found is None or found.node is None else found

    def branch_tree(self, package: str, edge_type: str) -> MerkleMap | None:
        """The map of a branch's relations."""
        maps = self._maps()
        number = maps.session.package_number(package)
        found = None if number is None else maps.branch(number, EDGE_TYPE_CODES[edge_type])
        return None if found is None or found.node is None else found

    def inbound_tree(self, edge_type: str, target: bytes) -> tuple[MerkleMap, int] | None:
        """The set of a target's relations, and its size."""
        maps = self._maps()
        number = maps.session.node_id(target)
        return None if number is None else maps.inbound_set(EDGE_TYPE_CODES[edge_type], number)
