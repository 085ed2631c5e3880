"""Linking many units with several processes: a child links its share from the summaries it was born with.

Children have all summaries without copying them, and send back what units contribute; where forking is not possible,
everything is linked here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Final, Generic, NamedTuple, TypeVar

from knowingd.extract.interface import Linked, Linker
from knowingd.forked import can_fork, streamed
from knowingd.index import Report

MANY_UNITS: Final = 40  # below, children cost more than they save
BATCH: Final = 50

T = TypeVar("T")


class Part(NamedTuple, Generic[T]):
    """What units contribute, in the form that was asked for, and the keys that each of them looked at."""

    made: list[T]
    visited: dict[str, Collection[str]]


def link_all(linker: Linker, units: Sequence[str], form: Callable[[Linked], T], jobs: int, report: Report) -> Part[T]:
    """Link all units; `form` makes of each what is wanted, where it was linked."""
    if jobs <= 1 or len(units) < MANY_UNITS or not can_fork():
        batches = _link(linker, units, form)
    else:
        # Children even for the first share: what linking leaves behind is large, and goes with them.
        batches = streamed([partial(_link, linker, units[start::jobs], form) for start in range(jobs)])
    found: dict[str, tuple[T, Collection[str]]] = {}
    for batch in batches:
        found.update(batch)
        report("linking", len(found), len(units))
    return Part([found[unit][0] for unit in units], {unit: found[unit][1] for unit in units})


def _link(
    linker: Linker, units: Sequence[str], form: Callable[[Linked], T]
) -> Iterator[dict[str, tuple[T, Collection[str]]]]:
    """Batches of units: what is made of each, and what it looked at."""
    for start in range(0, len(units), BATCH):
        batch: dict[str, tuple[T, Collection[str]]] = {}
        for unit in units[start : start + BATCH]:
            linked = linker.link(unit)
            batch[unit] = form(linked), linked.visited
        yield batch
