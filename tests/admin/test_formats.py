"""Numbers, times and sizes as people read them."""

import math

import pytest

from nsq_anyio.admin.pages.formats import (
    UNKNOWN,
    ago,
    clock,
    compact,
    duration,
    number,
    rate,
    size,
    timestamp,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (7, "7"),
        (999, "999"),
        (1000, "1.00 k"),
        (1234, "1.23 k"),
        (12345, "12.3 k"),
        (999_499, "999 k"),
        (999_500, "1.00 M"),
        (1_234_567_890, "1.23 G"),
        (0.25, "0.25"),
        (9.996, "10.0"),
        (31.4159, "31.4"),
        (99.96, "100"),
        (999.4, "999"),
        (-1500, "-1.50 k"),
        (10**30, "1000000000000 E"),
        (math.nan, UNKNOWN),
    ],
)
def test_compact(value: float, text: str) -> None:
    assert compact(value) == text


def test_number() -> None:
    assert (number(1234567), number(0), number(math.inf)) == ("1,234,567", "0", UNKNOWN)


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (0.001, "< 0.01"), (0.25, "0.25"), (12.0, "12"), (1234.5, "1.23 k")]
)
def test_rate(value: float, text: str) -> None:
    assert rate(value) == text
    assert rate(math.nan) == UNKNOWN


def test_size() -> None:
    assert [size(each) for each in (0, 12, 1500, 2.5e9, math.nan)] == [
        "0 B",
        "12 B",
        "1.50 kB",
        "2.50 GB",
        UNKNOWN,
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.0000005, "0 µs"),
        (0.00025, "250 µs"),
        (0.25, "250 ms"),
        (0.9996, "1.0 s"),
        (4.2, "4.2 s"),
        (59.7, "1 min"),
        (61, "1 min 1 s"),
        (3600, "1 h"),
        (3605, "1 h"),
        (11520, "3 h 12 min"),
        (90000, "1 d 1 h"),
        (86400 * 400, "400 d"),
        (-2, "-2.0 s"),
        (math.nan, UNKNOWN),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_ago() -> None:
    assert [ago(each) for each in (-5, 0, 5, 125, 7300, 200_000)] == [
        "0 s",
        "0 s",
        "5 s",
        "2 min",
        "2 h",
        "2 d",
    ]
    assert ago(math.inf) == UNKNOWN


def test_times() -> None:
    assert timestamp(0) == "1970-01-01T00:00:00+00:00"
    assert clock(3661) == "01:01:01"
    assert timestamp(1e30) == clock(math.nan) == ""
