"""The backoff machine."""

from __future__ import annotations

import math
import random
from typing import cast

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from nsq_anyio.errors import InvalidOption
from nsq_anyio.policy.backoff import Backoff, BackoffState, Result, Strategy, exponential, full_jitter

RUNNING, WAITING, PROBING = BackoffState.RUNNING, BackoffState.WAITING, BackoffState.PROBING
SUCCESS, FAILURE, NEUTRAL = Result.SUCCESS, Result.FAILURE, Result.NEUTRAL


def machine(multiplier: float = 1.0, maximum: float = 120.0) -> Backoff:
    return Backoff(exponential(multiplier), maximum)


def wait_over(backoff: Backoff) -> float:
    """Let a wait pass; how long it was, from the time 0."""
    until = backoff.until
    assert not backoff.end_wait(math.nextafter(until, -math.inf))
    assert backoff.state is WAITING
    assert backoff.end_wait(until)
    return until


def fail(backoff: Backoff) -> float:
    assert backoff.result(FAILURE, 0.0)
    return wait_over(backoff)


def test_it_starts_with_everything_allowed() -> None:
    backoff = machine()
    assert (backoff.state, backoff.level, backoff.bound(100), backoff.bound(0)) == (RUNNING, 0, 100, 0)
    assert not backoff.end_wait(math.inf)


@pytest.mark.parametrize("result", [SUCCESS, NEUTRAL])
def test_while_running_only_failures_count(result: Result) -> None:
    backoff = machine()
    assert not backoff.result(result, 0.0)
    assert (backoff.state, backoff.level) == (RUNNING, 0)


def test_a_failure_stops_everything_and_then_allows_one() -> None:
    backoff = machine()
    assert backoff.result(FAILURE, 10.0)
    assert (backoff.state, backoff.level, backoff.until, backoff.bound(100)) == (WAITING, 1, 12.0, 0)
    assert backoff.end_wait(12.0)
    assert (backoff.state, backoff.bound(100), backoff.bound(0)) == (PROBING, 1, 0)
    assert not backoff.end_wait(13.0)


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


@pytest.mark.parametrize("wanted", [math.nan, -0.001, -math.inf, None, "2"])
def test_a_strategy_that_tells_no_time_is_refused(wanted: object) -> None:
    backoff = Backoff(constant(cast("float", wanted)), 7.0)
    with pytest.raises(
        InvalidOption, match=f"^backoff_strategy returned {wanted!r} at level 1: return seconds"
    ):
        backoff.result(FAILURE, 0.0)


def test_a_strategy_that_fails_is_refused_with_its_reason() -> None:
    backoff = Backoff(lambda level: 1 / (level - 1), 7.0)
    with pytest.raises(
        InvalidOption, match=r"^backoff_strategy raised ZeroDivisionError.* at level 1: "
    ) as info:
        backoff.result(FAILURE, 0.0)
    assert isinstance(info.value.__cause__, ZeroDivisionError)


def test_a_strategy_may_wait_for_nothing() -> None:
    assert fail(Backoff(constant(0), 7.0)) == 0


def test_a_high_level_overflows_nothing() -> None:
    assert exponential(1.0)(10_000) == 2.0**64


def test_full_jitter_stays_below_the_exponential() -> None:
    strategy = full_jitter(0.5, random.Random(1))
    for level in range(1, 10):
        waits = [strategy(level) for _ in range(200)]
        bound = exponential(0.5)(level)
        assert 0 <= min(waits) < bound / 4
        assert bound * 3 / 4 < max(waits) <= bound


def test_full_jitter_draws_from_the_given_source() -> None:
    first, second = jittered(1.0, 7), jittered(1.0, 7)
    assert [first(level) for level in range(1, 9)] == [second(level) for level in range(1, 9)]


def test_falling_waits_still_walk_down_to_running() -> None:
    backoff = Backoff(falling(12.0), 100.0)
    assert [fail(backoff) for _ in range(3)] == [12, 6, 4]
    waits: list[float] = []
    while backoff.result(SUCCESS, 0.0) and backoff.state is WAITING:
        waits.append(wait_over(backoff))
    assert waits == [6, 12]
    assert backoff.state is RUNNING


def test_it_starts_anew_after_a_first_level_at_the_maximum() -> None:
    backoff = Backoff(constant(9.0), 7.0)
    for _ in range(2):
        assert [fail(backoff), fail(backoff)] == [7, 7]
        assert backoff.level == 1
        assert backoff.result(SUCCESS, 0.0)
        assert backoff.state is RUNNING


def constant(seconds: float) -> Strategy:
    return lambda _level: seconds


def rising(step: float) -> Strategy:
    return lambda level: step * level


def falling(first: float) -> Strategy:
    return lambda level: first / level


def jittered(multiplier: float, seed: int) -> Strategy:
    return full_jitter(multiplier, random.Random(seed))


STRATEGIES = st.one_of(
    st.builds(exponential, st.floats(0.001, 50)),
    st.builds(jittered, st.floats(0.001, 50), st.integers()),
    st.builds(constant, st.floats(0, 300) | st.just(math.inf)),
    st.builds(rising, st.floats(0, 10)),
    st.builds(falling, st.floats(0, 300)),
)
TIMES = st.floats(0, 400)


class AnyBackoff(RuleBasedStateMachine):
    """Whatever happens, there is a way out."""

    @initialize(strategy=STRATEGIES, maximum=st.just(0.0) | st.floats(0.01, 200))
    def begin(self, strategy: Strategy, maximum: float) -> None:
        self.strategy = strategy
        self.maximum = maximum
        self.backoff = Backoff(self.asked, maximum)
        self.now = 0.0
        self.wanted = 0.0

    def asked(self, level: int) -> float:
        self.wanted = self.strategy(level)
        return self.wanted

    @rule(result=st.sampled_from(Result))
    def result(self, result: Result) -> None:
        backoff = self.backoff
        state, level, until = backoff.state, backoff.level, backoff.until
        at_maximum = state is PROBING and self.wanted >= self.maximum
        changed = backoff.result(result, self.now)
        # PROBING may lead to WAITING or RUNNING, but never stay: nothing more would come.
        starts = state is RUNNING and result is FAILURE and self.maximum > 0
        assert changed == (starts or state is PROBING) == (backoff.state is not state)
        if not changed:
            assert (backoff.level, backoff.until) == (level, until)
            return
        step = {SUCCESS: -1, NEUTRAL: 0, FAILURE: 0 if at_maximum else 1}
        assert backoff.level == level + step[result]
        if backoff.state is WAITING:
            assert backoff.until == self.now + min(self.wanted, self.maximum)

    @rule(seconds=TIMES)
    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        waited = self.backoff.state is WAITING and self.now >= self.backoff.until
        assert self.backoff.end_wait(self.now) == waited

    @rule()
    def succeed_until_it_runs(self) -> None:
        """As many successes as levels end it, and each wait is one that passes."""
        for _ in range(self.backoff.level):
            self.now = max(self.now, self.backoff.until)
            self.backoff.end_wait(self.now)
            self.backoff.result(SUCCESS, self.now)
        assert self.backoff.state is RUNNING

    @invariant()
    def its_parts_agree(self) -> None:
        backoff = self.backoff
        assert backoff.level >= 0
        assert (backoff.level == 0) == (backoff.state is RUNNING)
        assert math.isfinite(backoff.until)
        bounds = {RUNNING: (9, 1, 0), WAITING: (0, 0, 0), PROBING: (1, 1, 0)}
        assert tuple(map(backoff.bound, (9, 1, 0))) == bounds[backoff.state]
        if not self.maximum:
            assert backoff.state is RUNNING


TestAnyBackoff = AnyBackoff.TestCase
