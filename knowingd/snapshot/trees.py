"""A Merkle map kept as bucket roots: blocks of sixteen buckets of about a dozen keys, and the tops of the blocks.

The content of a tree is never kept, only the ids of what is in each bucket; a `Content` makes keys and values of ids.
An update makes the touched buckets again, joins their blocks and the top; what it costs depends on what was touched,
not on the size of the map.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from operator import add
from typing import Any, NamedTuple, Protocol

from knowing_protocol.critbit import bucket_roots, build, build_top, empty_hash

from knowingd.store.caches import join_roots, split_roots
from knowingd.store.interface import Blocks, GraphCaches
from knowingd.store.rows import BLOCK_BITS, NO_TYPE, SLOT_BITS, TreeRow, slot_of

LARGE_SET = 64  # an inbound set or names set of more members has a tree of its own
LARGE_BRANCH = 1024
CHEAP_SET = 2  # up to so many relations, making a value again is cheaper than keeping it
KEYS_IN_A_BUCKET = 8
BUCKETS_IN_A_BLOCK = 1 << BLOCK_BITS


class Entries(NamedTuple):
    """What ids stand for: under which keys each of them stands, and the values of those keys."""

    places: list[tuple[bytes, int]]
    values: dict[bytes, bytes]


Within = Callable[[bytes], bool]
Content = Callable[[Collection[int] | None, Within], Entries]
"""Entries of members by id, or of all there are; members that are gone have none, and keys that are not `Within` what
is asked for are left out."""


def anywhere(_: bytes) -> bool:
    """Every key is asked for."""
    return True


class Root(NamedTuple):
    """What a tree's update leads to."""

    tree: int
    root: bytes
    size: int


def bits_for(size: int) -> int:
    """How many leading bits cut a map of that size into buckets."""
    return min((size // KEYS_IN_A_BUCKET).bit_length(), SLOT_BITS)


def top_root(level: int, roots: Mapping[int, bytes], bits: int) -> bytes:
    """The root over subtrees that share prefixes of `bits` bits."""
    top = build_top(level, {(prefix << (256 - bits)).to_bytes(32, "big"): root for prefix, root in roots.items()})
    return top[0] if top is not None else empty_hash(level)


class Cut(NamedTuple):
    """A whole map cut into buckets, before it is kept."""

    bits: int
    size: int
    root: bytes
    tops: bytes
    blocks: list[tuple[int, list[bytes], list[list[int]]]]


def cut(level: int, records: list[bytes], places: Iterable[tuple[bytes, int]]) -> Cut:
    """Cut the map of records (keys followed by their values, each key once, in any order); asks nobody."""
    placed = list(places)
    bits = bits_for(len(placed))
    shift = SLOT_BITS - bits
    members: dict[int, set[int]] = defaultdict(set)
    for key, member in placed:
        members[int.from_bytes(key[:4], "big") >> shift].add(member)
    roots = bucket_roots(level, records, bits)
    block_bits = max(0, bits - BLOCK_BITS)
    inside = bits - block_bits
    blocks = []
    tops: dict[int, bytes] = {}
    for block in sorted({bucket >> inside for bucket in roots}):
        numbers = range(block << inside, (block + 1) << inside)
        found = [roots.get(number, b"") for number in numbers]
        blocks.append((block, found, [list(members.get(number, ())) for number in numbers]))
        tops[block] = _block_root(level, block, found, bits)
    top = join_roots(tops.get(block, b"") for block in range(1 << block_bits))
    return Cut(bits, sum(map(len, members.values())), top_root(level, tops, block_bits), top, blocks)


def cut_entries(level: int, entries: Entries) -> Cut:
    """Cut the map of entries."""
    return cut(level, list(map(add, entries.values, entries.values.values())), entries.places)


class TreeSink(Protocol):
    """Where whole trees are kept: the caches of a store, or rows for them."""

    def new_tree_id(self) -> int:
        """An id for a tree that is about to be put."""

    def put_blocks(self, tree: int, rows: Blocks) -> None:
        """Keep blocks: number, roots and members of their buckets."""

    def put_tree(self, row: TreeRow) -> None:
        """Keep a tree's row."""


def keep(
    sink: TreeSink, layer: int, made: Cut, name: str, edge_type: int = NO_TYPE, subject: Any = "", tree: int = 0
) -> Root:
    """Keep a tree, under a new id unless it has one."""
    tree = tree or sink.new_tree_id()
    sink.put_blocks(tree, made.blocks)
    sink.put_tree(TreeRow(tree, layer, name, edge_type, subject, made.bits, made.size, made.root, made.tops))
    return Root(tree, made.root, made.size)


class Trees:
    """The kept trees of one graph."""

    def __init__(self, caches: GraphCaches, layer: int) -> None:
        self.caches = caches
        self.layer = layer

    def build(
        self, level: int, name: str, entries: Entries, edge_type: int = NO_TYPE, subject: Any = "", tree: int = 0
    ) -> Root:
        """Make a whole tree and keep it."""
        return self.keep(cut_entries(level, entries), name, edge_type, subject, tree)

    def keep(self, made: Cut, name: str, edge_type: int = NO_TYPE, subject: Any = "", tree: int = 0) -> Root:
        """Keep a tree, under a new id unless it has one."""
        return keep(self.caches, self.layer, made, name, edge_type, subject, tree)

    def update(self, row: TreeRow, level: int, touched: Iterable[tuple[int, int]], content: Content) -> Root:
        """Make the touched buckets again: slots, and the members that came, changed or went there."""
        block_bits = max(0, row.bits - BLOCK_BITS)
        inside = row.bits - block_bits
        by_block: dict[int, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
        for slot, member in touched:
            bucket = slot >> (SLOT_BITS - row.bits)
            by_block[bucket >> inside][bucket & ((1 << inside) - 1)].add(member)
        if not by_block:
            return Root(row.id, row.root, row.size)
        blocks = {number: self._block(row.id, number, inside) for number in by_block}
        asked: set[int] = set()
        for number, buckets in by_block.items():
            for place, fresh in buckets.items():
                asked |= fresh
                asked.update(blocks[number][1][place])
        buckets_touched = {number << inside | place for number, buckets in by_block.items() for place in buckets}
        shift = SLOT_BITS - row.bits
        entries = content(asked, lambda key: slot_of(key) >> shift in buckets_touched)
        shares: dict[int, dict[bytes, bytes]] = {bucket: {} for bucket in buckets_touched}
        members: dict[int, set[int]] = {bucket: set() for bucket in buckets_touched}
        for key, member in entries.places:
            bucket = slot_of(key) >> shift
            if bucket in members:
                members[bucket].add(member)
                shares[bucket][key] = entries.values[key]
        tops = split_roots(row.tops)
        size = row.size
        for number, buckets in by_block.items():
            roots, lists = blocks[number]
            for place in buckets:
                bucket = number << inside | place
                node = build(level, shares[bucket])
                roots[place] = b"" if node is None else node[0]
                size += len(members[bucket]) - len(lists[place])
                lists[place] = list(members[bucket])
            tops[number] = _block_root(level, number, roots, row.bits)
        self.caches.put_blocks(row.id, ((number, *blocks[number]) for number in by_block))
        if abs(bits_for(size) - row.bits) > 1:
            return self._cut_again(row, level, content)
        root = top_root(level, {block: top for block, top in enumerate(tops) if top}, block_bits)
        self.caches.put_tree(row._replace(size=size, root=root, tops=join_roots(tops)))
        return Root(row.id, root, size)

    def _block(self, tree: int, number: int, inside: int) -> tuple[list[bytes], list[list[int]]]:
        return self.caches.block(tree, number) or ([b""] * (1 << inside), [[] for _ in range(1 << inside)])

    def _cut_again(self, row: TreeRow, level: int, content: Content) -> Root:
        """A tree that grew or shrank needs buckets of another size."""
        entries = content(set(self.caches.members(row.id)), anywhere)
        self.caches.drop_blocks(row.id)
        return self.build(level, row.map, entries, row.type, row.subject, row.id)


def _block_root(level: int, block: int, roots: list[bytes], bits: int) -> bytes:
    """The root of one block; empty bytes where all of its buckets are empty."""
    present = {block * len(roots) + place: root for place, root in enumerate(roots) if root}
    return top_root(level, present, bits) if present else b""
