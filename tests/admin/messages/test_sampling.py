"""How many messages are shown."""

import math

import pytest

from nsq_anyio.admin.messages.tail import Sampler, TailState, percent_sent, sample_rate_for


def test_all_are_shown_while_there_are_few() -> None:
    sampler = Sampler(20)
    assert all(sampler.pick(number * 0.1) for number in range(50))
    assert list(sampler.rates(5.0)) == pytest.approx([10, 10], rel=0.1)


def test_of_many_some_are_shown_all_the_time() -> None:
    sampler = Sampler(20)
    picked = [number / 1000 for number in range(10_000) if sampler.pick(number / 1000)]
    assert len(picked) == 200
    for second in range(10):
        assert sum(second <= each < second + 1 for each in picked) == 20
    received, shown = sampler.rates(10.0)
    assert received == pytest.approx(1000, rel=0.06)
    assert shown == pytest.approx(20, rel=0.06)


def test_a_rate_ends() -> None:
    sampler = Sampler(20)
    assert sampler.rates(0.0) == (0.0, 0.0)
    for _ in range(100):
        sampler.pick(100.0)
    assert sampler.rates(100.0) == (100.0, 5.0)
    assert sampler.rates(102.0)[0] == pytest.approx(50)
    assert sampler.rates(106.0) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("per_second", "rate"), [(0, 0), (500, 0), (501, 98), (1000, 49), (50_000, 1), (1e9, 1), (math.nan, 0)]
)
def test_the_rate_that_nsqd_is_asked_for(per_second: float, rate: int) -> None:
    assert sample_rate_for(per_second, 500) == rate


def test_nsqd_sends_one_percent_more_than_it_was_asked_for() -> None:
    assert [percent_sent(rate) for rate in (0, 1, 25, 98, 99)] == [100, 2, 26, 99, 100]
    assert TailState(sample_rate=1, received=10).estimated == 500
