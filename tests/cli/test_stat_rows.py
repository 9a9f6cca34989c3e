"""Sums and rates of ``nsq-anyio stat``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nsq_anyio.cli.stat.rows import Counts, Row, Rows
from nsq_anyio.http.stats import ChannelStats, TopicStats, Totals, topic_totals

A, B = "http://a:4151", "http://b:4151"


def _topic(*channels: ChannelStats, messages: int = 0, depth: int = 0) -> TopicStats:
    return TopicStats(topic_name="clicks", channels=channels, message_count=messages, depth=depth)


def _channel(messages: int = 0, depth: int = 0, name: str = "archive", paused: bool = False) -> ChannelStats:
    return ChannelStats(channel_name=name, message_count=messages, depth=depth, paused=paused)


def _poll(**nodes: TopicStats) -> list[Totals[TopicStats]]:
    return [topic_totals("clicks", {{"a": A, "b": B}[name]: stats for name, stats in nodes.items()})]


def _rates(rows: list[Row]) -> tuple[float | None, float | None]:
    (row,) = rows
    return row.ingress, row.egress


def test_counts_are_sums_over_nsqds() -> None:
    one = ChannelStats(
        channel_name="archive",
        depth=1,
        backend_depth=2,
        in_flight_count=3,
        deferred_count=4,
        requeue_count=5,
        timeout_count=6,
        message_count=7,
        client_count=8,
    )
    assert Rows(None).of(_poll(a=_topic(one), b=_topic(one)), 0.0) == [
        Row("clicks", "archive", Counts(2, 4, 6, 8, 10, 12, 14, 16), False, False, None, None)
    ]


def test_rates_are_of_the_time_that_has_gone_by() -> None:
    rows = Rows(None)
    rows.of(_poll(a=_topic(_channel(100, 50)), b=_topic(_channel(10, 0))), 5.0)
    # 30 and 10 came in 2 seconds; a's depth grew by 20, so 20 of 40 left.
    found = rows.of(_poll(a=_topic(_channel(130, 70)), b=_topic(_channel(20, 0))), 7.0)
    assert _rates(found) == (20.0, 10.0)


def test_a_channel_that_is_emptied_has_no_negative_ingress() -> None:
    rows = Rows(None)
    rows.of(_poll(a=_topic(_channel(100, 100))), 0.0)
    assert _rates(rows.of(_poll(a=_topic(_channel(100, 0))), 1.0)) == (0.0, 100.0)


def test_an_nsqd_that_comes_makes_no_rate() -> None:
    rows = Rows(None)
    rows.of(_poll(a=_topic(_channel(10))), 0.0)
    assert _rates(rows.of(_poll(a=_topic(_channel(11)), b=_topic(_channel(1000, 5))), 1.0)) == (1.0, 1.0)


def test_an_nsqd_that_goes_and_comes_back_makes_no_rate() -> None:
    rows = Rows(None)
    rows.of(_poll(a=_topic(_channel(10)), b=_topic(_channel(1000))), 0.0)
    assert _rates(rows.of(_poll(a=_topic(_channel(10))), 1.0)) == (0.0, 0.0)
    assert _rates(rows.of(_poll(a=_topic(_channel(10)), b=_topic(_channel(1000))), 2.0)) == (0.0, 0.0)


def test_an_nsqd_that_was_restarted_makes_no_rate() -> None:
    rows = Rows(None)
    rows.of(_poll(a=_topic(_channel(1000, 10))), 0.0)
    assert _rates(rows.of(_poll(a=_topic(_channel(3))), 1.0)) == (0.0, 0.0)
    assert _rates(rows.of(_poll(a=_topic(_channel(5))), 2.0)) == (2.0, 2.0)


def test_a_topic_without_channels_has_a_row() -> None:
    rows = Rows(None)
    rows.of(_poll(a=_topic(messages=3, depth=3)), 0.0)
    (row,) = rows.of(_poll(a=_topic(messages=5, depth=5)), 1.0)
    assert (row.topic, row.channel, row.counts.depth, row.ingress, row.egress) == ("clicks", "", 5, 2.0, 0.0)


def test_several_channels_are_rows_of_their_own() -> None:
    topic = _topic(_channel(name="one"), _channel(name="two", paused=True))
    found = Rows(None).of(_poll(a=topic, b=_topic(_channel(name="three"))), 0.0)
    assert [(row.channel, row.paused) for row in found] == [("one", False), ("three", False), ("two", True)]


def test_a_topic_that_is_paused_on_one_nsqd_is_told_for_each_channel() -> None:
    topic = _topic(_channel(name="one"), _channel(name="two", paused=True))
    found = Rows(None).of(_poll(a=topic, b=replace(topic, paused=True)), 0.0)
    assert [(row.channel, row.paused, row.topic_paused) for row in found] == [
        ("one", False, True),
        ("two", True, True),
    ]


@pytest.mark.parametrize(("channel", "count"), [("one", 1), ("none", 0)])
def test_one_channel_alone(channel: str, count: int) -> None:
    topic = _topic(_channel(name="one"), _channel(name="two"))
    assert len(Rows(channel).of(_poll(a=topic), 0.0)) == count


def test_no_time_makes_no_rate() -> None:
    rows = Rows(None)
    rows.of(_poll(a=_topic(_channel(1))), 1.0)
    assert _rates(rows.of(_poll(a=_topic(_channel(2))), 1.0)) == (None, None)
