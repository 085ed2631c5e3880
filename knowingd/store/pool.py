"""Databases that are open: a limited number, the one used longest ago closed first, and none while it is in use."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    """What a pool holds."""

    def close(self) -> None:
        """Give back what it takes to be open."""


T = TypeVar("T", bound=Closable)


class _Slot(Generic[T]):
    def __init__(self, value: T) -> None:
        self.value = value
        self.users = 0
        self.gone = False


class Pool(Generic[T]):
    """Open things by their keys. More than the limit are open only while more than the limit are in use."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._slots: OrderedDict[Hashable, _Slot[T]] = OrderedDict()
        self._taken: dict[int, _Slot[T]] = {}
        self._leaving = 0  # discarded and still in use
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._slots)

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """What is open under a key; it may be closed when the next one is opened."""
        with self._lock:
            return self._slot(key, make).value

    def take(self, key: Hashable, make: Callable[[], T]) -> T:
        """What is open under a key, and stays so until it is given back as often as it was taken."""
        with self._lock:
            slot = self._slot(key, make)
            slot.users += 1
            self._taken[id(slot.value)] = slot
            return slot.value

    def give_back(self, value: T) -> None:
        """End one use of what was taken."""
        with self._lock:
            slot = self._taken[id(value)]
            slot.users -= 1
            if not slot.users:
                del self._taken[id(value)]
                if slot.gone:
                    self._leaving -= 1
                    slot.value.close()
                self._shrink(self._limit)

    @contextmanager
    def lend(self, key: Hashable, make: Callable[[], T]) -> Iterator[T]:
        """What is open under a key, and stays so for as long as it is lent."""
        value = self.take(key, make)
        try:
            yield value
        finally:
            self.give_back(value)

    def _slot(self, key: Hashable, make: Callable[[], T]) -> _Slot[T]:
        slot = self._slots.get(key)
        if slot is None:
            self._shrink(self._limit - 1)
            slot = self._slots[key] = _Slot(make())
        self._slots.move_to_end(key)
        return slot

    def _shrink(self, limit: int) -> None:
        """Close what is not in use, the one used longest ago first, until so many are open."""
        if len(self._slots) + self._leaving <= limit:
            return
        for key, slot in list(self._slots.items()):
            if not slot.users:
                del self._slots[key]
                slot.value.close()
                if len(self._slots) + self._leaving <= limit:
                    return

    def discard(self, key: Hashable) -> None:
        """Close what is open under a key, as soon as nobody uses it."""
        with self._lock:
            slot = self._slots.pop(key, None)
            if slot is not None:
                slot.gone = True
                if slot.users:
                    self._leaving += 1
                else:
                    slot.value.close()

    def close(self) -> None:
        """Close everything that nobody uses, and the rest when it is given back."""
        for key in list(self._slots):
            self.discard(key)
