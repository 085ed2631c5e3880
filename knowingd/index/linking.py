"""Linking many units with several processes: a child links its share from the summaries it was born with.

The child has all summaries without copying them, and sends back what units contribute; where forking is not possible,
everything is linked here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final, Generic, NamedTuple, TypeVar

from knowingd.extract.interface import Linked, Linker
from knowingd.forked import can_fork, shared
from knowingd.index import Report

MANY_UNITS: Final = 200  # below, a child costs more than it saves

T = TypeVar("T")


class Part(NamedTuple, Generic[T]):
    """What units contribute, in the form that was asked for, and the keys that each of them looked at."""

    made: list[T]
    visited: dict[str, Collection[str]]


def link_all(linker: Linker, units: Sequence[str], form: Callable[[Linked], T], jobs: int, report: Report) -> Part[T]:
    """Link all units; `form` makes of each what is wanted, where it was linked."""

    def done(count: int) -> None:
        report("linking", min(count, len(units)), len(units))

    if jobs <= 1 or len(units) < MANY_UNITS or not can_fork():
        return _link(linker, units, form, done)
    shares = [units[start::jobs] for start in range(jobs)]
    here = partial(_link, linker, shares[0], form, lambda count: done(count * jobs))
    parts = shared([here, *(partial(_link, linker, share, form, lambda _: None) for share in shares[1:])])
    whole: Part[T] = Part([], {})
    for part in parts:
        whole.made.extend(part.made)
        whole.visited.update(part.visited)
    return whole


def _link(linker: Linker, units: Sequence[str], form: Callable[[Linked], T], done: Callable[[int], None]) -> Part[T]:
    part: Part[T] = Part([], {})
    for number, unit in enumerate(units):
        linked = linker.link(unit)
        part.made.append(form(linked))
        part.visited[unit] = linked.visited
        done(number + 1)
    return part
