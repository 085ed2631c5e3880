"""The key spaces that two nodes compare: named maps, and the branches of `edges`; their records by key.

Only what cannot be derived is compared and sent: `inbound`, `names` and `alias_of` follow from the rest, and the
receiver makes them itself. Fingerprints are eight bytes keyed by the nonce of an exchange, so that nobody can prepare
two things that look alike; whatever they miss, the signed root finds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from hashlib import sha256
from itertools import islice
from typing import Final, NamedTuple

from knowing_protocol.critbit import KEY_BITS, MerkleMap, items, leaf_hash, subtree
from knowing_protocol.graph import Level
from knowing_protocol.records import Alias, Edge, Member, Records, facts_from_json
from knowing_protocol.vocabulary import Coverage

from knowingd.snapshot.stored import StoredMaps
from knowingd.store.codes import EDGE_TYPES, LAYER_OF_PROVENANCE, LAYERS, PROVENANCES
from knowingd.store.interface import GraphSession
from knowingd.store.records import read_file_with_edges

MAPS: Final = ("nodes", "edges", "aliases", "members", "facts", "files", "coverage")
BRANCH: Final = "branch"
WAYS: Final = 16
WAY_BITS: Final = 4
FINGERPRINT: Final = 8
NOTHING: Final = bytes(FINGERPRINT)


class Space(NamedTuple):
    """A map of one graph; of a branch, also its package and edge type."""

    layer: int
    map: str
    package: str = ""
    type: int = -1


class Prefix(NamedTuple):
    """The keys that begin with some bits."""

    bits: int
    value: int

    @property
    def key(self) -> bytes:
        """The prefix as a key, filled with zeros."""
        return (self.value << (KEY_BITS - self.bits)).to_bytes(32, "big")

    def child(self, number: int) -> Prefix:
        """One of the sixteen prefixes below."""
        return Prefix(self.bits + WAY_BITS, self.value << WAY_BITS | number)


EVERYTHING: Final = Prefix(0, 0)


class Side:
    """What one side of an exchange has, under the exchange's nonce."""

    def __init__(self, session: GraphSession, nonce: bytes = b"") -> None:
        self.session = session
        self.nonce = nonce
        self.stored = tuple(StoredMaps(session, layer) for layer in LAYERS)
        self.packages = {name: number for number, name in session.packages().items()}

    def fingerprint(self, root: bytes) -> bytes:
        """A hash as it is shown to the other side."""
        return sha256(self.nonce + root).digest()[:FINGERPRINT]

    def tree(self, space: Space) -> MerkleMap:
        """The map of a space; of a branch that is not here, an empty one."""
        stored = self.stored[space.layer]
        if space.map != BRANCH:
            return stored.tree(space.map)
        package = self.packages.get(space.package)
        return MerkleMap(Level.RELATIONS) if package is None else stored.branch(package, space.type)

    def children(self, space: Space, prefix: Prefix) -> bytes:
        """The fingerprints of the sixteen subtrees below a prefix."""
        tree = self.tree(space)
        found = []
        for number in range(WAYS):
            below = prefix.child(number)
            node = subtree(tree.node, below.key, below.bits, tree.load)
            found.append(NOTHING if node is None else self.fingerprint(node[0]))
        return b"".join(found)

    def leaves(self, space: Space, prefix: Prefix, limit: int | None = None) -> dict[bytes, bytes]:
        """Fingerprint to key of what is below a prefix, in key order; at most `limit` of them."""
        tree = self.tree(space)
        node = subtree(tree.node, prefix.key, prefix.bits, tree.load)
        return {
            self.fingerprint(leaf_hash(tree.level, key, value)): key
            for key, value in islice(items(node, tree.load), limit)
        }

    def branches(self, layer: int, packages: Collection[int] | None = None) -> Iterator[tuple[Space, bytes]]:
        """The branches of a graph, or of some packages, and the fingerprints of their roots."""
        names = {number: name for name, number in self.packages.items()}
        for package, types in self.stored[layer].branch_roots(packages).items():
            for edge_type, root in types.items():
                yield Space(layer, BRANCH, names[package], edge_type), self.fingerprint(root)

    def package_ids(self, layer: int, keys: Collection[bytes]) -> set[int]:
        """The packages that stand under keys of `edges`."""
        return self.stored[layer].ids("edges", keys)

    def records(self, space: Space, keys: Collection[bytes]) -> tuple[Records, set[Edge]]:
        """The records under keys of a space, and the edges that call sites among them are of."""
        if space.map == BRANCH:
            package = self.packages.get(space.package)
            return Records(edges=[] if package is None else self._relations(space, package, keys)), set()
        ids = self.stored[space.layer].ids(space.map, keys)
        return records_by_id(self.session, space.layer, space.map, ids)

    def _relations(self, space: Space, package: int, keys: Collection[bytes]) -> list[Edge]:
        pairs = self.stored[space.layer].relations(package, space.type, keys)
        nodes = self.session.load_nodes({one for pair in pairs for one in pair})
        return [
            Edge(nodes[source].hash, nodes[target].hash, EDGE_TYPES[space.type], PROVENANCES[code])
            for source, target in pairs
            for code in self.session.provenances(source, space.type, target)
            if LAYER_OF_PROVENANCE[code] == space.layer
        ]


def records_by_id(
    session: GraphSession, layer: int, name: str, ids: Collection[int] | None
) -> tuple[Records, set[Edge]]:
    """The records of a map by the ids of its rows, and the edges that call sites among them are of."""
    found, edges = Records(), set[Edge]()
    if name == "nodes":
        wanted = session.node_ids(layer, ids)
        rows = session.load_nodes(wanted)
        found.nodes = [rows[one].node for one in wanted]
    elif name == "aliases":
        aliases = list(session.aliases(layer, ids))
        rows = session.load_nodes({row.target for row in aliases})
        found.aliases = [Alias(row.name, rows[row.target].hash, row.claimed) for row in aliases]
    elif name == "members":
        members = list(session.members(layer, ids))
        rows = session.load_nodes({one for row in members for one in (row.owner, row.target)})
        found.members = [Member(rows[row.owner].hash, row.name, rows[row.target].hash) for row in members]
    elif name == "facts":
        facts = list(session.facts(layer, ids))
        rows = session.load_nodes([node for node, _ in facts])
        found.facts = {rows[node].hash: facts_from_json(text, "facts") for node, text in facts}
    elif name == "files":
        for row in list(session.files(layer, ids)):
            file, seen = read_file_with_edges(session, row)
            found.files.append(file)
            edges |= seen
    elif name == "coverage":
        found.coverage = {path: Coverage(reason) for _, path, reason in session.coverage(layer, ids)}
    return found, edges


def together(records: Records, more: Records) -> None:
    """Add records to others."""
    records.nodes += more.nodes
    records.edges += more.edges
    records.aliases += more.aliases
    records.members += more.members
    records.facts.update(more.facts)
    records.files += more.files
    records.coverage.update(more.coverage)
