"""The maps of a stored graph as the kernel's Merkle maps: opened where a walk goes, from kept bucket roots.

Proofs, descents and transfers read trees through this; what they cost depends on where they look, not on the size of
the map. Nothing is written, and what is read from caches is checked wherever a bucket is opened: a bucket that does not
hash to its kept root is an error, not an answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Final

from knowing_protocol.critbit import KEY_BITS, Inner, Leaf, MerkleMap, Node, Stub, build, build_top
from knowing_protocol.graph import MAP_LEVELS, Level, edge_type_key

from knowingd.errors import StoreError
from knowingd.snapshot.maps import Maps, ends_of
from knowingd.snapshot.trees import Content, anywhere
from knowingd.store.caches import split_roots
from knowingd.store.codes import EDGE_TYPES
from knowingd.store.interface import GraphSession
from knowingd.store.packing import unpack_ids
from knowingd.store.rows import BLOCK_BITS, SLOT_BITS, TreeRow, slot_of

_KEPT_TOPS: Final = 64  # of maps, at most some hundred kilobytes each
_KEPT_BRANCHES: Final = 512  # of at most a thousand relations each
_small_branches: Final[dict[bytes, MerkleMap]] = {}
_KEPT_BLOCKS: Final = 16  # of a map
_DAMAGED: Final = "a kept root does not fit what it is of"


class StoredMaps:
    """The maps of one graph, as long as a session lives."""

    def __init__(self, session: GraphSession, layer: int) -> None:
        self.session = session
        self.layer = layer
        self.maps = Maps(session, layer)
        self._trees: dict[str, MerkleMap] = {}
        self._branches: dict[tuple[int, int], MerkleMap] = {}
        self._rows: dict[str, TreeRow] = {}
        self._roots: dict[str, bytes] = {}

    def tree(self, name: str, keys: Iterable[bytes] = ()) -> MerkleMap:
        """A named map; what the keys will lead to is read at once."""
        found = self._trees.get(name)
        if found is None:
            row = self._row(name)
            found = self._trees[name] = stored_map(self.maps, row, MAP_LEVELS[name], self.maps.contents[name])
        if keys and isinstance(found.load, _Buckets):
            found.load.expect(keys)
        return found

    def root(self, name: str) -> bytes:
        """The kept root of a named map; nothing of the map is read."""
        if not self._roots:
            self._roots = self.maps.caches.named_roots(self.layer)
        found = self._roots.get(name)
        if found is None:
            raise _not_kept(name)
        return found

    def size(self, name: str) -> int:
        """About how many keys a named map has."""
        return self._row(name).size

    def _row(self, name: str) -> TreeRow:
        row = self._rows.get(name) or self.maps.caches.tree(self.layer, name)
        if row is None:
            raise _not_kept(name)
        self._rows[name] = row
        return row

    def branch_roots(self, packages: Collection[int] | None = None) -> dict[int, dict[int, bytes]]:
        """The roots of branches, by package and type."""
        found: dict[int, dict[int, bytes]] = {}
        for package, edge_type, root in self.maps.caches.branches(self.layer, packages):
            found.setdefault(package, {})[edge_type] = root
        return found

    def package_tree(self, package: int) -> MerkleMap:
        """The map of a package's edge types."""
        types = self.branch_roots([package]).get(package, {})
        return MerkleMap.of(
            Level.EDGE_TYPES, {edge_type_key(EDGE_TYPES[edge_type]): root for edge_type, root in types.items()}
        )

    def branch(self, package: int, edge_type: int) -> MerkleMap:
        """The relations of a branch."""
        key = (package, edge_type)
        found = self._branches.get(key)
        if found is None:
            row = self.maps.caches.tree(self.layer, "branch", edge_type, package)
            if row is None:
                found = self._small_branch(package, edge_type)
            else:
                found = stored_map(self.maps, row, Level.RELATIONS, self.maps.branch_content(edge_type))
            self._branches[key] = found
        return found

    def _small_branch(self, package: int, edge_type: int) -> MerkleMap:
        """A branch that no tree is kept of; one with the same root was the same branch."""
        root = self.branch_roots([package]).get(package, {}).get(edge_type, b"")
        found = _small_branches.get(root)
        if found is None:
            found = MerkleMap.of(Level.RELATIONS, self.maps.branch_contents(package, {edge_type})[package, edge_type])
            if len(_small_branches) >= _KEPT_BRANCHES:
                _small_branches.clear()
            _small_branches[found.root] = found
        return found

    def inbound_set(self, edge_type: int, target: int) -> tuple[MerkleMap, int] | None:
        """The relations of a type to a target, and how many they are."""
        row = self.maps.caches.inbound_of(self.layer, edge_type, target)
        if row is None:
            return None
        if row.sources is not None:
            content = self.maps.relations_to(edge_type, target, unpack_ids(row.sources))
            return MerkleMap.of(Level.INBOUND_SET, content), len(content)
        tree = self.maps.caches.tree(self.layer, "inbound-set", edge_type, target)
        if tree is None:
            raise StoreError(_DAMAGED, hint="run `knowing fsck --repair`")
        return stored_map(self.maps, tree, Level.INBOUND_SET, self.maps.inbound_content(edge_type, target)), tree.size

    def ids(self, name: str, keys: Iterable[bytes]) -> set[int]:
        """The ids of what stands under some keys of a named map."""
        wanted = set(keys)
        return _ids_at(self.maps, self._row(name), self.maps.contents[name], wanted)

    def ids_below(self, name: str, prefix: int, bits: int) -> set[int]:
        """The ids of what stands below a prefix of a named map."""
        return _ids_below(self.maps, self._row(name), self.maps.contents[name], prefix, bits)

    def relations(self, package: int, edge_type: int, keys: Iterable[bytes]) -> set[tuple[int, int]]:
        """Source and target of relations of a branch."""
        wanted = set(keys)
        row = self.maps.caches.tree(self.layer, "branch", edge_type, package)
        content = self.maps.branch_content(edge_type)
        if row is not None:
            return set(map(ends_of, _ids_at(self.maps, row, content, wanted)))
        places = content(self.maps.branch_relations(package, edge_type), anywhere).places
        return {ends_of(number) for key, number in places if key in wanted}

    def relations_below(self, package: int, edge_type: int, prefix: int, bits: int) -> set[tuple[int, int]]:
        """Source and target of the relations below a prefix of a branch."""
        row = self.maps.caches.tree(self.layer, "branch", edge_type, package)
        content = self.maps.branch_content(edge_type)
        if row is not None:
            return set(map(ends_of, _ids_below(self.maps, row, content, prefix, bits)))
        everything = self.maps.branch_relations(package, edge_type)
        if bits == 0:
            return set(map(ends_of, everything))
        return {ends_of(number) for key, number in content(everything, anywhere).places if _is_below(key, prefix, bits)}


def _not_kept(name: str) -> StoreError:
    return StoreError(f"the roots of {name} are not kept", hint="run `knowing fsck --repair`")


def stored_map(maps: Maps, row: TreeRow, level: int, content: Content) -> MerkleMap:
    """A kept tree as a map whose lower parts are opened when a walk enters them."""
    buckets = _Buckets(maps, row, level, content)
    return MerkleMap(level, _top(level, row.tops, buckets.block_bits), buckets)


@lru_cache(maxsize=_KEPT_TOPS)
def _top(level: int, tops: bytes, bits: int) -> Node | None:
    """The tree above the blocks; the same bytes give the same tree, which a map that is asked again has at once."""
    return build_top(level, {_key(block, bits): root for block, root in enumerate(split_roots(tops)) if root})


def _key(prefix: int, bits: int) -> bytes:
    return (prefix << (KEY_BITS - bits)).to_bytes(32, "big")


class _Buckets:
    """Opens the blocks of a kept tree, and the buckets of a block."""

    def __init__(self, maps: Maps, row: TreeRow, level: int, content: Content) -> None:
        self._maps = maps
        self._row = row
        self._level = level
        self._content = content
        self.block_bits = max(0, row.bits - BLOCK_BITS)
        self._inside = row.bits - self.block_bits
        self._blocks: dict[int, tuple[list[bytes], list[list[int]]]] = {}  # a walk enters one, then a bucket of it
        self._expected: dict[int, Node | None] = {}

    def __call__(self, stub: Stub) -> Leaf | Inner:
        """The node that a stub stands for."""
        digest, prefix = stub
        number = slot_of(prefix) >> (SLOT_BITS - self.block_bits)
        block = self._block(number)
        if block is None:
            raise StoreError(_DAMAGED, hint="run `knowing fsck --repair`")
        roots, _ = block
        if digest not in roots:  # the block as a whole, or else it is damaged
            first = number << self._inside
            present = {_key(first | place, self._row.bits): root for place, root in enumerate(roots) if root}
            return _opened(build_top(self._level, present), digest)
        bucket = number << self._inside | roots.index(digest)
        found = self._expected.get(bucket) or self._made({bucket})[bucket]
        return _opened(found, digest)

    def expect(self, keys: Iterable[bytes]) -> None:
        """Open the buckets that a walk to some keys will enter at once: reading them together costs little more."""
        wanted = {slot_of(key) >> (SLOT_BITS - self._row.bits) for key in keys} - self._expected.keys()
        if wanted:
            self._expected.update(self._made(wanted))

    def _made(self, buckets: set[int]) -> dict[int, Node | None]:
        shift, places = SLOT_BITS - self._row.bits, (1 << self._inside) - 1
        members: list[int] = []
        for bucket in sorted(buckets):
            block = self._block(bucket >> self._inside)
            if block is not None:
                members += block[1][bucket & places]
        entries = self._content(members, lambda key: slot_of(key) >> shift in buckets)
        shares: dict[int, dict[bytes, bytes]] = {bucket: {} for bucket in buckets}
        for key, value in entries.values.items():
            share = shares.get(slot_of(key) >> shift)
            if share is not None:
                share[key] = value
        return {bucket: build(self._level, share) for bucket, share in shares.items()}

    def _block(self, number: int) -> tuple[list[bytes], list[list[int]]] | None:
        block = self._blocks.get(number) or self._maps.caches.block(self._row.id, number)
        if block is not None:
            if len(self._blocks) >= _KEPT_BLOCKS:
                self._blocks.clear()
            self._blocks[number] = block
        return block


def _opened(node: Node | None, digest: bytes) -> Leaf | Inner:
    if node is None or len(node) == 2 or node[0] != digest:
        raise StoreError(_DAMAGED, hint="run `knowing fsck --repair`")
    return node


def _ids_at(maps: Maps, row: TreeRow, content: Content, wanted: set[bytes]) -> set[int]:
    block_bits = max(0, row.bits - BLOCK_BITS)
    inside = row.bits - block_bits
    buckets: dict[int, set[int]] = {}
    for key in wanted:
        bucket = slot_of(key) >> (SLOT_BITS - row.bits)
        buckets.setdefault(bucket >> inside, set()).add(bucket & ((1 << inside) - 1))
    members: set[int] = set()
    for number, places in buckets.items():
        block = maps.caches.block(row.id, number)
        if block is not None:
            members.update(one for place in places for one in block[1][place])
    return {member for key, member in content(members, anywhere).places if key in wanted}


def _ids_below(maps: Maps, row: TreeRow, content: Content, prefix: int, bits: int) -> set[int]:
    """What stands below a prefix; buckets that lie below it as a whole are not opened."""
    block_bits = max(0, row.bits - BLOCK_BITS)
    inside = row.bits - block_bits
    whole = bits <= row.bits
    first = prefix << (row.bits - bits) if whole else prefix >> (bits - row.bits)
    last = (prefix + 1) << (row.bits - bits) if whole else first + 1
    found: set[int] = set()
    for number in range(first >> inside, (last - 1 >> inside) + 1):
        block = maps.caches.block(row.id, number)
        for place, members in enumerate(block[1] if block is not None else ()):
            if first <= number << inside | place < last:
                found.update(members)
    if not whole:
        found = {number for key, number in content(found, anywhere).places if _is_below(key, prefix, bits)}
    return found


def _is_below(key: bytes, prefix: int, bits: int) -> bool:
    return int.from_bytes(key, "big") >> (KEY_BITS - bits) == prefix
