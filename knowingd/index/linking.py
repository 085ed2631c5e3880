"""Linking many units with several processes: a child links its share from the summaries it was born with.

Fork is what makes this cheap: the child has all summaries without copying them, and sends back records. It opens
nothing, writes nothing but its pipe, and ends there; where forking is not possible, everything is linked here.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Collection, Sequence
from typing import IO, Any, Final, NamedTuple

from knowing_protocol.graph import file_attributes
from knowing_protocol.records import Records

from knowingd.errors import StoreError
from knowingd.extract.interface import Linker
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

    if jobs <= 1 or len(units) < MANY_UNITS or not hasattr(os, "fork"):
        return _link(linker, units, done)
    shares = [units[start::jobs] for start in range(jobs)]
    children = [_Child(linker, share) for share in shares[1:]]
    try:
        parts = [_link(linker, shares[0], lambda count: done(count * jobs))]
        parts += [child.result() for child in children]
    finally:
        for child in children:
            child.end()
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


class _Child:
    """A process that links a share."""

    def __init__(self, linker: Linker, units: Sequence[str]) -> None:
        reading, writing = os.pipe()
        self._process: int | None = os.fork()
        if self._process == 0:  # pragma: no cover - the child is measured by what it sends
            status = 1
            try:
                os.close(reading)
                with os.fdopen(writing, "wb") as out:
                    pickle.dump(_link(linker, units, lambda _: None), out, protocol=5)
                status = 0
            except BaseException as error:  # noqa: BLE001 - nothing may run on in the child
                sys.stderr.write(f"{error!r}\n")
            finally:
                os._exit(status)
        os.close(writing)
        self._pipe: IO[bytes] = os.fdopen(reading, "rb")

    def result(self) -> Part:
        """What the child linked."""
        try:
            found: Any = pickle.load(self._pipe)  # noqa: S301 - our own child wrote it
        except (EOFError, pickle.UnpicklingError) as error:
            raise StoreError("a linking process died", hint="try again with --jobs 1") from error
        return Part(*found)

    def end(self) -> None:
        """Close the pipe and let the child end; one that still writes gets a broken pipe."""
        self._pipe.close()
        if self._process is not None:
            os.waitpid(self._process, 0)
            self._process = None
