"""Work that children do which this process forks.

Fork is what makes this cheap: a child has everything it was born with without copying it, and sends back what it made
of it. Work given to a child must be pure: it opens nothing, asks no database (a connection of SQLite does not survive
a fork), takes no lock, writes nothing but its pipe, and ends there. Whoever cannot fork does all of it here.
"""

from __future__ import annotations

import os
import pickle
import struct
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from io import FileIO
from selectors import EVENT_READ, DefaultSelector
from typing import Final, Generic, TypeVar

from knowingd.errors import StoreError

_LENGTH: Final = struct.Struct(">Q")
T = TypeVar("T")
U = TypeVar("U")


def can_fork() -> bool:
    """Whether this system has forks."""
    return hasattr(os, "fork")


def streamed(works: Sequence[Callable[[], Iterable[T]]]) -> Iterator[T]:
    """What works give one after the other, each done by a child, in the order in which it comes."""
    children: list[Child[T]] = []
    try:
        children += map(Child, works)
        with DefaultSelector() as selector:
            for child in children:
                selector.register(child.pipe, EVENT_READ, child)
            while selector.get_map():
                for key, _ in selector.select():
                    found = key.data.next()
                    if found is None:
                        selector.unregister(key.fileobj)
                    else:
                        yield found[0]
    finally:
        end(children)


def beside(pure: Sequence[Callable[[], T]], here: Callable[[], object], processes: int) -> list[T]:
    """The results of pure works, done by as many processes as there may be; this one first does what only it can."""
    if not can_fork():
        processes = 1
    children: list[Child[T]] = []
    try:
        children += (Child(partial(_once, work)) for work in pure[: processes - 1])
        here()
        mine = [work() for work in pure[len(children) :]]
        return [*(child.result() for child in children), *mine]
    finally:
        end(children)


def _once(work: Callable[[], T]) -> Iterator[T]:
    yield work()


class Child(Generic[T]):
    """A process that does one piece of pure work, and sends what that gives, one after the other."""

    def __init__(self, work: Callable[[], Iterable[T]]) -> None:
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads: pure work takes no locks
            self._process: int | None = os.fork()
        if self._process == 0:  # pragma: no cover - the child is measured by what it sends
            status = 1
            try:
                os.close(reading)
                with os.fdopen(writing, "wb") as out:
                    for one in work():
                        data = pickle.dumps(one, protocol=5)
                        out.write(_LENGTH.pack(len(data)) + data)
                        out.flush()
                    out.write(_LENGTH.pack(0))
                status = 0
            except (BrokenPipeError, KeyboardInterrupt):
                pass  # nobody wants to hear more
            except BaseException as error:  # noqa: BLE001 - nothing may run on in the child
                sys.stderr.write(f"{error!r}\n")
            finally:
                os._exit(status)
        os.close(writing)
        self.pipe: FileIO = FileIO(reading)  # what waits in a buffer would not wake anybody

    def next(self) -> tuple[T] | None:
        """The next thing that the child gives, or None after the last."""
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
        return (pickle.loads(self._read(length)),) if length else None  # noqa: S301 - our own child wrote it

    def _read(self, size: int) -> bytearray:
        data = bytearray(size)
        rest = memoryview(data)
        while rest:
            count = self.pipe.readinto(rest)
            if not count:
                raise StoreError("a process that shared the work died", hint="try again with --jobs 1")
            rest = rest[count:]
        return data

    def result(self) -> T:
        """The one thing that the child gives."""
        found = self.next()
        assert found is not None
        return found[0]

    def close(self) -> None:
        """Hear nothing more of the child; if it still writes, it gets a broken pipe."""
        self.pipe.close()

    def wait(self) -> None:
        """Let the child end."""
        if self._process is not None:
            os.waitpid(self._process, 0)
            self._process = None


def end(children: Sequence[Child[T]]) -> None:
    """End children. Later ones hold the pipes of earlier ones open, so that all are closed before one is waited for."""
    for child in children:
        child.close()
    for child in children:
        child.wait()
