"""When nsqlookupds are asked again, with plain values."""

from hypothesis import given
from hypothesis import strategies as st

from nsq_anyio.policy.delays import PollSchedule

spreads = st.floats(-1, 1)
intervals = st.floats(0.01, 3600)
jitters = st.floats(0, 1)


def delays(schedule: PollSchedule, found: list[bool], spread: float = 0.0) -> list[float]:
    return [round(schedule.delay(found=each, spread=spread), 3) for each in found]


def test_until_an_nsqd_is_found_the_delays_double_up_to_the_interval() -> None:
    schedule = PollSchedule(3.0, 0.3)
    assert delays(schedule, [False] * 7) == [0.1, 0.2, 0.4, 0.8, 1.6, 3.0, 3.0]


def test_once_one_is_found_the_interval_holds() -> None:
    schedule = PollSchedule(60.0, 0.3)
    assert delays(schedule, [False, False, True, True]) == [0.1, 0.2, 60.0, 60.0]


def test_it_begins_anew_when_none_is_left() -> None:
    schedule = PollSchedule(60.0, 0.3)
    assert delays(schedule, [False, False, True, False, False]) == [0.1, 0.2, 60.0, 0.1, 0.2]


def test_whether_more_quick_polls_follow() -> None:
    schedule = PollSchedule(0.3, 0.0)
    states: list[bool] = []
    for _ in range(3):
        states.append(schedule.is_quick)
        schedule.delay(found=False, spread=0.0)
    assert states == [True, True, False]


@given(intervals, jitters, st.lists(st.tuples(st.booleans(), spreads), max_size=30))
def test_no_delay_is_beyond_its_bounds(
    interval: float, jitter: float, polls: list[tuple[bool, float]]
) -> None:
    schedule = PollSchedule(interval, jitter)
    quick = 0
    for found, spread in polls:
        delay = schedule.delay(found=found, spread=spread)
        quick = 0 if found else quick + 1
        ordinary = interval * max(1 + jitter * spread, 0.01)
        first = 0.1 * 2 ** (quick - 1)
        if found or first >= interval:
            assert delay == ordinary
        else:
            assert max(0.1, first) <= delay <= min(first * (1 + jitter), interval)


@given(
    intervals.filter(lambda interval: interval > 0.1), jitters, st.lists(spreads, min_size=40, max_size=40)
)
def test_a_topic_that_never_comes_costs_few_polls(
    interval: float, jitter: float, places: list[float]
) -> None:
    schedule = PollSchedule(interval, jitter)
    passed = polls = 0.0
    for spread in places:
        if not schedule.is_quick:
            break
        passed += schedule.delay(found=False, spread=spread)
        polls += 1
    assert not schedule.is_quick
    assert polls <= 16
    assert passed <= 2 * interval * (1 + jitter)
