"""The plan of a batch, for any depths."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsq_anyio.spark.plan import Depth, plan, within_bytes

depths = st.lists(st.integers(0, 10_000), max_size=8).map(
    lambda rows: [Depth(f"nsqd-{number}:4150", some) for number, some in enumerate(rows)]
)
bounds = st.none() | st.integers(1, 20_000)


def rows_of(parts: list[tuple[str, int]]) -> Counter[str]:
    rows: Counter[str] = Counter()
    for nsqd, some in parts:
        rows[nsqd] += some
    return rows


@given(depths, bounds, st.none() | st.integers(1, 50), st.none() | st.integers(200, 5_000))
def test_it_takes_all_that_it_may_and_no_more(
    waiting: list[Depth], max_rows: int | None, min_partitions: int | None, most: int | None
) -> None:
    parts = plan(waiting, max_rows=max_rows, min_partitions=min_partitions, max_rows_per_partition=most)
    rows = rows_of(parts)
    total = sum(depth.rows for depth in waiting)
    assert sum(rows.values()) == (total if max_rows is None else min(total, max_rows))
    assert all(rows[depth.nsqd] <= depth.rows for depth in waiting)
    assert all(some > 0 for _, some in parts)
    assert most is None or all(some <= most for _, some in parts)
    assert min_partitions is None or len(parts) >= min(min_partitions, sum(rows.values()))
    if most is None:
        # Splitting is for the minimum alone.
        assert len(parts) == max(len(rows), min(min_partitions or 0, sum(rows.values())))


@given(depths, st.integers(1, 20_000))
def test_shares_are_fair(waiting: list[Depth], max_rows: int) -> None:
    rows = rows_of(plan(waiting, max_rows=max_rows))
    cut = [depth for depth in waiting if rows[depth.nsqd] < depth.rows]
    if cut:
        # Who got less than it has got no less than anybody else, but for what does not divide.
        most = max(rows.values())
        assert all(rows[depth.nsqd] >= most - 1 for depth in cut)


@given(depths, bounds, st.integers(1, 50))
def test_partitions_of_one_nsqd_are_even_and_the_largest_are_split(
    waiting: list[Depth], max_rows: int | None, min_partitions: int
) -> None:
    parts = plan(waiting, max_rows=max_rows, min_partitions=min_partitions)
    by_nsqd: dict[str, list[int]] = {}
    for nsqd, some in parts:
        by_nsqd.setdefault(nsqd, []).append(some)
    for sizes in by_nsqd.values():
        assert max(sizes) - min(sizes) <= 1
    largest = max((some for _, some in parts), default=0)
    for sizes in by_nsqd.values():
        if len(sizes) > 1:
            # It was the largest when it was split last.
            assert math.ceil(sum(sizes) / (len(sizes) - 1)) >= largest


@pytest.mark.parametrize(
    ("rows", "max_rows", "min_partitions", "most", "expected"),
    [
        pytest.param([0, 0], 10, 4, None, [], id="nothing-waits"),
        pytest.param([5, 0, 7], None, None, None, [("a", 5), ("c", 7)], id="all-that-waits"),
        pytest.param([100, 2, 100], 12, None, None, [("a", 5), ("b", 2), ("c", 5)], id="short-ones-in-full"),
        pytest.param([10, 10], 1, None, None, [("b", 1)], id="one-row"),
        pytest.param(
            [90, 10], None, 4, None, [("a", 30), ("a", 30), ("a", 30), ("b", 10)], id="deepest-split"
        ),
        pytest.param([3], None, 8, None, [("a", 1), ("a", 1), ("a", 1)], id="one-row-each-at-most"),
        pytest.param([25], None, None, 10, [("a", 9), ("a", 8), ("a", 8)], id="bounded-partitions"),
    ],
)
def test_examples(
    rows: list[int],
    max_rows: int | None,
    min_partitions: int | None,
    most: int | None,
    expected: list[tuple[str, int]],
) -> None:
    waiting = [Depth(nsqd, some) for nsqd, some in zip("abc", rows, strict=False)]
    parts = plan(waiting, max_rows=max_rows, min_partitions=min_partitions, max_rows_per_partition=most)
    assert parts == expected


@given(depths, st.integers(1, 100_000), st.integers(1, 50), st.integers(1, 5_000))
def test_bytes_bound_the_plan_but_for_one_message_each(
    waiting: list[Depth], max_bytes: int, min_partitions: int, size: int
) -> None:
    parts = plan(waiting, max_rows=None, min_partitions=min_partitions)
    bounded = within_bytes(parts, max_bytes, dict.fromkeys((depth.nsqd for depth in waiting), size))
    assert [nsqd for nsqd, _ in bounded] == [nsqd for nsqd, _ in parts]
    share = max_bytes // len(parts) if parts else 0
    for (_, before), (_, rows) in zip(parts, bounded, strict=True):
        assert 1 <= rows <= before
        assert rows == 1 or rows * size <= share
        assert rows == before or (rows + 1) * size > share


def test_messages_of_unknown_size_may_be_as_large_as_nsqd_allows() -> None:
    assert within_bytes([("a:1", 500), ("b:1", 500)], 20 * 1024 * 1024, {"a:1": 100.0}) == [
        ("a:1", 500),
        ("b:1", 10),
    ]
