"""Estimated quantiles against the exact ones."""

import bisect
import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsq_anyio.embedded.nsqd.quantiles import TargetedQuantiles

ERROR = 0.03
"""Of the number of values; what the class promises, with four values more."""

QUANTILES = st.lists(
    st.sampled_from([1.0, 0.999, 0.99, 0.95, 0.9, 0.5, 0.25, 0.1, 0.01]) | st.floats(0.01, 1.0),
    min_size=1,
    max_size=4,
)


def summary(quantiles: Sequence[float], values: Sequence[int]) -> TargetedQuantiles:
    made = TargetedQuantiles(quantiles)
    for value in values:
        made.insert(value)
    return made


def joined(quantiles: Sequence[float], parts: Sequence[TargetedQuantiles]) -> TargetedQuantiles:
    whole = TargetedQuantiles(quantiles)
    for part in parts:
        whole.merge(part.entries())
    return whole


def check(made: TargetedQuantiles, quantiles: Sequence[float], values: Sequence[int]) -> None:
    in_order = sorted(values)
    count = len(in_order)
    assert made.count == count
    for quantile in quantiles:
        found = made.query(quantile)
        lowest, highest = bisect.bisect_left(in_order, found) + 1, bisect.bisect_right(in_order, found)
        assert lowest <= highest, "it is one of the values"
        margin = ERROR * count + 4
        assert lowest - margin <= quantile * count <= highest + margin, (quantile, lowest, highest)
        if quantile == 1:
            assert found == in_order[-1]


@given(quantiles=QUANTILES, values=st.lists(st.integers(-(10**9), 10**12), min_size=1, max_size=700))
def test_any_values(quantiles: list[float], values: list[int]) -> None:
    check(summary(quantiles, values), quantiles, values)


@given(
    quantiles=QUANTILES,
    sizes=st.lists(st.integers(0, 1200), min_size=1, max_size=6),
    spread=st.integers(0, 10**6),
    seed=st.integers(0, 2**32),
)
def test_merged_summaries(quantiles: list[float], sizes: list[int], spread: int, seed: int) -> None:
    choice = random.Random(seed)
    # Each part has its own range: parts side by side are as hard as parts of the same values.
    starts = [choice.randrange(2 * spread + 1) for _ in sizes]
    parts = [
        [start + choice.randrange(spread + 1) for _ in range(size)]
        for start, size in zip(starts, sizes, strict=True)
    ]
    values = [value for part in parts for value in part]
    made = joined(quantiles, [summary(quantiles, part) for part in parts])
    if values:
        check(made, quantiles, values)
    else:
        assert (made.count, made.query(quantiles[0])) == (0, 0)


ORDERS: dict[str, Callable[[int], int]] = {
    "ascending": lambda i: i,
    "descending": lambda i: -i,
    "sawtooth": lambda i: i % 997,
    "constant": lambda _: 5,
    "inward": lambda i: i if i % 2 else -i,
    "shuffled": lambda i: i * 7919 % 20_011,
}


@pytest.mark.parametrize("order", ORDERS)
def test_many_values_in_little_memory(order: str) -> None:
    quantiles = [1.0, 0.99, 0.95, 0.5]
    values = [ORDERS[order](i) for i in range(20_000)]
    halves = [summary(quantiles, values[:12_000]), summary(quantiles, values[12_000:])]
    check(joined(quantiles, halves), quantiles, values)
    made = summary(quantiles, values)
    check(made, quantiles, values)
    assert len(made.entries()) < 400


def test_few_values_are_exact_but_for_nsqds_rounding() -> None:
    # nsqd's results for ten messages, seen side by side.
    made = joined([1.0, 0.99, 0.5], [summary([1.0, 0.99, 0.5], range(1, 11)), TargetedQuantiles([0.5])])
    assert [made.query(quantile) for quantile in (1.0, 0.99, 0.5)] == [10, 10, 7]


def test_without_values_the_result_is_0_also_after_clear() -> None:
    made = summary([0.5], range(600))
    assert made.count == 600
    made.clear()
    assert (made.count, made.query(0.5), made.entries()) == (0, 0, [])
    made.insert(3)
    assert (made.count, made.query(0.5)) == (1, 3)
