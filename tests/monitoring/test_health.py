"""What is judged to be stuck, and in which words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from nsq_anyio.http import ChannelStats, Node, NsqdSurvey, NsqlookupdSurvey, Stats, Survey, TopicStats
from nsq_anyio.monitoring import Figures, Problem, Snapshot, Trend, problems, trend
from nsq_anyio.monitoring.health import _LABELS, ALERTS, unknown
from nsq_anyio.monitoring.history import MEASURES, Series
from nsq_anyio.monitoring.snapshot import Activity, Episode

A, B = "http://a:4151", "http://b:4151"
LOOKUP, OTHER = "http://l1:4161", "http://l2:4161"


def node(url: str, *topics: str) -> Node:
    return Node(url=url, broadcast_address=url[7:8], http_port=4151, topics=topics)


def channel(name: str = "c", **counts: int | bool) -> ChannelStats:
    return replace(ChannelStats(channel_name=name), **counts)  # type: ignore[arg-type]


def topic(*channels: ChannelStats, name: str = "t", **counts: int | bool) -> TopicStats:
    return replace(TopicStats(topic_name=name, channels=channels), **counts)  # type: ignore[arg-type]


def nsqd(url: str, *topics: TopicStats, error: str = "", health: str = "OK") -> NsqdSurvey:
    return NsqdSurvey(node=node(url), error=error, stats=Stats(health=health, topics=topics))


NOW = 1000.0


def view(
    *nsqds: NsqdSurvey,
    lookups: tuple[NsqlookupdSurvey, ...] = (),
    activity: Activity | None = None,
    interval: float = 5.0,
) -> Snapshot:
    survey = Survey(time=NOW, seconds=0.1, nsqds=nsqds, nsqlookupds=lookups)
    topics = survey.topics()
    keys = [(each.total.topic_name, row.channel_name) for each in topics for row in each.total.channels]
    activities = dict.fromkeys(keys, activity or Activity(0.0, waiting=NOW, finished=NOW, pace=0.01))
    return Snapshot(1, survey, Figures(), topics, interval, activities=activities)


def found(of: Snapshot, trend: Trend | None = None) -> list[Problem]:
    made = problems(of, lambda _, __: trend)
    assert all(each.label for each in made)
    return made


def kinds(of: Snapshot, trend: Trend | None = None) -> list[tuple[str, bool]]:
    return [(each.kind, each.is_bad) for each in found(of, trend)]


def steady(depth: float = 0.0, **rates: float) -> Trend:
    return Trend(seconds=300.0, depths=[depth] * 20, **rates)


def test_each_kind_has_alerts() -> None:
    assert ALERTS.keys() == _LABELS.keys()


def test_nothing_is_wrong_with_an_idle_or_a_busy_cluster() -> None:
    assert found(view()) == []
    assert found(view(nsqd(A))) == []
    idle = view(nsqd(A, topic(channel())))
    assert found(idle) == []
    busy = view(nsqd(A, topic(channel(depth=50, client_count=2, in_flight_count=9), depth=3)))
    assert found(busy, steady(50.0, egress=100.0, requeued=1.0, timed_out=0.0)) == []
    assert found(view(nsqd(A, topic(channel(client_count=1, paused=True)))), steady()) == []


def test_no_consumer() -> None:
    (problem,) = found(view(nsqd(A, topic(channel(depth=1234)))))
    assert (problem.kind, problem.is_bad, problem.topic, problem.channel) == ("no_consumers", True, "t", "c")
    assert problem.text == "No consumer is connected, and 1,234 messages wait."
    (problem,) = found(view(nsqd(A, topic(channel(depth=1)))))
    assert problem.text.endswith("and 1 message waits.")


def test_paused() -> None:
    assert kinds(view(nsqd(A, topic(channel(depth=5, paused=True))))) == [("paused", False)]
    assert kinds(view(nsqd(A, topic(channel(), depth=5, paused=True)))) == [("paused", False)]


def test_no_channel() -> None:
    (problem,) = found(view(nsqd(A, topic(depth=7))))
    assert (problem.kind, problem.channel) == ("no_channels", "")
    assert "7 messages wait until the first one is created" in problem.text


def test_growing() -> None:
    served = view(nsqd(A, topic(channel(depth=5000, client_count=1))))
    growing = Trend(seconds=300.0, depths=list(range(3000, 5001, 100)), ingress=20.0, egress=13.0)
    (problem,) = found(served, growing)
    assert (problem.kind, problem.is_bad, problem.weight) == ("growing", True, 5000)
    assert problem.text == (
        "The depth grew by 2,000 over the last 5 min, to 5,000: 20/s came in, 13/s were finished. "
        "At this rate it reaches nsqd's default --mem-queue-size of 10,000 in 12 min."
    )
    unserved = view(nsqd(A, topic(channel(depth=5000))))
    assert kinds(unserved, growing) == [("no_consumers", True)]


@pytest.mark.parametrize(
    "depths",
    [
        [5000.0] * 20,
        [float(5000 - 100 * step) for step in range(20)],
        [0.0, 5000.0] * 10,  # up and down
        [100.0 + step for step in range(20)],  # by too little
        [100_000.0 + 40 * step for step in range(20)],  # by too little for so many
        [0.0, 5000.0],  # too few to tell
    ],
)
def test_not_growing(depths: list[float]) -> None:
    served = view(nsqd(A, topic(channel(depth=5000, client_count=1))))
    assert found(served, Trend(seconds=300.0, depths=depths, egress=9.0)) == []


def test_growth_needs_some_time() -> None:
    served = view(nsqd(A, topic(channel(depth=5000, client_count=1))))
    growing = Trend(seconds=20.0, depths=[0.0, 1000.0, 5000.0], egress=9.0)
    assert found(served, growing) == []


def stopped(seconds: float, pace: float = 0.01) -> Activity:
    """The activity of a channel that finished nothing for so long, and where messages wait."""
    return Activity(0.0, waiting=100.0, finished=NOW - seconds, pace=pace)


def test_stalled() -> None:
    held = nsqd(A, topic(channel(depth=5, client_count=1, in_flight_count=3)))
    (problem,) = found(view(held, activity=stopped(300)))
    assert (problem.kind, problem.is_bad, problem.since) == ("stalled", True, NOW - 300)
    assert problem.text == "Nothing is finished: 5 messages wait, and consumers hold 3 and answer none."
    free = nsqd(A, topic(channel(depth=5, client_count=1)))
    (problem,) = found(view(free, activity=stopped(300)))
    assert problem.text == (
        "Nothing is finished: 5 messages wait, and every consumer has RDY 0: they are paused, are backing "
        "off after failures, or hang."
    )
    (problem,) = found(view(free, activity=Activity(900.0, waiting=900.0)))
    assert (problem.kind, problem.since) == ("stalled", 900.0)


def test_a_lively_channel_that_stops_is_found_within_20_seconds() -> None:
    free = nsqd(A, topic(channel(depth=5, client_count=1)))
    assert kinds(view(free, activity=stopped(20))) == [("stalled", True)]
    assert kinds(view(free, activity=stopped(19))) == []
    assert kinds(view(free, activity=stopped(29), interval=10.0)) == []
    assert kinds(view(free, activity=stopped(30), interval=10.0)) == [("stalled", True)]
    assert kinds(view(free, activity=stopped(100, pace=25.0))) == []  # slow handlers are no stall


def test_a_channel_that_is_idle_on_one_nsqd() -> None:
    busy = nsqd(B, topic(channel(depth=9, client_count=1)))
    moving = Activity(0.0, waiting=100.0, finished=NOW, pace=0.01)
    hung = view(
        nsqd(A, topic(channel(depth=5, client_count=1, in_flight_count=2))),
        busy,
        activity=replace(moving, idle_on={A: NOW - 20, B: NOW - 19}),
    )
    (problem,) = found(hung)
    assert (problem.kind, problem.is_bad, problem.since) == ("nsqd_stalled", True, NOW - 20)
    assert problem.text == (
        "Nothing is finished on a:4151: 5 messages wait, and consumers hold 2 and answer none."
    )
    silent = nsqd(A, topic(channel(depth=5, client_count=1)))
    (problem,) = found(view(silent, busy, activity=replace(moving, idle_on={A: NOW - 60})))
    assert (problem.is_bad, problem.text[-31:]) == (False, "every consumer has RDY 0 there.")
    assert found(view(silent, busy, activity=replace(moving, idle_on={A: NOW - 59}))) == []
    # It is said once if the whole channel is idle.
    whole = replace(stopped(60), idle_on={A: NOW - 60, B: NOW - 60})
    assert kinds(view(silent, busy, activity=whole)) == [("stalled", True)]


def test_messages_that_are_held_without_an_answer() -> None:
    held = nsqd(A, topic(channel(client_count=1, in_flight_count=3)))
    (problem,) = found(view(held, activity=Activity(0.0, holding=NOW - 25)))
    assert (problem.kind, problem.is_bad, problem.since) == ("holding", False, NOW - 25)
    assert problem.text == "Consumers hold 3 messages and answer none: they work long, or hang."
    assert found(view(held, activity=Activity(0.0, holding=NOW - 15))) == []
    unserved = nsqd(B, topic(channel(depth=7)))
    on_both = view(held, unserved, activity=Activity(0.0, holding=NOW - 25))
    assert kinds(on_both) == [("nsqd_without_consumers", True), ("holding", False)]


def failing(kind: str, count: int, began: float, last: float, finished: float = NOW) -> list[Problem]:
    served = nsqd(A, topic(channel(client_count=1)))
    episode = Episode(count, NOW - began, NOW - last)
    activity = Activity(0.0, finished=finished, requeues=episode if kind == "requeues" else None)
    activity = replace(activity, timeouts=episode if kind == "timeouts" else None)
    return found(view(served, activity=activity))


@pytest.mark.parametrize(("kind", "fewest"), [("requeues", 3), ("timeouts", 2)])
def test_failures(kind: str, fewest: int) -> None:
    assert failing(kind, fewest - 1, 60, 0) == []
    (some,) = failing(kind, fewest, 60, 0)
    assert (some.kind, some.is_bad, some.since) == (kind, False, NOW - 60)
    assert math.isnan(some.until)
    assert "other messages are finished meanwhile" in some.text
    (all_of_them,) = failing(kind, fewest, 60, 0, finished=NOW - 90)
    assert all_of_them.is_bad
    assert "nothing was finished meanwhile" in all_of_them.text


@pytest.mark.parametrize("kind", ["requeues", "timeouts"])
def test_failures_that_are_over_are_past_tense_after_two_polls(kind: str) -> None:
    (problem,) = failing(kind, 3000, 71, 11)
    assert (problem.is_bad, problem.since, problem.until) == (False, NOW - 71, NOW - 11)
    assert problem.text.endswith(": 3,000 messages. That is over.")
    (problem,) = failing(kind, 3000, 70, 10)
    assert math.isnan(problem.until)
    assert failing(kind, 3000, 700, 601) == []


def test_one_timeout_a_minute_goes_on() -> None:
    (problem,) = failing("timeouts", 3, 160, 40)
    assert math.isnan(problem.until)


def test_an_ephemeral_channel_that_overflows() -> None:
    name = "c#ephemeral"
    full = view(nsqd(A, topic(channel(name, depth=10_000, client_count=1))))
    (problem,) = found(full, steady(10_000.0, ingress=200.0, egress=198.0))
    assert (problem.kind, problem.is_bad) == ("overflows", True)
    assert "nsqd drops further messages" in problem.text
    assert found(full, replace(steady(), depths=[9_000.0, 10_000.0] * 10, ingress=200.0)) == []
    assert found(full, steady(10_000.0, ingress=0.0)) == []
    lasting = view(nsqd(A, topic(channel(depth=10_000, client_count=1))))
    assert found(lasting, steady(10_000.0, ingress=200.0, egress=198.0)) == []


def test_a_slow_growth_shows_in_an_hour() -> None:
    served = view(nsqd(A, topic(channel(depth=600, client_count=1))))
    hour = Trend(seconds=3600.0, depths=list(range(240, 601, 6)), ingress=1.1, egress=1.0)
    short = Trend(seconds=300.0, depths=[570.0, 580.0, 600.0] * 6, ingress=1.1, egress=1.0)
    (problem,) = problems(served, lambda _, seconds: hour if seconds == 3600 else short)
    assert problem.kind == "growing"
    assert problem.text == (
        "The depth grew by 360 over the last 60 min, to 600: 1.1/s came in, 1.0/s were finished. "
        "At this rate it reaches nsqd's default --mem-queue-size of 10,000 in 26 h."
    )


def test_deferred_messages_without_a_consumer() -> None:
    (problem,) = found(view(nsqd(A, topic(channel(deferred_count=5)))))
    assert (problem.kind, problem.is_bad) == ("no_consumers", False)
    assert problem.text == "No consumer is connected; 5 messages deferred in it will come due."
    assert found(view(nsqd(A, topic(channel(deferred_count=5, client_count=1))))) == []


def test_a_tombstoned_topic_with_messages() -> None:
    hidden = replace(node(A, "t"), tombstoned=("t",))
    made = replace(nsqd(A, topic(channel(depth=3, client_count=1), depth=2)), node=hidden)
    (problem,) = found(view(made, nsqd(B, topic(channel(depth=9, client_count=1)))))
    assert (problem.kind, problem.is_bad, problem.weight) == ("tombstoned", True, 5)
    assert problem.text == (
        "It is tombstoned on a:4151, so consumers do not find it there, where 5 messages wait."
    )
    empty = replace(nsqd(A, topic(channel(client_count=1))), node=hidden)
    assert found(view(empty)) == []


def test_a_channel_that_is_paused_on_one_nsqd_only() -> None:
    paused = channel(depth=5, paused=True, client_count=1)
    (one,) = found(view(nsqd(A, topic(paused)), nsqd(B, topic(channel(depth=7, client_count=1)))))
    assert one.text == ("The channel is paused on a:4151, and 5 messages wait there until it is unpaused.")
    other = nsqd(B, topic(channel(depth=7)))
    assert kinds(view(nsqd(A, topic(paused)), other)) == [("nsqd_without_consumers", True), ("paused", False)]


def test_what_is_not_known_yet() -> None:
    served = nsqd(A, topic(channel(depth=2000, client_count=1)))
    assert unknown(view(served, activity=Activity(NOW - 5, waiting=NOW - 5))) == 1
    assert unknown(view(served, activity=Activity(NOW - 20, waiting=NOW - 20))) == 0
    assert unknown(view(served, activity=Activity(NOW - 5, waiting=NOW - 5, finished=NOW))) == 0
    assert unknown(view(nsqd(A, topic(channel(client_count=1))), activity=Activity(NOW))) == 0
    # Without a consumer, it is known that they wait.
    assert unknown(view(nsqd(A, topic(channel(depth=5))), activity=Activity(NOW))) == 0


def test_a_channel_that_is_missing_on_an_nsqd() -> None:
    missing = view(nsqd(A, topic(channel())), nsqd(B, topic()))
    (problem,) = found(missing)
    assert (problem.kind, problem.is_bad) == ("channel_missing", False)
    assert problem.text.startswith("b:4151 has the topic and not this channel")
    ephemeral = view(nsqd(A, topic(channel("c#ephemeral"))), nsqd(B, topic()))
    assert found(ephemeral) == []


def test_an_nsqd_without_consumers() -> None:
    some = view(nsqd(A, topic(channel(client_count=1))), nsqd(B, topic(channel(depth=9, client_count=0))))
    (problem,) = found(some)
    assert (problem.kind, problem.is_bad) == ("nsqd_without_consumers", True)
    assert problem.text == "No consumer is connected to b:4151, where 9 messages wait."


def test_servers_that_are_down_come_first() -> None:
    lookup = NsqlookupdSurvey(url=LOOKUP, error="refused")
    of = view(
        nsqd(A, error="timed out"),
        nsqd(B, topic(channel(depth=10**9)), health="NOK - disk"),
        lookups=(lookup,),
    )
    assert [(each.kind, each.server) for each in found(of)] == [
        ("nsqlookupd_down", LOOKUP),
        ("nsqd_down", A),
        ("unhealthy", B),
        ("no_consumers", ""),
    ]
    assert "timed out" in found(of)[1].text


def test_an_nsqd_that_nsqlookupds_do_not_know() -> None:
    knows = NsqlookupdSurvey(url=LOOKUP, nodes=(node(A), node(B)))
    some = NsqlookupdSurvey(url=OTHER, nodes=(node(A),))
    (problem,) = found(view(nsqd(A), nsqd(B), lookups=(knows, some)))
    assert (problem.kind, problem.is_bad, problem.server) == ("not_registered", False, B)
    assert problem.text == f"{OTHER} does not know it, so consumers that ask there alone miss it."
    none = NsqlookupdSurvey(url=LOOKUP)
    assert kinds(view(nsqd(B), lookups=(none, replace(none, url=OTHER)))) == [("not_registered", True)]
    # What an nsqlookupd knows that does not answer is not known.
    down = replace(some, error="refused", nodes=())
    assert kinds(view(nsqd(A), lookups=(knows, down))) == [("nsqlookupd_down", True)]


def test_a_topic_that_an_nsqlookupd_does_not_list() -> None:
    lookup = NsqlookupdSurvey(url=LOOKUP, nodes=(node(A, "t"),))
    topics = [topic(name=name) for name in ("t", "u", "v", "w", "x", "y", "z")]
    (problem,) = found(view(nsqd(A, *topics), lookups=(lookup,)))
    assert (problem.kind, problem.weight) == ("topic_not_registered", 6)
    assert "u, v, w and 3 others" in problem.text


def test_registrations_that_cannot_be_used() -> None:
    lookup = NsqlookupdSurvey(url=LOOKUP, unusable=("port 0",))
    assert kinds(view(lookups=(lookup,))) == [("unusable", False)]


def test_the_worst_comes_first() -> None:
    of = view(
        nsqd(
            A,
            topic(channel(depth=1)),
            topic(channel(depth=5), name="u"),
            topic(channel(depth=99, paused=True), name="v"),
        )
    )
    assert [each.topic for each in found(of)] == ["u", "t", "v"]


def test_a_trend_is_made_of_what_is_known() -> None:
    nothing: dict[str, Sequence[float]] = {name: [math.nan] * 3 for name in MEASURES}
    values: dict[str, Sequence[float]] = {
        **nothing,
        "depth": [math.nan, 4.0, 6.0],
        "egress": [math.nan, 1.0, 2.0],
    }
    made = trend(Series([100.0, 115.0, 130.0], values), 140.0)
    assert made is not None
    assert (made.seconds, list(made.depths), made.egress) == (25.0, [4.0, 6.0], 1.5)
    assert math.isnan(made.requeued)
    assert trend(Series([], {name: [] for name in MEASURES}), 140.0) is None
    assert trend(Series([1.0, 2.0, 3.0], nothing), 140.0) is None
