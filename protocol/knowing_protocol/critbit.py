"""The crit-bit Merkle map: 32-byte keys to 32-byte values, one shape for one content.

    leaf  = SHA-256(00 || level || key || value)
    inner = SHA-256(01 || level || depth || left || right)     depth: the first bit in which the two sides differ
    empty = SHA-256(02 || level)

Depth, full key and level are hashed, so under any root each key has exactly one walk. The subtree of a bit prefix is
one node, so the same hashes serve proofs, diff and sync. Nodes are tuples, shared between versions and never changed:
an update copies one path. A subtree that lives elsewhere (behind a store, or left out of a proof) is a stub, and a
`Loader` says what it stands for; whoever never meets a stub needs none.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice, pairwise
from operator import add, xor
from struct import iter_unpack
from typing import Final, TypeAlias

from knowing_protocol.errors import KnowingError

Leaf: TypeAlias = tuple[bytes, bytes, bytes]  # hash, key, value
Inner: TypeAlias = "tuple[bytes, int, Node, Node]"  # hash, depth, left, right
Stub: TypeAlias = tuple[bytes, bytes]  # hash, key whose leading bits all keys below share
Node: TypeAlias = "Leaf | Inner | Stub"
Loader: TypeAlias = Callable[[Stub], "Leaf | Inner"]
Change: TypeAlias = tuple[bytes, bytes | None, bytes | None]  # key, old value, new value

KEY_BITS: Final = 256
_BYTE: Final = [bytes([value]) for value in range(256)]
_INNER_PREFIXES: Final = [[b"\1" + level + depth for depth in _BYTE] for level in _BYTE[:64]]
_NOTHING: Final = (b"", b"")
_BATCH: Final = 8192  # records of small maps that are hashed in one pass: what a processor's cache holds
_LARGE: Final = 256  # from here on, building buckets again is cheaper than keeping every node


class MissingSubtreeError(KnowingError):
    """A walk came to a subtree that is not here."""

    code = "missing-subtree"


def no_loader(stub: Stub) -> Leaf | Inner:
    """The loader of a map that is whole: meeting a stub is an error."""
    raise MissingSubtreeError(f"the subtree {stub[0].hex()[:16]} is not part of this map")


def leaf_hash(level: int, key: bytes, value: bytes) -> bytes:
    """The hash of a leaf."""
    return sha256(b"\0" + _BYTE[level] + key + value).digest()


def inner_hash(level: int, depth: int, left: bytes, right: bytes) -> bytes:
    """The hash of an inner node."""
    return sha256(b"\1" + _BYTE[level] + _BYTE[depth] + left + right).digest()


def empty_hash(level: int) -> bytes:
    """The root of a map without keys."""
    return sha256(b"\2" + _BYTE[level]).digest()


def bit(key: bytes, depth: int) -> int:
    """Bit `depth` of a key, counted from the most significant bit of its first byte."""
    return key[depth >> 3] >> (~depth & 7) & 1


def first_difference(a: bytes, b: bytes) -> int:
    """The first bit in which two keys differ; 256 if they are equal."""
    return KEY_BITS - (int.from_bytes(a, "big") ^ int.from_bytes(b, "big")).bit_length()


def _join(level: int, nodes: Iterator[Leaf] | Iterator[Node], depths: Iterable[int]) -> Node:
    """The tree over nodes in key order, given the first differing bit of each pair of neighbours.

    `waiting[d]` is a finished left side that waits for its right side at depth d; `under[d]` is the next shallower
    depth at which one waits, so that the two lists are a stack without its calls.
    """
    prefixes = _INNER_PREFIXES[level]
    hasher = sha256
    waiting: list[Node] = [_NOTHING] * KEY_BITS
    under = [-1] * KEY_BITS
    current = next(nodes)
    top = -1
    for depth, node in zip(depths, nodes, strict=True):
        while top > depth:
            left = waiting[top]
            current = (hasher(prefixes[top] + left[0] + current[0]).digest(), top, left, current)
            top = under[top]
        waiting[depth] = current
        under[depth] = top
        top = depth
        current = node
    while top >= 0:
        left = waiting[top]
        current = (hasher(prefixes[top] + left[0] + current[0]).digest(), top, left, current)
        top = under[top]
    return current


def _depths(keys: Sequence[bytes]) -> list[int]:
    numbers = [int.from_bytes(key, "big") for key in keys]
    return [KEY_BITS - (a ^ b).bit_length() for a, b in pairwise(numbers)]


def _build_small(level: int, records: Sequence[bytes]) -> Node:
    """The whole tree over sorted records, each a key followed by its value."""
    hasher, prefix = sha256, b"\0" + _BYTE[level]
    leaves: list[Leaf] = [(hasher(prefix + record).digest(), record[:32], record[32:]) for record in records]
    return _join(level, iter(leaves), _depths([leaf[1] for leaf in leaves]))


def _build_large(level: int, records: list[bytes]) -> tuple[Node, Loader]:
    """The top of the tree over sorted records, and the loader of the buckets below it.

    Keeping 200,000 node tuples costs more than hashing them. So the lower nodes are hashed and forgotten; a bucket of
    about six keys is built again when a walk enters it, and from then on an update keeps it.
    """
    bits = min(len(records).bit_length() - 3, 64)
    roots, depths = _hash_buckets(level, records, bits)

    def load(stub: Stub) -> Leaf | Inner:
        start = bisect_left(records, stub[1])
        after = ((int.from_bytes(stub[1], "big") >> (KEY_BITS - bits)) + 1) << (KEY_BITS - bits)
        end = bisect_left(records, after.to_bytes(32, "big")) if after >> KEY_BITS == 0 else len(records)
        node = _build_small(level, records[start:end])
        assert len(node) != 2
        return node

    return _join(level, iter(roots), depths), load


def _hash_buckets(level: int, records: Sequence[bytes], bits: int) -> tuple[list[Stub], Iterable[int]]:
    """The subtree of each prefix of `bits` bits as a stub with its first key, and the depths between those stubs."""
    joined = _leaf_messages(level, records)
    width, lengths = _differing_lengths(joined, records)
    longest = width - bits
    return _hash_runs(level, joined, width, lengths, longest), (width - one for one in lengths if one > longest)


def _leaf_messages(level: int, records: Iterable[bytes]) -> bytes:
    """What the leaves of records hash, end to end: fresh copies in key order are nearer than scattered originals."""
    return (b"\0" + _BYTE[level]).join([b"", *records])


def _hash_runs(level: int, joined: bytes, width: int, lengths: Iterable[int], longest: int) -> list[Stub]:
    """The root of each run of leaves, with its first key; where a length is over `longest`, the next run begins.

    As `_join`, but by length (the bits from the first differing one on), which saves a subtraction for each key.
    """
    prefixes = [_INNER_PREFIXES[level][width - length & 255] for length in range(width + 1)]
    waiting = [b""] * (width + 1)
    under = [0] * (width + 1)
    bottom = top = width + 1
    hasher = sha256
    roots: list[Stub] = []
    messages = iter_unpack("66s", joined)
    (first,) = next(messages)
    current = hasher(first).digest()
    for length, (message,) in zip(lengths, messages, strict=True):
        while top < length:
            current = hasher(waiting[top] + current).digest()
            top = under[top]
        if length > longest:
            roots.append((current, first[2:34]))
            first = message
        else:
            waiting[length] = prefixes[length] + current
            under[length] = top
            top = length
        current = hasher(message).digest()
    while top < bottom:
        current = hasher(waiting[top] + current).digest()
        top = under[top]
    roots.append((current, first[2:34]))
    return roots


def roots_of(level: int, groups: Iterable[list[bytes]]) -> list[bytes]:
    """`root_of` for many maps, none of them empty: one pass over many costs less than a call for each."""
    roots: list[bytes] = []
    records: list[bytes] = []
    starts: list[int] = []
    for group in groups:
        group.sort()
        starts.append(len(records))
        records += group
        if len(records) >= _BATCH:
            roots += _roots_of(level, records, starts)
            records, starts = [], []
    if records:
        roots += _roots_of(level, records, starts)
    return roots


def _roots_of(level: int, records: Sequence[bytes], starts: Sequence[int]) -> Iterator[bytes]:
    joined = _leaf_messages(level, records)
    width, lengths = _differing_lengths(joined, records, starts[1:])
    return (root for root, _ in _hash_runs(level, joined, width, lengths, width))


def root_of(level: int, records: list[bytes]) -> bytes:
    """The root over records (keys followed by their values, each key once), in any order, without keeping a tree."""
    hasher, prefix = sha256, b"\0" + _BYTE[level]
    if len(records) == 1:
        return hasher(prefix + records[0]).digest()
    if not records:
        return empty_hash(level)
    records.sort()
    if len(records) >= _LARGE:
        return _hash_buckets(level, records, 0)[0][0][0]
    hashes = [hasher(prefix + record).digest() for record in records]
    depths = _depths([record[:32] for record in records])
    prefixes = _INNER_PREFIXES[level]
    if len(records) == 2:
        return hasher(prefixes[depths[0]] + hashes[0] + hashes[1]).digest()
    waiting: list[tuple[int, bytes]] = []  # finished left sides and the depths at which they wait
    current = hashes[0]
    for depth, fresh in zip(depths, hashes[1:], strict=True):
        while waiting and waiting[-1][0] > depth:
            top, left = waiting.pop()
            current = hasher(prefixes[top] + left + current).digest()
        waiting.append((depth, current))
        current = fresh
    for top, left in reversed(waiting):
        current = hasher(prefixes[top] + left + current).digest()
    return current


def bucket_roots(level: int, records: list[bytes], bits: int) -> dict[int, bytes]:
    """The root of each subtree whose keys share their first `bits` bits (at most 64), by those bits as a number.

    Records are as those of `root_of`.
    """
    if not records:
        return {}
    records.sort()
    roots, _ = _hash_buckets(level, records, bits)
    return {int.from_bytes(key, "big") >> (KEY_BITS - bits): root for root, key in roots}


def _differing_lengths(joined: bytes, records: Sequence[bytes], starts: Sequence[int] = ()) -> tuple[int, list[int]]:
    """For each pair of neighbours, how many bits there are from their first differing one to the end of `width` bits.

    Eight columns of bytes become 64-bit numbers without a loop, and 64 bits tell almost all keys apart. Neighbours of
    different maps, the second of which is one of `starts`, are further apart than keys can be.
    """
    columns = bytearray(8 * len(records))
    for column in range(8):
        columns[column::8] = joined[2 + column :: 66]
    leading = array("Q", bytes(columns))
    if sys.byteorder == "little":
        leading.byteswap()
    numbers = leading.tolist()
    lengths = list(map(int.bit_length, map(xor, numbers, islice(numbers, 1, None))))
    width = 64
    _part(lengths, starts, width)
    if 0 in lengths:
        width = KEY_BITS
        lengths = [width - depth for depth in _depths([record[:32] for record in records])]
        _part(lengths, starts, width)
    return width, lengths


def _part(lengths: list[int], starts: Iterable[int], width: int) -> None:
    for start in starts:
        lengths[start - 1] = width + 1


def _records(content: Mapping[bytes, bytes]) -> list[bytes]:
    """Keys followed by their values, sorted."""
    return sorted(map(add, content, content.values()))


def build(level: int, content: Mapping[bytes, bytes]) -> Node | None:
    """The whole tree of a map, from items in any order."""
    if len(content) == 1:
        ((key, value),) = content.items()
        return (leaf_hash(level, key, value), key, value)
    return _build_small(level, _records(content)) if content else None


def build_top(level: int, buckets: Mapping[bytes, bytes]) -> Node | None:
    """The top of a map whose lower parts live elsewhere: bucket prefix (as a key, zero-filled) to subtree hash.

    All prefixes have the same number of bits. How many is a matter of caching and changes no hash.
    """
    if not buckets:
        return None
    prefixes = sorted(buckets)
    stubs: Iterator[Node] = iter([(buckets[prefix], prefix) for prefix in prefixes])
    return _join(level, stubs, _depths(prefixes))


def _inner(level: int, depth: int, left: Node, right: Node) -> Inner:
    return (inner_hash(level, depth, left[0], right[0]), depth, left, right)


def representative(node: Node) -> bytes:
    """A key of the subtree, or for a stub the prefix that all its keys share."""
    while len(node) == 4:
        node = node[2]
    return node[1]


def insert(level: int, node: Node | None, key: bytes, value: bytes, load: Loader = no_loader) -> Node:
    """The tree with one key set; only the nodes on its path are new."""
    fresh: Leaf = (leaf_hash(level, key, value), key, value)
    if node is None:
        return fresh
    path: list[Inner] = []
    number = int.from_bytes(key, "big")
    while True:
        if len(node) == 2:
            node = load(node)
        if len(node) == 3:
            break
        path.append(node)
        node = node[3] if number >> (255 - node[1]) & 1 else node[2]
    split = KEY_BITS - (number ^ int.from_bytes(node[1], "big")).bit_length()
    current: Node = fresh
    if split != KEY_BITS:
        while path and path[-1][1] > split:
            node = path.pop()
        pair = (node, current) if number >> (255 - split) & 1 else (current, node)
        current = _inner(level, split, *pair)
    prefix = b"\1" + _BYTE[level]
    for _, depth, left, right in reversed(path):
        if number >> (255 - depth) & 1:
            digest = sha256(prefix + _BYTE[depth] + left[0] + current[0]).digest()
            current = (digest, depth, left, current)
        else:
            digest = sha256(prefix + _BYTE[depth] + current[0] + right[0]).digest()
            current = (digest, depth, current, right)
    return current


def delete(level: int, node: Node | None, key: bytes, load: Loader = no_loader) -> Node | None:
    """The tree without one key; the same tree if the key was not there."""
    return update(level, node, {key: None}, load)


def update(
    level: int, node: Node | None, changes: Mapping[bytes, bytes | None], load: Loader = no_loader
) -> Node | None:
    """The tree with many keys set (a value) or removed (None); each touched node is hashed once."""
    keys = sorted(changes)

    def merge(node: Node | None, low: int, high: int) -> Node | None:
        if low == high:
            return node
        if node is not None and len(node) == 2:
            node = load(node)
        if node is None or (len(node) == 3 and high - low == 1 and keys[low] == node[1]):
            wanted = {key: value for key in keys[low:high] if (value := changes[key]) is not None}
            return build(level, wanted)
        inside = representative(node)
        node_depth = node[1] if len(node) == 4 else KEY_BITS
        split = min(first_difference(inside, keys[low]), first_difference(inside, keys[high - 1]), int(node_depth))
        middle = _first_with_bit(keys, low, high, split)
        if len(node) == 4 and split == node[1]:
            left, right = merge(node[2], low, middle), merge(node[3], middle, high)
            if left is node[2] and right is node[3]:
                return node
        elif bit(inside, split):
            left, right = merge(None, low, middle), merge(node, middle, high)
        else:
            left, right = merge(node, low, middle), merge(None, middle, high)
        if left is None or right is None:
            return left or right
        return _inner(level, split, left, right)

    return merge(node, 0, len(keys))


def _first_with_bit(keys: Sequence[bytes], low: int, high: int, depth: int) -> int:
    """Where, among sorted keys that agree before `depth`, those with the bit set begin."""
    shift = 255 - depth
    boundary = (int.from_bytes(keys[high - 1], "big") >> shift | 1) << shift
    return bisect_left(keys, boundary.to_bytes(32, "big"), low, high)


def lookup(node: Node | None, key: bytes, load: Loader = no_loader) -> bytes | None:
    """The value of a key, or None: the end of the key's one walk."""
    number = int.from_bytes(key, "big")
    while node is not None:
        if len(node) == 2:
            node = load(node)
        if len(node) == 3:
            return node[2] if node[1] == key else None
        node = node[3] if number >> (255 - node[1]) & 1 else node[2]
    return None


def subtree(node: Node | None, prefix: bytes, bits: int, load: Loader = no_loader) -> Node | None:
    """The one node that holds exactly the keys which share the first `bits` bits of `prefix`."""
    shared = 0  # how many leading bits all keys below are known to have in common with the prefix
    while node is not None and shared < bits:
        if len(node) == 2:
            node = load(node)
        depth = int(node[1]) if len(node) == 4 else KEY_BITS
        if first_difference(representative(node), prefix) < min(depth, bits):
            return None
        if len(node) == 3 or depth >= bits:
            return node
        node = node[3] if bit(prefix, depth) else node[2]
        shared = depth + 1
    return node


def items(node: Node | None, load: Loader = no_loader) -> Iterator[tuple[bytes, bytes]]:
    """All keys and values, in key order."""
    stack = [node] if node is not None else []
    while stack:
        node = stack.pop()
        if len(node) == 2:
            node = load(node)
        if len(node) == 3:
            yield node[1], node[2]
        else:
            stack += (node[3], node[2])


def diff(
    old: Node | None, new: Node | None, load_old: Loader = no_loader, load_new: Loader = no_loader
) -> Iterator[Change]:
    """What turns the old map into the new one; subtrees with equal hashes are never opened."""
    stack = [(old, new)]
    while stack:
        old, new = stack.pop()
        if old is None or new is None:
            yield from ((key, value, None) for key, value in items(old, load_old))
            yield from ((key, None, value) for key, value in items(new, load_new))
            continue
        if old[0] == new[0]:
            continue
        if len(old) == 2:
            old = load_old(old)
        if len(new) == 2:
            new = load_new(new)
        if len(old) == 3 and len(new) == 3 and old[1] == new[1]:
            yield old[1], old[2], new[2]
            continue
        old_depth = int(old[1]) if len(old) == 4 else KEY_BITS
        new_depth = int(new[1]) if len(new) == 4 else KEY_BITS
        old_key, new_key = representative(old), representative(new)
        apart = first_difference(old_key, new_key)
        if apart < min(old_depth, new_depth):
            stack += [(None, new), (old, None)]
        elif len(old) == 4 and len(new) == 4 and old_depth == new_depth:
            stack += [(old[3], new[3]), (old[2], new[2])]
        elif len(old) == 4 and old_depth < new_depth:
            right = bit(new_key, old_depth)
            stack += [(old[3], new if right else None), (old[2], None if right else new)]
        else:
            assert len(new) == 4
            right = bit(old_key, new_depth)
            stack += [(old if right else None, new[3]), (None if right else old, new[2])]


class MerkleMap:
    """A map of one level with its tree: immutable, cheap to copy, and what most callers want."""

    __slots__ = ("level", "load", "node")

    def __init__(self, level: int, node: Node | None = None, load: Loader = no_loader) -> None:
        self.level = level
        self.node = node
        self.load = load

    @classmethod
    def of(cls, level: int, content: Mapping[bytes, bytes]) -> MerkleMap:
        """The map with that content."""
        if len(content) < _LARGE:
            return cls(level, build(level, content))
        return cls(level, *_build_large(level, _records(content)))

    @property
    def root(self) -> bytes:
        """The hash that names this content."""
        return self.node[0] if self.node is not None else empty_hash(self.level)

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, or None."""
        return lookup(self.node, key, self.load)

    def set(self, key: bytes, value: bytes) -> MerkleMap:
        """The map with one key set."""
        return MerkleMap(self.level, insert(self.level, self.node, key, value, self.load), self.load)

    def updated(self, changes: Mapping[bytes, bytes | None]) -> MerkleMap:
        """The map with many keys set or removed."""
        return MerkleMap(self.level, update(self.level, self.node, changes, self.load), self.load)

    def prefix_root(self, prefix: bytes, bits: int) -> bytes:
        """The hash of the subtree of a bit prefix; the empty hash where there is none."""
        node = subtree(self.node, prefix, bits, self.load)
        return node[0] if node is not None else empty_hash(self.level)

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        return items(self.node, self.load)
