"""The token bucket of a rate, and how many messages may wait for their start."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsq_anyio.policy.token_bucket import TokenBucket, waiting_allowed

RATES = st.floats(0.01, 10_000)
BURSTS = st.integers(1, 100)
PAUSES = st.lists(st.floats(0, 3), min_size=1, max_size=200)


@given(RATES, BURSTS, PAUSES, st.floats(0.01, 10))
def test_no_window_sees_more_starts_than_the_bucket_allows(
    rate: float, burst: int, pauses: list[float], window: float
) -> None:
    bucket = TokenBucket(rate, burst)
    now = 1000.0
    starts: list[float] = []
    for pause in pauses:
        now += pause / rate
        now += bucket.wait(now)
        bucket.take(now)
        starts.append(now)
    for place, start in enumerate(starts):
        within = sum(start <= other < start + window for other in starts[place:])
        assert within <= burst + rate * window + 1e-6 * len(starts) + 1e-3


@given(RATES, BURSTS)
def test_it_gives_all_that_it_allows(rate: float, burst: int) -> None:
    bucket = TokenBucket(rate, burst)
    for _ in range(burst):
        assert bucket.wait(5.0) == 0
        bucket.take(5.0)
    assert bucket.wait(5.0) == pytest.approx(1 / rate)
    assert bucket.wait(5.0 + 1 / rate) == pytest.approx(0, abs=1e-9)
    # Full again, and no fuller, however long it takes.
    later = 5.0 + 2 * burst / rate
    for _ in range(burst):
        assert bucket.wait(later) == 0
        bucket.take(later)
    assert bucket.wait(later) > 0


def test_another_clock_makes_nobody_wait_long() -> None:
    bucket = TokenBucket(2, 3)
    bucket.take(1_000_000.0)
    bucket.begin(0.0)
    assert bucket.wait(0.0) <= 0.5


@given(RATES, st.integers(1, 20), st.floats(0.1, 900), st.floats(0, 100))
def test_what_waits_can_start_within_half_of_the_timeout(
    rate: float, sharers: int, msg_timeout: float, now: float
) -> None:
    bucket = TokenBucket(rate, 1)
    bucket.take(now)
    allowed = [waiting_allowed(bucket, place, sharers, msg_timeout, now) for place in range(sharers)]
    assert sum(allowed) / rate <= max(msg_timeout / 2, bucket.wait(now)) + 1e-6
    # Nobody starves: each has its turn, and the first comes when its start is near.
    due = now + 1 / rate
    assert waiting_allowed(bucket, 0, sharers, msg_timeout, due) >= 1
    assert allowed == sorted(allowed, reverse=True)


@pytest.mark.parametrize(
    ("rate", "msg_timeout", "place", "sharers", "allowed"),
    [
        (1, 60, 0, 1, 30),
        (5, 1, 0, 1, 2),
        (100, 60, 3, 4, 750),
        (5, 1, 1, 4, 1),
        (5, 1, 2, 4, 0),
        (0.1, 1, 0, 2, 0),
    ],
)
def test_examples(rate: float, msg_timeout: float, place: int, sharers: int, allowed: int) -> None:
    bucket = TokenBucket(rate, 1)
    bucket.take(0.0)
    assert waiting_allowed(bucket, place, sharers, msg_timeout, 0.0) == allowed
