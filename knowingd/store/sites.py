"""Call sites, packed: for each file and source one blob of small numbers, a handful of bytes a site.

A site is (target, edge type, provenance, declaration, line, column, arity + 1); numbers are LEB128, targets are given
as differences in sorted order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class PackedSite(NamedTuple):
    """A call site with ids of its database."""

    target: int
    type: int
    provenance: int
    declaration: int
    line: int
    column: int
    arity: int


def pack(sites: Iterable[PackedSite]) -> bytes:
    """Sites in their one packed form."""
    out = bytearray()
    previous = 0
    for site in sorted(sites):
        for number in (site.target - previous, *site[1:6], site.arity + 1):
            while number > 0x7F:
                out.append(number & 0x7F | 0x80)
                number >>= 7
            out.append(number)
        previous = site.target
    return bytes(out)


def unpack(data: bytes) -> list[PackedSite]:
    """The sites of a blob."""
    numbers: list[int] = []
    number = shift = 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(number)
            number = shift = 0
    found: list[PackedSite] = []
    target = 0
    for start in range(0, len(numbers) - 6, 7):
        target += numbers[start]
        found.append(PackedSite._make((target, *numbers[start + 1 : start + 6], numbers[start + 6] - 1)))
    return found
