"""The backoff machine."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsq_anyio.policy.backoff import Backoff, BackoffState, Result, exponential, full_jitter

RUNNING, WAITING, PROBING = BackoffState.RUNNING, BackoffState.WAITING, BackoffState.PROBING
SUCCESS, FAILURE, NEUTRAL = Result.SUCCESS, Result.FAILURE, Result.NEUTRAL


def machine(multiplier: float = 1.0, maximum: float = 120.0) -> Backoff:
    return Backoff(exponential(multiplier), maximum)


def wait_over(backoff: Backoff) -> float:
    """Let a wait pass; how long it was, from the time 0."""
    until = backoff.until
    assert not backoff.passed(math.nextafter(until, -math.inf))
    assert backoff.state is WAITING
    assert backoff.passed(until)
    return until


def fail(backoff: Backoff) -> float:
    assert backoff.result(FAILURE, 0.0)
    return wait_over(backoff)


def test_it_starts_with_everything_allowed() -> None:
    backoff = machine()
    assert (backoff.state, backoff.level, backoff.bound(100), backoff.bound(0)) == (RUNNING, 0, 100, 0)
    assert not backoff.passed(math.inf)


@pytest.mark.parametrize("result", [SUCCESS, NEUTRAL])
def test_while_running_only_failures_count(result: Result) -> None:
    backoff = machine()
    assert not backoff.result(result, 0.0)
    assert (backoff.state, backoff.level) == (RUNNING, 0)


def test_a_failure_stops_everything_and_then_allows_one() -> None:
    backoff = machine()
    assert backoff.result(FAILURE, 10.0)
    assert (backoff.state, backoff.level, backoff.until, backoff.bound(100)) == (WAITING, 1, 12.0, 0)
    assert backoff.passed(12.0)
    assert (backoff.state, backoff.bound(100), backoff.bound(0)) == (PROBING, 1, 0)
    assert not backoff.passed(13.0)


@pytest.mark.parametrize("result", Result)
def test_one_result_counts_per_wait(result: Result) -> None:
    backoff = machine()
    backoff.result(FAILURE, 0.0)
    assert not backoff.result(result, 1.0)
    assert (backoff.state, backoff.level, backoff.until) == (WAITING, 1, 2.0)


def test_waits_double_up_to_the_maximum_and_levels_stop_there() -> None:
    backoff = machine()
    assert [fail(backoff) for _ in range(9)] == [2, 4, 8, 16, 32, 64, 120, 120, 120]
    assert backoff.level == 7


def test_the_multiplier_scales_the_waits() -> None:
    backoff = machine(multiplier=0.5, maximum=3.0)
    assert [fail(backoff) for _ in range(4)] == [1, 2, 3, 3]


def test_a_wait_of_exactly_the_maximum_is_the_last_level() -> None:
    backoff = machine(maximum=8.0)
    assert [fail(backoff) for _ in range(4)] == [2, 4, 8, 8]
    assert backoff.level == 3


def test_successes_walk_down_and_the_last_one_ends_it() -> None:
    backoff = machine(maximum=8.0)
    for _ in range(5):
        fail(backoff)
    waits: list[float] = []
    while backoff.result(SUCCESS, 0.0) and backoff.state is WAITING:
        waits.append(wait_over(backoff))
    assert waits == [4, 2]
    assert (backoff.state, backoff.level, backoff.bound(50)) == (RUNNING, 0, 50)
    assert fail(backoff) == 2  # it starts anew


def test_after_the_maximum_a_failure_on_the_way_down_rises_again() -> None:
    backoff = machine(maximum=8.0)
    for _ in range(4):
        fail(backoff)
    backoff.result(SUCCESS, 0.0)
    assert wait_over(backoff) == 4
    assert fail(backoff) == 8


def test_a_neutral_result_waits_again_and_never_stalls() -> None:
    backoff = machine()
    fail(backoff)
    for _ in range(3):
        assert backoff.result(NEUTRAL, 0.0)
        assert (backoff.state, backoff.level) == (WAITING, 1)
        assert wait_over(backoff) == 2.0


def test_a_maximum_of_zero_switches_it_off() -> None:
    backoff = machine(maximum=0)
    assert not backoff.result(FAILURE, 0.0)
    assert (backoff.state, backoff.level) == (RUNNING, 0)


def test_the_users_strategy_is_asked_for_each_level() -> None:
    asked: list[int] = []

    def strategy(level: int) -> float:
        asked.append(level)
        return 10.0 * level

    backoff = Backoff(strategy, 25.0)
    assert [fail(backoff) for _ in range(4)] == [10, 20, 25, 25]
    assert asked == [1, 2, 3, 3]


def test_a_strategy_without_bound_is_bounded() -> None:
    assert fail(Backoff(lambda _level: math.inf, 7.0)) == 7.0


def test_a_high_level_overflows_nothing() -> None:
    assert exponential(1.0)(10_000) == 2.0**64


def test_full_jitter_stays_below_the_exponential() -> None:
    strategy = full_jitter(0.5, random.Random(1))
    for level in range(1, 10):
        waits = [strategy(level) for _ in range(200)]
        bound = exponential(0.5)(level)
        assert 0 <= min(waits) < bound / 4
        assert bound * 3 / 4 < max(waits) <= bound


@given(
    st.lists(st.tuples(st.sampled_from(Result), st.floats(0, 300)), max_size=60),
    st.floats(0.01, 200),
    st.floats(0.001, 50),
)
def test_there_is_always_a_way_out(
    steps: list[tuple[Result, float]], maximum: float, multiplier: float
) -> None:
    backoff = machine(multiplier, maximum)
    now = 0.0
    for result, seconds in steps:
        before = backoff.state
        changed = backoff.result(result, now)
        assert changed == (backoff.state is not before)
        assert (backoff.level == 0) == (backoff.state is RUNNING)
        if before is PROBING:
            assert changed
        if changed and backoff.state is WAITING:
            assert now <= backoff.until <= now + maximum
        now += seconds
        backoff.passed(now)
        assert backoff.state is not WAITING or backoff.until > now
        assert 0 <= backoff.bound(9) <= 9
    # However deep it got, as many successes as levels end it.
    for _ in range(backoff.level + 1):
        now = max(now, backoff.until)
        backoff.passed(now)
        backoff.result(SUCCESS, now)
    assert backoff.state is RUNNING
