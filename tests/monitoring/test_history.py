"""The history: what it keeps, how coarse, and how much."""

from __future__ import annotations

import math

from nsq_anyio.http import ChannelStats, Survey, TopicStats, Totals
from nsq_anyio.monitoring import Figures, History, Rates, Snapshot
from nsq_anyio.monitoring.ring import Ring

BEGIN = 1_800_000_000.0
DAY = 86400


def view(time: float, *topics: TopicStats, rates: dict[tuple[str, str], Rates] | None = None) -> Snapshot:
    totals = tuple(Totals(topic, {}) for topic in topics)
    return Snapshot(1, Survey(time=time, seconds=0.0), Figures(rates or {}), totals)


def topic(name: str = "t", depth: int = 0, in_flight_count: int = 0, deferred_count: int = 0) -> TopicStats:
    channel = ChannelStats(channel_name="c", in_flight_count=in_flight_count, deferred_count=deferred_count)
    return TopicStats(topic_name=name, depth=depth, channels=(channel,))


def test_each_level_adds_up() -> None:
    history = History()
    rates = {("t", ""): Rates(9.0), ("t", "c"): Rates(8.0, 7.0, 6.0, 5.0)}
    rows = topic(depth=1, in_flight_count=3, deferred_count=4)
    history.record(view(BEGIN, rows, rates=rates))
    for name, found in {
        "channel": {"depth": 0, "in_flight": 3, "ingress": 8, "egress": 7},
        "topic": {"depth": 1, "in_flight": 3, "deferred": 4, "ingress": 9, "egress": 7, "timed_out": 5},
    }.items():
        series = history.series("t", "c" if name == "channel" else "")
        assert series.times == [BEGIN]
        assert {measure: series.values[measure][0] for measure in found} == found
    assert history.series().values["requeued"] == (6,)
    assert history.series("other").times == []


def test_rates_are_unknown_at_first() -> None:
    history = History()
    history.record(view(BEGIN, topic()))
    assert math.isnan(history.series("t").values["ingress"][0])
    assert math.isnan(history.series().values["ingress"][0])
    assert history.series("t").values["depth"] == (0,)


def test_a_day_is_kept_in_three_steps_and_older_polls_are_dropped() -> None:
    history = History()
    for second in range(0, 2 * DAY, 5):
        history.record(view(BEGIN + second, topic(depth=second)))
    series = history.series("t")
    steps = {later - earlier for earlier, later in zip(series.times, series.times[1:], strict=False)}
    assert {15, 120, 600} <= steps
    assert list(series.times) == sorted(set(series.times))
    end = BEGIN + 2 * DAY
    assert DAY - 1200 <= end - series.times[0] <= DAY + 1200
    assert len(series.times) <= 240 + 180 + 144
    for time, depth in zip(series.times, series.values["depth"], strict=True):
        assert time - BEGIN <= depth <= time - BEGIN + 600


def test_gaps_are_not_numbers() -> None:
    history = History()
    history.record(view(BEGIN, topic(depth=1)))
    history.record(view(BEGIN + 45, topic(depth=2)))
    depth = history.series("t").values["depth"]
    assert (depth[0], depth[-1]) == (1, 2)
    assert len(depth) == 4
    assert all(map(math.isnan, depth[1:3]))


def test_the_number_of_series_is_bounded_and_the_gone_make_room() -> None:
    history = History(60, 5, most_series=4)
    for second in range(3):
        history.record(view(BEGIN + second, *(topic(f"t{number}") for number in range(5))))
    assert len(history) <= 5
    assert history.left_out == 6
    assert history.series().times
    later = BEGIN + 10 * 600
    history.record(view(later, topic("new")))
    assert history.series("new").times
    assert len(history) == 3
    assert history.left_out == 0


def test_a_clock_that_is_set_back_begins_anew() -> None:
    ring = Ring(10.0, 4, 1)
    ring.add(10_000.0, [1.0])
    ring.add(9_990.0, [3.0])
    assert list(ring.at(1000)) == [2.0]
    ring.add(100.0, [5.0])
    assert ring.last == 10
    assert list(ring.at(10)) == [5.0]
    assert math.isnan(ring.at(1000)[0])


def test_a_ring_that_sleeps_longer_than_it_is_forgets_all() -> None:
    ring = Ring(1.0, 3, 1)
    for second in range(3):
        ring.add(float(second), [float(second)])
    ring.add(100.0, [7.0])
    assert [ring.at(number)[0] for number in (100,)] == [7.0]
    assert all(math.isnan(ring.at(number)[0]) for number in (98, 99))


def test_the_end_of_a_series_in_its_finest_steps() -> None:
    history = History()
    for second in range(0, 900, 5):
        topics = [topic(depth=second)] if second < 600 else []
        history.record(view(BEGIN + second, *topics, topic("u")))
    series = history.recent("u", seconds=60)
    assert list(series.times) == [BEGIN + second for second in (840, 855, 870, 885)]
    assert history.step == 15
    # What is gone has no steps of its own; the time counts from the last one of the cluster.
    assert list(history.recent("t", seconds=330).times) == [BEGIN + 570, BEGIN + 585]
    assert history.recent("t", seconds=60).times == []
    assert history.recent("none").times == []
    assert len(history.recent("u", seconds=10 * DAY).times) == 60
