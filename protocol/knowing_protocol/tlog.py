"""A Merkle log over SHA-256 as RFC 6962 and RFC 9162 define it: hashes, roots, proofs, and the checks of proofs.

It promises that a proof made here checks here, and that a check passes only for the one path that the sizes call for:
no hash more, no hash less. A log is read through `HashReader`, which knows complete subtrees alone, and those never
change once they are written; so a store of any kind can stand behind the same functions.

It must never see what the leaves say (it takes leaf hashes), and it must never follow a path before its length has
been compared with what index and size demand.

A path does not pin the size by itself: sizes that call for the same siblings on the same sides pass alike, as in the
RFC. Take size and root together from one checkpoint whose signature has been checked.

Sizes stay below 2^53, which every JSON reader keeps exact, and which bounds any path to 53 hashes.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

from knowing_protocol.errors import MalformedError, RejectedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

HASH_SIZE = 32
MAX_SIZE = 2**53 - 1
EMPTY_ROOT = sha256(b"").digest()

_OUT_OF_RANGE = "log-range"
_BAD_INCLUSION = "log-inclusion"
_BAD_CONSISTENCY = "log-consistency"


class HashReader(Protocol):
    """Where the hashes of a log are kept."""

    def read(self, level: int, index: int) -> bytes:
        """The hash of the complete subtree over leaves [index * 2^level, (index + 1) * 2^level)."""
        ...


class Log:
    """A log in memory: the smallest `HashReader` that can also grow."""

    def __init__(self, leaf_hashes: Iterable[bytes] = ()) -> None:
        self._levels: list[list[bytes]] = [[]]
        for leaf in leaf_hashes:
            self.append(leaf)

    @property
    def size(self) -> int:
        """The number of leaves."""
        return len(self._levels[0])

    def read(self, level: int, index: int) -> bytes:
        """The hash of a complete subtree, as `HashReader` says."""
        if not (0 <= level < len(self._levels) and 0 <= index < len(self._levels[level])):
            raise RejectedError(_OUT_OF_RANGE, "the log has no such complete subtree")
        return self._levels[level][index]

    def append(self, leaf_hash: bytes) -> int:
        """Add one leaf and return its index."""
        index = self.size
        for level, _, node in new_complete_nodes(self, index, leaf_hash):
            if level == len(self._levels):
                self._levels.append([])
            self._levels[level].append(node)
        return index

    def root(self, size: int | None = None) -> bytes:
        """The root over the first `size` leaves, or over all of them."""
        return root_from(self, self.size if size is None else self._held(size))

    def inclusion_proof(self, index: int, size: int) -> list[bytes]:
        """The path from leaf `index` to the root over the first `size` leaves."""
        return inclusion_proof(self, index, self._held(size))

    def consistency_proof(self, old: int, new: int) -> list[bytes]:
        """The path that shows the first `new` leaves to begin with the first `old` ones."""
        return consistency_proof(self, old, self._held(new))

    def _held(self, size: int) -> int:
        if size > self.size:
            raise RejectedError(_OUT_OF_RANGE, "the log is shorter than the size that was asked for")
        return size


def leaf_hash(data: bytes) -> bytes:
    """The hash of one leaf. Its prefix differs from that of a node, so neither can pass for the other."""
    return sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node."""
    if not (_is_hash(left) and _is_hash(right)):
        raise MalformedError("a log hash must be 32 bytes")
    return sha256(b"\x01" + left + right).digest()


def root_from(reader: HashReader, size: int) -> bytes:
    """The root over the first `size` leaves."""
    if not _is_size(size):
        raise RejectedError(_OUT_OF_RANGE, "the log size is out of range")
    return _range_hash(reader, 0, size) if size else EMPTY_ROOT


def inclusion_proof(reader: HashReader, index: int, size: int) -> list[bytes]:
    """The hashes beside the way from leaf `index` up to the root over the first `size` leaves, lowest first."""
    if not (_is_size(size) and _is_size(index) and index < size):
        raise RejectedError(_OUT_OF_RANGE, "the leaf index must be below the log size")
    begin, end = 0, size
    path: list[bytes] = []
    while end - begin > 1:
        middle = _split(begin, end)
        if index < middle:
            path.append(_range_hash(reader, middle, end))
            end = middle
        else:
            path.append(_range_hash(reader, begin, middle))
            begin = middle
    return path[::-1]


def consistency_proof(reader: HashReader, old: int, new: int) -> list[bytes]:
    """The hashes that lead from the root over `old` leaves to the root over `new` leaves, lowest first."""
    if not (_is_size(new) and _is_size(old) and old <= new):
        raise RejectedError(_OUT_OF_RANGE, "the old log size must not be above the new one")
    if old == 0:
        return []
    begin, end = 0, new
    path: list[bytes] = []
    while end != old:
        middle = _split(begin, end)
        if old <= middle:
            path.append(_range_hash(reader, middle, end))
            end = middle
        else:
            path.append(_range_hash(reader, begin, middle))
            begin = middle
    if begin > 0:
        # The checker starts at this subtree. If it begins at leaf 0, it is the old root, which the checker has.
        path.append(_range_hash(reader, begin, end))
    return path[::-1]


def new_complete_nodes(reader: HashReader, index: int, leaf_hash: bytes) -> list[tuple[int, int, bytes]]:
    """What a store must write to append this leaf: (level, index, hash) of each subtree it completes, lowest first."""
    if not (_is_size(index) and index < MAX_SIZE):
        raise RejectedError(_OUT_OF_RANGE, "the log cannot grow to this size")
    if not _is_hash(leaf_hash):
        raise MalformedError("a log hash must be 32 bytes")
    nodes = [(0, index, leaf_hash)]
    level, node = 0, leaf_hash
    while index & 1:
        node = node_hash(_complete(reader, level, index - 1), node)
        level += 1
        index >>= 1
        nodes.append((level, index, node))
    return nodes


def root_from_inclusion(leaf_hash: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes:
    """The root over `size` leaves that this path leads to from leaf `index`."""
    if not (_is_size(size) and _is_size(index) and index < size):
        raise RejectedError(_BAD_INCLUSION, "the leaf index must be below the log size")
    sides = list(_siblings_on_the_left(index, size - 1))
    if len(path) != len(sides):
        raise RejectedError(_BAD_INCLUSION, "the inclusion path does not have the length that index and size demand")
    if not (_is_hash(leaf_hash) and all(map(_is_hash, path))):
        raise RejectedError(_BAD_INCLUSION, "a hash of the inclusion proof is not 32 bytes")
    root = leaf_hash
    for sibling, is_left in zip(path, sides, strict=True):
        root = node_hash(sibling, root) if is_left else node_hash(root, sibling)
    return root


def check_inclusion(leaf_hash: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> None:
    """Raise unless `path` shows that the log with this size and root holds this leaf at `index`."""
    if root_from_inclusion(leaf_hash, index, size, path) != root:
        raise RejectedError(_BAD_INCLUSION, "the inclusion path does not lead to the root")


def check_consistency(old_size: int, old_root: bytes, new_size: int, new_root: bytes, path: Sequence[bytes]) -> None:
    """Raise unless `path` shows that the new log is the old one with nothing but leaves added at its end."""
    if not (_is_size(new_size) and _is_size(old_size) and old_size <= new_size):
        raise RejectedError(_BAD_CONSISTENCY, "the old log size must not be above the new one")
    if not (_is_hash(old_root) and _is_hash(new_root)):
        raise RejectedError(_BAD_CONSISTENCY, "a root of the consistency proof is not 32 bytes")
    for size, root in ((old_size, old_root), (new_size, new_root)):
        if size == 0 and root != EMPTY_ROOT:
            raise RejectedError(_BAD_CONSISTENCY, "the root of an empty log is the hash of nothing")
    if old_size in (0, new_size):
        if len(path) > 0:
            raise RejectedError(_BAD_CONSISTENCY, "nothing is to be shown here, so the path must be empty")
        if old_size == new_size and old_root != new_root:
            raise RejectedError(_BAD_CONSISTENCY, "two logs of the same size have different roots")
        return
    # Both roots rest on the largest complete subtree that ends where the old log ends. Hashes on its left belong to
    # both trees, hashes on its right to the new one alone.
    level = (old_size & -old_size).bit_length() - 1
    sides = list(_siblings_on_the_left((old_size - 1) >> level, (new_size - 1) >> level))
    start_is_old_root = old_size == 1 << level
    if len(path) != len(sides) + (not start_is_old_root):
        raise RejectedError(_BAD_CONSISTENCY, "the consistency path does not have the length that the sizes demand")
    if not all(map(_is_hash, path)):
        raise RejectedError(_BAD_CONSISTENCY, "a hash of the consistency path is not 32 bytes")
    start, siblings = (old_root, path) if start_is_old_root else (path[0], path[1:])
    old, new = start, start
    for sibling, is_left in zip(siblings, sides, strict=True):
        if is_left:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
        else:
            new = node_hash(new, sibling)
    if old != old_root:
        raise RejectedError(_BAD_CONSISTENCY, "the consistency path does not lead to the old root")
    if new != new_root:
        raise RejectedError(_BAD_CONSISTENCY, "the consistency path does not lead to the new root")


def _siblings_on_the_left(index: int, last: int) -> Iterator[bool]:
    """For every sibling met from node `index` up to the root, whether it is on the left; `last` ends this level.

    A node that ends its level and would be a left child has no sibling there, and rises as it is.
    """
    while last:
        if index & 1:
            yield True
        elif index < last:
            yield False
        index >>= 1
        last >>= 1


def _split(begin: int, end: int) -> int:
    """Where the tree over these leaves divides: the left side has the largest power of two below their number."""
    return begin + (1 << ((end - begin - 1).bit_length() - 1))


def _range_hash(reader: HashReader, begin: int, end: int) -> bytes:
    """The hash over leaves [begin, end) of a subtree, from the complete subtrees that it is made of."""
    parts: list[bytes] = []
    while begin < end:
        level = (end - begin).bit_length() - 1
        parts.append(_complete(reader, level, begin >> level))
        begin += 1 << level
    whole = parts.pop()
    while parts:
        whole = node_hash(parts.pop(), whole)
    return whole


def _complete(reader: HashReader, level: int, index: int) -> bytes:
    """One hash from the store, which is no more trusted than any other input."""
    node = reader.read(level, index)
    if not _is_hash(node):
        raise MalformedError("the store of the log returned a hash that is not 32 bytes")
    return node


def _is_hash(value: object) -> bool:
    return isinstance(value, bytes) and len(value) == HASH_SIZE


def _is_size(value: object) -> bool:
    # bool is an int to Python, but a size that says True was decoded wrongly.
    return type(value) is int and 0 <= value <= MAX_SIZE
