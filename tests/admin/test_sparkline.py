"""Small lines that are drawn on the server."""

import math

from nsq_anyio.admin.pages.charts import sparkline


def test_a_line_goes_from_zero_to_the_largest_value() -> None:
    path = sparkline([0, 10, 20, 30], [0, 5, 10, 10], span=40, end=40, points=4)
    assert path == "M0 20L20 10L40 0L60 0"


def test_a_gap_is_left_where_nothing_is_known() -> None:
    assert sparkline([0, 10, 20, 30], [1, math.nan, 1, 1], span=40, end=40, points=4) == "M0 0h0M40 0L60 0"
    assert sparkline([0], [math.nan], span=40, end=40, points=4) == ""
    assert sparkline([], [], span=40, end=40, points=4) == ""


def test_zero_is_at_the_bottom() -> None:
    assert sparkline([0, 30], [0, 0], span=40, end=40, points=4) == "M0 20h0M60 20h0"


def test_each_point_is_a_mean() -> None:
    assert sparkline([0, 5, 10, 15], [2, 4, 1, 2], span=20, end=20, points=2) == "M0 0L60 10"


def test_what_is_older_or_newer_is_left_out() -> None:
    assert sparkline([-5, 5, 15, 25], [9, 1, 1, 9], span=20, end=20, points=2) == "M0 0L60 0"
