"""All relations of a graph at once, as the records of its branches and inbound sets.

A relation is one number, as an edge is in the store; where it was observed in several ways, `SEVERAL` stands for its
provenance. Nothing here asks a store.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from knowing_protocol.hashing import relation_entry

from knowingd.store.codes import EDGE_TYPES, PROVENANCES
from knowingd.store.rows import PROVENANCE_BITS, SEVERAL, TYPE_BITS

SOURCE_SHIFT: Final = 31
_ALONE: Final = tuple((text,) for text in PROVENANCES)


class Relations(NamedTuple):
    """Relations by source, type and target, and the provenances of those that have several, by their numbers."""

    numbers: array[int]
    several: dict[int, list[int]]


class Groups(NamedTuple):
    """Records of relations as the maps hold them; an inbound set also has its sources, each with a provenance."""

    branches: dict[int, list[bytes]]  # by package << TYPE_BITS | edge type
    inbound: dict[int, list[bytes]]  # by target << TYPE_BITS | edge type
    sources: dict[int, list[int]]


def gathered(edges: Iterable[int]) -> Relations:
    """The relations of one graph, from the numbers of its edges, in order."""
    numbers = array("Q")
    several: dict[int, list[int]] = {}
    last = -1
    for edge in edges:
        number = edge | SEVERAL
        if number == last:
            several.setdefault(number, [numbers[-1] & SEVERAL]).append(edge & SEVERAL)
            numbers[-1] = number
        else:
            numbers.append(edge)
            last = number
    return Relations(numbers, several)


def records_of(relations: Relations, hashes: Mapping[int, bytes]) -> Iterator[bytes]:
    """Each relation followed by its value, in order."""
    source = b""
    last = -1
    for number in relations.numbers:  # taken apart as by `edge_of`, without its calls
        if number >> 34 != last:
            last = number >> 34
            source = hashes[last]
        how = number & SEVERAL
        provenances = _ALONE[how] if how != SEVERAL else [PROVENANCES[code] for code in relations.several[number]]
        relation, digest = relation_entry(
            source, hashes[number >> 4 & 0xFFFFFF], EDGE_TYPES[number >> 28 & 63], provenances
        )
        yield relation + digest


def branch_members(relations: Relations, packages: Mapping[int, int], codes: Iterable[int]) -> dict[int, list[int]]:
    """Source and target of the relations of some branches, each as one number, in the order of their records."""
    found: dict[int, list[int]] = {code: [] for code in codes}
    for number in relations.numbers if found else ():
        members = found.get(packages[number >> 34] << TYPE_BITS | number >> 28 & 63)
        if members is not None:
            members.append(number >> 34 << SOURCE_SHIFT | number >> 4 & 0xFFFFFF)
    return found


def grouped(relations: Relations, records: Iterable[bytes], packages: Mapping[int, int]) -> Groups:
    """Records by branch and by inbound set, from the packages of the sources."""
    branches: dict[int, list[bytes]] = defaultdict(list)
    inbound: dict[int, list[bytes]] = defaultdict(list)
    sources: dict[int, list[int]] = defaultdict(list)
    branch: list[bytes] = []
    last, source, edge_type = -1, 0, 0
    for number, record in zip(relations.numbers, records, strict=True):
        if number >> 28 != last:  # another source, or another type
            last = number >> 28
            source, edge_type = last >> TYPE_BITS, last & 63
            branch = branches[packages[source] << TYPE_BITS | edge_type]
        branch.append(record)
        code = (number >> 4 & 0xFFFFFF) << TYPE_BITS | edge_type
        inbound[code].append(record)
        if number & SEVERAL == SEVERAL:
            sources[code] += [source << PROVENANCE_BITS | how for how in relations.several[number]]
        else:
            sources[code].append(source << PROVENANCE_BITS | number & SEVERAL)
    return Groups(branches, inbound, sources)


def large_members(sources: Iterable[int]) -> list[int]:
    """The relations of a large set as its tree keeps them: each source once, with its provenance if it has only one."""
    found: dict[int, int] = {}
    for one in sources:
        source = one >> PROVENANCE_BITS
        found[source] = one if source not in found else source << PROVENANCE_BITS | SEVERAL
    return list(found.values())
