"""How often and how many at once: a token bucket and a count of running requests for each caller.

Promises: a pure account of what it is told, with the clock passed in; memory bounded by the number of callers kept;
what one caller does changes nothing for another. When the table is full, the caller that asked longest ago and has
nothing running is forgotten and starts anew, at worst with a full bucket too early; running requests are never
forgotten, and if everybody has some, a newcomer waits.
Must never: sleep, read a clock, or decide who a caller is.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Final, NamedTuple

RATE: Final = "rate"
CONCURRENCY: Final = "concurrency"
CROWDED: Final = "crowded"


class Limits(NamedTuple):
    """`per_second` on average, `burst` at once after a rest, and at most `concurrent` that run."""

    per_second: float
    burst: float
    concurrent: int


class Refusal(NamedTuple):
    """Why a request must wait (`rate`, `concurrency`, `crowded`), and for how many whole seconds at least."""

    reason: str
    retry_after: int


class _Caller:
    __slots__ = ("level", "running", "time")

    def __init__(self, level: float, time: float) -> None:
        self.level = level
        self.time = time
        self.running = 0


class Limiter:
    """The callers of one kind, all under the same limits. For one thread, as an event loop has."""

    def __init__(self, limits: Limits, callers: int = 4096) -> None:
        if limits.per_second <= 0 or limits.burst < 1 or limits.concurrent < 1 or callers < 1:
            raise ValueError("limits are above zero")
        self.limits = limits
        self._callers: OrderedDict[str, _Caller] = OrderedDict()  # the one that asked longest ago first
        self._capacity = callers

    def enter(self, caller: str, now: float, cost: float = 1.0) -> Refusal | None:
        """Let a request begin, or say when to come again; whoever was let in must `leave`.

        A cost above the burst waits for a full bucket and then leaves a debt, so that it is slow but possible.
        """
        account = self._account(caller, now)
        if account is None:
            return Refusal(CROWDED, 1)
        if account.running >= self.limits.concurrent:
            return Refusal(CONCURRENCY, 1)
        missing = min(cost, self.limits.burst) - account.level
        # Sums of fractions: whoever waited as long as we said must not be sent away for a rounding error.
        if missing > 1e-9 * self.limits.burst:
            return Refusal(RATE, max(1, math.ceil(missing / self.limits.per_second)))
        account.level -= cost
        account.running += 1
        return None

    def leave(self, caller: str) -> None:
        """A request that was let in has ended, well or not."""
        account = self._callers.get(caller)
        if account is None or account.running < 1:
            raise ValueError("nothing of this caller is running")
        account.running -= 1

    def running(self, caller: str) -> int:
        """How many requests of a caller run now."""
        account = self._callers.get(caller)
        return 0 if account is None else account.running

    def __len__(self) -> int:
        return len(self._callers)

    def _account(self, caller: str, now: float) -> _Caller | None:
        account = self._callers.get(caller)
        if account is None:
            if len(self._callers) >= self._capacity and not self._make_room():
                return None
            account = self._callers[caller] = _Caller(self.limits.burst, now)
        self._callers.move_to_end(caller)
        self._fill(account, now)
        return account

    def _fill(self, account: _Caller, now: float) -> None:
        # A clock that was set back fills nothing, and goes on from there.
        account.level = min(self.limits.burst, account.level + max(0.0, now - account.time) * self.limits.per_second)
        account.time = now

    def _make_room(self) -> bool:
        """Drop the caller that asked longest ago and has nothing running: none has rested for longer."""
        idle = next((name for name, account in self._callers.items() if not account.running), None)
        if idle is None:
            return False
        del self._callers[idle]
        return True
