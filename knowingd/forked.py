"""Work shared between this process and children that it forks.

Fork is what makes this cheap: a child has everything it was born with without copying it, and sends back what it made
of it. Work given to a child must be pure: it opens nothing, asks no database (a connection of SQLite does not survive
a fork), takes no lock, writes nothing but its pipe, and ends there. Whoever cannot fork does all of it here.
"""

from __future__ import annotations

import os
import pickle
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import IO, Generic, TypeVar

from knowingd.errors import StoreError

T = TypeVar("T")
U = TypeVar("U")


def can_fork() -> bool:
    """Whether this system has forks."""
    return hasattr(os, "fork")


def shared(works: Sequence[Callable[[], T]]) -> list[T]:
    """The results of works in their order: the first is done here, each of the others by a child at the same time."""
    children: list[Child[T]] = []
    try:
        children += map(Child, works[1:])
        return [works[0](), *(child.result() for child in children)]
    finally:
        for child in children:
            child.end()


def beside(pure: Sequence[Callable[[], T]], here: Callable[[], U], *, forked: bool) -> tuple[list[T], U]:
    """The results of all works: each pure one is done by a child at the same time, or before the other."""
    if not forked:
        return [work() for work in pure], here()
    children: list[Child[T]] = []
    try:
        children += map(Child, pure)
        other = here()
        return [child.result() for child in children], other
    finally:
        for child in children:
            child.end()


class Child(Generic[T]):
    """A process that does one piece of pure work."""

    def __init__(self, work: Callable[[], T]) -> None:
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads: pure work takes no locks
            self._process: int | None = os.fork()
        if self._process == 0:  # pragma: no cover - the child is measured by what it sends
            status = 1
            try:
                os.close(reading)
                with os.fdopen(writing, "wb") as out:
                    pickle.dump(work(), out, protocol=5)
                status = 0
            except BaseException as error:  # noqa: BLE001 - nothing may run on in the child
                sys.stderr.write(f"{error!r}\n")
            finally:
                os._exit(status)
        os.close(writing)
        self._pipe: IO[bytes] = os.fdopen(reading, "rb")

    def result(self) -> T:
        """What the child made."""
        try:
            found: T = pickle.load(self._pipe)  # noqa: S301 - our own child wrote it
        except (EOFError, pickle.UnpicklingError) as error:
            raise StoreError("a process that shared the work died", hint="try again with --jobs 1") from error
        return found

    def end(self) -> None:
        """Close the pipe and let the child end; one that still writes gets a broken pipe."""
        self._pipe.close()
        if self._process is not None:
            os.waitpid(self._process, 0)
            self._process = None
