"""Rates and concurrency: nobody gets more than the limit over any time, and waiting as told is enough."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowingd.sync.limits import CONCURRENCY, CROWDED, RATE, Limiter, Limits, Refusal

LIMITS = Limits(per_second=2.0, burst=5, concurrent=3)


def once(limiter: Limiter, caller: str, now: float, cost: float = 1.0) -> Refusal | None:
    found = limiter.enter(caller, now, cost)
    if found is None:
        limiter.leave(caller)
    return found


def test_a_burst_passes_and_then_the_rate_counts() -> None:
    limiter = Limiter(LIMITS)
    assert [once(limiter, "a", 100.0) for _ in range(5)] == [None] * 5
    assert once(limiter, "a", 100.0) == Refusal(RATE, 1)
    assert once(limiter, "b", 100.0) is None  # others notice nothing
    assert once(limiter, "a", 100.5) is None
    assert once(limiter, "a", 100.5) == Refusal(RATE, 1)


def test_only_so_many_run_at_once() -> None:
    limiter = Limiter(LIMITS)
    assert [limiter.enter("a", 0.0) for _ in range(3)] == [None] * 3
    assert limiter.enter("a", 50.0) == Refusal(CONCURRENCY, 1)
    assert limiter.running("a") == 3
    limiter.leave("a")
    assert limiter.enter("a", 50.0) is None
    with pytest.raises(ValueError, match="running"):
        limiter.leave("stranger")


def test_what_costs_more_than_the_burst_waits_for_a_full_bucket_and_leaves_a_debt() -> None:
    limiter = Limiter(LIMITS)
    assert once(limiter, "a", 0.0, cost=15) is None
    assert once(limiter, "a", 0.0) == Refusal(RATE, 6)
    assert once(limiter, "a", 5.5) is None
    assert once(limiter, "a", 5.5, cost=15) == Refusal(RATE, 3)


def test_the_table_is_bounded_and_keeps_whoever_is_running() -> None:
    limiter = Limiter(LIMITS, callers=10)
    assert limiter.enter("busy", 0.0) is None
    for number in range(1000):
        assert once(limiter, f"stranger {number}", 1.0) is None
    assert len(limiter) == 10
    assert limiter.running("busy") == 1
    crowd = Limiter(LIMITS, callers=2)
    assert [crowd.enter("a", 0.0), crowd.enter("b", 0.0)] == [None, None]
    assert crowd.enter("c", 0.0) == Refusal(CROWDED, 1)
    crowd.leave("a")
    assert crowd.enter("c", 0.0) is None


def test_a_clock_that_is_set_back_fills_nothing_and_breaks_nothing() -> None:
    limiter = Limiter(LIMITS)
    for _ in range(5):
        once(limiter, "a", 100.0)
    assert once(limiter, "a", 10.0) == Refusal(RATE, 1)
    assert once(limiter, "a", 11.0) is None


@pytest.mark.parametrize("limits", [Limits(0, 1, 1), Limits(1, 0, 1), Limits(1, 1, 0)])
def test_limits_that_let_nobody_in_are_refused(limits: Limits) -> None:
    with pytest.raises(ValueError, match="above zero"):
        Limiter(limits)


steps = st.lists(st.floats(0, 3, allow_nan=False), min_size=1, max_size=80)


@given(steps, st.floats(0.1, 20), st.integers(1, 20))
def test_over_any_time_no_more_pass_than_burst_and_rate_allow(delays: list[float], rate: float, burst: int) -> None:
    limiter = Limiter(Limits(rate, burst, 1))
    now, passed = 0.0, []
    for delay in delays:
        now += delay
        if once(limiter, "a", now) is None:
            passed.append(now)
    for first, begin in enumerate(passed):
        for last in range(first, len(passed)):
            assert last - first + 1 <= burst + rate * (passed[last] - begin) + 1e-6


@given(steps, st.floats(0.1, 20), st.integers(1, 20), st.floats(0.5, 40))
def test_whoever_waits_as_long_as_told_passes(delays: list[float], rate: float, burst: int, cost: float) -> None:
    limiter = Limiter(Limits(rate, burst, 1))
    now = 0.0
    for delay in delays:
        now += delay
        refusal = once(limiter, "a", now, cost)
        if refusal is not None:
            assert refusal.reason == RATE
            now += refusal.retry_after
            assert once(limiter, "a", now, cost) is None
