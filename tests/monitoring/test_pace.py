"""The interval follows what polls cost."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate
from typing import Any

import pytest

from nsq_anyio.errors import InvalidOption
from nsq_anyio.monitoring import Poller
from nsq_anyio.monitoring.poller import Pace

from ..http.fake_cluster import FakeCluster, lookupd, nsqd


def intervals(costs: Iterable[float], asked: float = 5.0, most_cpu: float | None = 0.05) -> list[Any]:
    """The intervals after polls that cost so many CPU seconds."""
    pace = Pace(asked, most_cpu)
    return [pytest.approx(pace.after_poll(spent)) for spent in accumulate(costs)]


def test_cheap_polls_come_as_often_as_was_asked() -> None:
    assert intervals([0.2, 0.2, 0.2]) == [5.0, 5.0, 5.0]


def test_dear_polls_come_less_often_up_to_a_minute() -> None:
    assert intervals([0.5, 0.5, 0.5]) == [5.0, 10.0, 10.0]
    assert intervals([0.5, 30.0]) == [5.0, 60.0]
    assert intervals([1.0, 30.0], asked=90.0) == [90.0, 90.0]


def test_the_first_poll_and_single_dear_ones_do_not_count() -> None:
    assert intervals([9.0, 0.1, 9.0, 9.0, 0.1]) == [5.0, 5.0, 5.0, 5.0, 5.0]
    assert intervals([9.0, 1.0, 0.1]) == [5.0, 20.0, 5.0]


def test_without_a_bound_nothing_is_stretched() -> None:
    assert intervals([9.0, 9.0], most_cpu=None) == [5.0, 5.0]


@pytest.mark.parametrize("value", [0, 1.1, float("nan"), "5 %"])
def test_a_share_is_checked(value: float) -> None:
    fake = FakeCluster({"l1": lookupd("n1"), "n1": nsqd("n1")})
    with pytest.raises(InvalidOption, match="most_cpu"):
        Poller(fake.cluster(["l1"]), most_cpu=value)
