"""Since when channels wait, hold messages and have failures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from nsq_anyio.http import ChannelStats, TopicStats, Totals
from nsq_anyio.http.stats import topic_totals
from nsq_anyio.monitoring import Counts, Figures, Rates
from nsq_anyio.monitoring.activity import Activities
from nsq_anyio.monitoring.snapshot import Activity, Key

KEY = "t", "c"


@dataclass
class Channel:
    """A channel that is polled every 5 seconds."""

    activities: Activities
    time: float = 1000.0
    counts: Counts = field(default_factory=Counts)

    def poll(
        self, *, finished: int = 0, requeued: int = 0, timed_out: int = 0, depth: int = 0, held: int = 0
    ) -> Activity:
        self.time += 5
        self.counts = replace(
            self.counts,
            requeued=self.counts.requeued + requeued,
            timed_out=self.counts.timed_out + timed_out,
        )
        stats = ChannelStats(channel_name="c", depth=depth, in_flight_count=held, client_count=1)
        total = TopicStats(topic_name="t", channels=(stats,))
        figures = Figures({KEY: Rates(egress=finished / 5)}, {KEY: self.counts})
        return self.activities.update([Totals(total, {})], figures, self.time)[KEY]


def test_it_waits_from_the_first_poll_with_a_depth() -> None:
    channel = Channel(Activities())
    assert math.isnan(channel.poll().waiting)
    assert channel.poll(depth=1).waiting == 1010
    assert channel.poll(depth=9).waiting == 1010
    assert math.isnan(channel.poll().waiting)
    assert channel.poll(depth=1).idle_since() == 1025


def test_it_is_idle_from_the_last_message_that_was_finished() -> None:
    channel = Channel(Activities())
    channel.poll(depth=5)
    assert channel.poll(depth=5, finished=1).idle_since() == 1010
    assert channel.poll(depth=5).idle_since() == 1010
    # It was empty in between: what came then has waited for a shorter time.
    channel.poll()
    assert channel.poll(depth=5).idle_since() == 1025


def test_a_lively_channel_is_missed_soon_and_a_slow_one_later() -> None:
    lively, slow = Channel(Activities()), Channel(Activities())
    fast = late = Activity(0.0)
    for number in range(48):
        fast = lively.poll(depth=5, finished=100)
        late = slow.poll(depth=5, finished=int(number % 6 == 5))
    assert fast.patience(5.0) == 20.0
    assert 100 < late.patience(5.0) <= 160
    assert fast.patience(60.0) == 180.0


def test_messages_are_held_until_one_is_answered() -> None:
    channel = Channel(Activities())
    assert channel.poll(held=3).holding == 1005
    assert channel.poll(held=3).holding == 1005
    assert channel.poll(held=3, finished=1).holding == 1015
    assert channel.poll(held=3, timed_out=1).holding == 1020
    assert channel.poll(held=3).holding == 1020
    assert math.isnan(channel.poll().holding)


def test_failures_are_an_episode_until_they_pause() -> None:
    channel = Channel(Activities())
    channel.poll()
    activity = channel.poll(requeued=50)
    for _ in range(11):
        activity = channel.poll(requeued=50)
    episode = activity.requeues
    assert episode is not None
    assert (episode.count, episode.began, episode.last) == (600, 1010, 1065)
    assert not episode.is_over(1075, 5.0)
    assert episode.is_over(1076, 5.0)
    # What was requeued with a delay may fail again when it comes due.
    assert not episode.is_over(1165, 5.0, deferred=True)
    assert episode.is_over(1166, 5.0, deferred=True)
    for _ in range(70):
        channel.poll()
    after = channel.poll(requeued=1).requeues
    assert after is not None
    assert (after.count, after.began) == (1, channel.time)


def test_one_timeout_a_minute_is_one_episode_that_goes_on() -> None:
    channel = Channel(Activities())
    activity = Activity(0.0)
    for number in range(60):
        activity = channel.poll(held=1, timed_out=int(number % 12 == 11))
        if (episode := activity.timeouts) and episode.count > 1:
            assert not episode.is_over(channel.time, 5.0)
    assert activity.timeouts is not None
    assert activity.timeouts.count == 5


def test_a_clock_that_is_set_back_begins_anew() -> None:
    channel = Channel(Activities())
    channel.poll(depth=1)
    channel.time = 500.0
    assert channel.poll(depth=1).waiting == 505


def test_an_nsqd_is_idle_where_messages_wait_and_none_is_finished() -> None:
    activities = Activities()

    def poll(time: float, finished: Mapping[str, int], depths: Mapping[str, int]) -> Mapping[str, float]:
        rows = {
            url: TopicStats(
                topic_name="t",
                channels=(ChannelStats(channel_name="c", depth=depth, client_count=1),),
            )
            for url, depth in depths.items()
        }
        figures = Figures(sums={KEY: Counts()})
        figures.nodes["t"] = {url: {"c": (0, 0, 0, 0, count)} for url, count in finished.items()}
        return activities.update([topic_totals("t", rows)], figures, time)[KEY].idle_on

    assert poll(1000, {"a": 5, "b": 5}, {"a": 1, "b": 1}) == {"a": 1000, "b": 1000}
    assert poll(1005, {"a": 5, "b": 6}, {"a": 1, "b": 1}) == {"a": 1000, "b": 1005}
    # It was empty in between.
    assert poll(1010, {"a": 5, "b": 6}, {"a": 0, "b": 1}) == {"b": 1005}
    assert poll(1015, {"a": 5, "b": 6}, {"a": 1, "b": 1}) == {"a": 1015, "b": 1005}
    # On one nsqd alone, it is the activity of the whole channel.
    assert poll(1020, {"a": 5}, {"a": 1}) == {}


def test_a_silent_nsqd_is_not_forgotten() -> None:
    activities = Activities()

    def poll(time: float, *urls: str, silent: Sequence[str] = ()) -> Mapping[Key, Activity]:
        row = TopicStats(topic_name="t", channels=(ChannelStats(channel_name="c", depth=1, client_count=1),))
        figures = Figures(sums={KEY: Counts()})
        figures.nodes["t"] = {url: {"c": (0, 0, 0, 0, 5)} for url in (*urls, *silent)}
        topics = [topic_totals("t", dict.fromkeys(urls, row))] if urls else []
        return activities.update(topics, figures, time, silent)

    poll(1000, "a", "b")
    assert poll(1005, silent=["a", "b"]) == {}
    found = poll(1010, "a", silent=["b"])[KEY]
    assert (found.waiting, found.idle_on) == (1000, {"a": 1000})
    assert poll(1015, "a", "b")[KEY].idle_on == {"a": 1000, "b": 1000}


def test_it_is_idle_from_the_first_consumer_on() -> None:
    activities = Activities()

    def poll(time: float, *, clients: int, paused: bool = False) -> Activity:
        channel = ChannelStats(channel_name="c", depth=5, client_count=clients, paused=paused)
        total = TopicStats(topic_name="t", channels=(channel,))
        return activities.update([Totals(total, {})], Figures(sums={KEY: Counts()}), time)[KEY]

    poll(1000, clients=0)
    assert poll(5000, clients=1).idle_since() == 5000
    assert poll(5005, clients=1).idle_since() == 5000
    poll(5010, clients=1, paused=True)
    assert poll(5015, clients=1).idle_since() == 5015
