"""The histogram: counting many values at once comes to what counting each comes to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsq_anyio.instrumentation.prometheus.samples import Histogram

BOUNDS = (0.001, 0.01, 0.1, 1.0)
VALUES = st.lists(st.floats(0, 10) | st.sampled_from(BOUNDS))


@given(VALUES)
def test_many_at_once_count_as_each(values: list[float]) -> None:
    each, at_once = Histogram(BOUNDS), Histogram(BOUNDS)
    for value in values:
        each.observe(value)
    at_once.observe_all(values)
    assert list(at_once.cumulative()) == list(each.cumulative())
    assert at_once.sum == pytest.approx(each.sum)


def test_a_value_on_a_bound_is_within_it() -> None:
    histogram = Histogram(BOUNDS)
    histogram.observe_all([0.001, 1.0, 1.5])
    assert [count for _, count in histogram.cumulative()] == [1, 1, 1, 2, 3]
