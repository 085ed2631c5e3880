"""Lists of small numbers as blobs: MessagePack packs and unpacks them in C, differences keep them short.

Call sites stand one blob for each source and file. A site is five numbers: the target as the difference to the one
before it, type * 16 + provenance, declaration * 65536 + arity + 1, line, column.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate, chain
from operator import sub
from typing import NamedTuple, TypeAlias

import msgpack

_ARITIES = 1 << 16  # of -1 (not known) and up to the specification's limit


class PackedSite(NamedTuple):
    """A call site with ids of its database."""

    target: int
    type: int
    provenance: int
    declaration: int
    line: int
    column: int
    arity: int


def pack_ids(ids: Collection[int]) -> bytes:
    """Numbers as a sorted list of differences."""
    ordered = sorted(ids)
    packed: bytes = msgpack.packb(list(map(sub, ordered, chain((0,), ordered))))
    return packed


def unpack_ids(data: bytes) -> list[int]:
    """The numbers of a blob, sorted."""
    return list(accumulate(msgpack.unpackb(data)))


def pack_buckets(buckets: Sequence[Collection[int]]) -> bytes:
    """Up to sixteen lists of numbers: all numbers in order, and for each of them its list as one hexadecimal digit."""
    placed = sorted([number << 4 | place for place, numbers in enumerate(buckets) for number in numbers])
    digits = "".join(["0123456789abcdef"[one & 15] for one in placed])
    ordered = [one >> 4 for one in placed]
    differences = list(map(sub, ordered, chain((0,), ordered)))
    packed: bytes = msgpack.packb([differences, bytes.fromhex(digits + "0" * (len(digits) & 1))])
    return packed


def unpack_buckets(data: bytes, count: int) -> list[list[int]]:
    """The lists of a blob, each sorted."""
    differences, places = msgpack.unpackb(data)
    found: list[list[int]] = [[] for _ in range(count)]
    for number, digit in zip(accumulate(differences), places.hex(), strict=False):  # the last digit may be padding
        found[int(digit, 16)].append(number)
    return found


PlainSite: TypeAlias = tuple[int, int, int, int, int, int, int]  # a `PackedSite` without its names


def pack_sites(sites: Iterable[PlainSite]) -> bytes:
    """Sites in their one packed form."""
    flat: list[int] = []
    previous = 0
    for target, edge_type, provenance, declaration, line, column, arity in sorted(sites):
        flat += (target - previous, edge_type * 16 + provenance, declaration * _ARITIES + arity + 1, line, column)
        previous = target
    packed: bytes = msgpack.packb(flat)
    return packed


def unpack_sites(data: bytes) -> list[PackedSite]:
    """The sites of a blob."""
    found = []
    target = 0
    numbers = iter(msgpack.unpackb(data))
    for difference, code, place, line, column in zip(*[numbers] * 5, strict=True):
        target += difference
        declaration, arity = divmod(place, _ARITIES)
        found.append(PackedSite(target, code >> 4, code & 15, declaration, line, column, arity - 1))
    return found
