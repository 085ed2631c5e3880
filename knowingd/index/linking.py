"""Linking many units with several processes: a child links its share from the summaries it was born with.

The child has all summaries without copying them, and sends back records; where forking is not possible, everything is
linked here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final, NamedTuple

from knowing_protocol.graph import file_attributes
from knowing_protocol.records import Records

from knowingd.extract.interface import Linker
from knowingd.forked import can_fork, shared
from knowingd.index import Report

MANY_UNITS: Final = 200  # below, a child costs more than it saves


class Part(NamedTuple):
    """What some units contribute: records, the keys that each of them looked at, and the roots of their files."""

    records: list[Records]
    visited: dict[str, Collection[str]]
    attributes: dict[str, bytes]


def link_all(linker: Linker, units: Sequence[str], jobs: int, report: Report) -> Part:
    """Link all units."""

    def done(count: int) -> None:
        report("linking", min(count, len(units)), len(units))

    if jobs <= 1 or len(units) < MANY_UNITS or not can_fork():
        return _link(linker, units, done)
    shares = [units[start::jobs] for start in range(jobs)]
    here = partial(_link, linker, shares[0], lambda count: done(count * jobs))
    parts = shared([here, *(partial(_link, linker, share, lambda _: None) for share in shares[1:])])
    whole = Part([], {}, {})
    for part in parts:
        whole.records.extend(part.records)
        whole.visited.update(part.visited)
        whole.attributes.update(part.attributes)
    return whole


def _link(linker: Linker, units: Sequence[str], done: Callable[[int], None]) -> Part:
    part = Part([], {}, {})
    for number, unit in enumerate(units):
        linked = linker.link(unit)
        part.records.append(linked.records)
        part.visited[unit] = linked.visited
        for file in linked.records.files:
            part.attributes[file.path] = file_attributes(file).root
        done(number + 1)
    return part
