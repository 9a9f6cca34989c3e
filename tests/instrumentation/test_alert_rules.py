"""Situations of a cluster, with what the dashboard and the alerts make of each.

The series of a situation are those of the collector, poll by poll; promtool runs the rules over them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, cast

import pytest

from nsq_anyio.http import ChannelStats, Node, NsqdSurvey, NsqlookupdSurvey, Stats, Survey, TopicStats
from nsq_anyio.instrumentation.prometheus import ClusterCollector
from nsq_anyio.monitoring import History, Meter, Poller, Snapshot, Trend, problems, trend
from nsq_anyio.monitoring.activity import Activities
from nsq_anyio.monitoring.health import ALERTS
from nsq_anyio.monitoring.snapshot import Key

from ..generated_pages import DOCS, docs_module
from ..promtool import promtool

STEP = 30.0
"""Seconds between polls, and between scrapes."""

rules = docs_module("alert_rules")
RULES = {rule.name: rule for group in rules.GROUPS.values() for rule in group}
LOOKUP = "http://l:4161"

At: TypeAlias = float | Callable[[float], float]
"""A figure, or a function that returns it at a minute."""


def at(minute: float, value: At) -> int:
    return int(value(minute) if callable(value) else value)


@dataclass(frozen=True, kw_only=True)
class Channel:
    """A channel on one nsqd. By default it gets 600 messages a minute, and all of them are finished."""

    name: str = "c"
    got: At = lambda minute: 600 * minute
    depth: At = 0
    in_flight: At = 0
    deferred: At = 0
    requeued: At = 0
    timed_out: At = 0
    clients: At = 1
    paused: At = 0

    def stats(self, minute: float) -> ChannelStats:
        backlog = sum(at(minute, each) for each in (self.depth, self.in_flight, self.deferred))
        return ChannelStats(
            channel_name=self.name,
            depth=at(minute, self.depth),
            in_flight_count=at(minute, self.in_flight),
            deferred_count=at(minute, self.deferred),
            message_count=max(at(minute, self.got), backlog),
            requeue_count=at(minute, self.requeued),
            timeout_count=at(minute, self.timed_out),
            client_count=at(minute, self.clients),
            paused=bool(at(minute, self.paused)),
        )


@dataclass(frozen=True, kw_only=True)
class Nsqd:
    """An nsqd with one topic."""

    host: str = "a"
    channels: Sequence[Channel] = (Channel(),)
    depth: At = 0
    paused: At = 0
    tombstoned: At = 0
    up: At = 1
    known: At = 1
    named: At = 1
    registered: At = 1
    topics_registered: At = 1
    health: str = "OK"

    def survey(self, minute: float) -> NsqdSurvey:
        topic = TopicStats(
            topic_name="t",
            channels=tuple(channel.stats(minute) for channel in self.channels),
            depth=at(minute, self.depth),
            message_count=at(minute, self.depth) + 1000,
            paused=bool(at(minute, self.paused)),
        )
        node = Node(
            url=f"http://{self.host}:4151",
            broadcast_address=self.host,
            tcp_port=4150 if at(minute, self.named) else 0,
            http_port=4151,
            topics=("t",) if at(minute, self.topics_registered) else (),
            tombstoned=("t",) if at(minute, self.tombstoned) else (),
            nsqlookupds=(LOOKUP,),
        )
        if not at(minute, self.up):
            return NsqdSurvey(node=node, error="connection refused")
        return NsqdSurvey(node=node, stats=Stats(health=self.health, start_time=1, topics=(topic,)))


@dataclass(frozen=True)
class Alert:
    """An alert that fires, with its summary."""

    name: str
    summary: str
    labels: dict[str, str] = field(default_factory=lambda: {"topic": "t", "channel": "c"})


@dataclass(frozen=True, kw_only=True)
class Situation:
    """What happens, minute by minute, and what is said about it at the last one."""

    name: str
    nsqds: Sequence[Nsqd] = (Nsqd(),)
    minutes: int
    kinds: frozenset[str]
    alerts: tuple[Alert, ...]
    lookup_is_up: bool = True
    unusable: tuple[str, ...] = ()

    def survey(self, minute: float) -> Survey:
        found = [nsqd.survey(minute) for nsqd in self.nsqds if at(minute, nsqd.known)]
        registered = [
            each.node
            for nsqd, each in zip([nsqd for nsqd in self.nsqds if at(minute, nsqd.known)], found, strict=True)
            if at(minute, nsqd.registered)
        ]
        lookup = NsqlookupdSurvey(url=LOOKUP, nodes=tuple(registered), unusable=self.unusable)
        if not self.lookup_is_up:
            lookup = NsqlookupdSurvey(url=LOOKUP, error="connection refused")
        return Survey(time=60 * minute, seconds=0.1, nsqlookupds=(lookup,), nsqds=tuple(found))


def situation(
    name: str,
    minutes: int,
    kinds: Iterable[str],
    *alerts: Alert,
    channel: Channel | None = None,
    **others: Any,
) -> Situation:
    if channel is not None:
        others["nsqds"] = (Nsqd(channels=(channel,)),)
    return Situation(name=name, minutes=minutes, kinds=frozenset(kinds), alerts=alerts, **others)


def on(nsqd: str) -> dict[str, str]:
    return {"topic": "t", "channel": "c", "nsqd": nsqd}


TOPIC = {"topic": "t"}
LOOKUPD = {"nsqlookupd": LOOKUP}
HUNG = "500 messages wait in t/c, and its consumers have finished none for 5 minutes"
DOWN = Alert("NsqdDown", "nsqd b:4150 does not answer", {"nsqd": "b:4150"})
SITUATIONS = [
    situation(
        "hung consumers, a steady depth",
        7,
        ["stalled"],
        Alert("NsqChannelStalled", HUNG),
        channel=Channel(got=9000, depth=500, in_flight=20, clients=2),
    ),
    situation(
        "consumers that hold all messages and answer none",
        7,
        ["holding"],
        Alert(
            "NsqChannelUnanswered", "Consumers of t/c hold 20 messages, and have answered none for 5 minutes"
        ),
        channel=Channel(got=9000, in_flight=20, clients=2),
    ),
    situation(
        "a poison message that times out once a minute",
        12,
        ["timeouts"],
        Alert("NsqChannelTimeouts", "5 messages of t/c have timed out in 5 minutes"),
        channel=Channel(got=9000, in_flight=1, timed_out=lambda minute: minute),
    ),
    situation(
        "a poison message among good ones",
        12,
        ["requeues"],
        Alert("NsqChannelRequeues", "Consumers of t/c have requeued 10 messages in 5 minutes"),
        channel=Channel(deferred=1, requeued=lambda minute: 2 * minute),
    ),
    situation(
        "handlers that always fail",
        12,
        ["requeues", "stalled"],
        Alert("NsqChannelRequeues", "Consumers of t/c have requeued 1k messages in 5 minutes"),
        Alert("NsqChannelFails", "Consumers of t/c have requeued 1k messages in 5 minutes"),
        Alert("NsqChannelStalled", HUNG),
        channel=Channel(got=9000, depth=500, deferred=100, requeued=lambda minute: 200 * minute),
    ),
    situation(
        "RDY 0 of all consumers",
        7,
        ["stalled"],
        Alert("NsqChannelStalled", HUNG),
        channel=Channel(got=9000, depth=500, clients=3),
    ),
    situation(
        "deferred messages without a consumer",
        7,
        ["no_consumers"],
        Alert("NsqChannelWithoutConsumers", "50 messages wait in t/c, and nobody consumes them"),
        channel=Channel(got=9000, deferred=50, clients=0),
    ),
    situation(
        "messages without a consumer",
        7,
        ["no_consumers"],
        Alert("NsqChannelWithoutConsumers", "6 messages wait in t/c, and nobody consumes them"),
        channel=Channel(got=9000, depth=6, clients=0),
    ),
    situation(
        "an ephemeral channel that overflows",
        9,
        ["overflows"],
        Alert(
            "NsqChannelOverflows",
            "t/c#ephemeral is full with 10k messages, and nsqd drops others",
            {"topic": "t", "channel": "c#ephemeral"},
        ),
        channel=Channel(name="c#ephemeral", got=lambda minute: 20_000 + 12_000 * minute, depth=10_000),
    ),
    situation(
        "6 a minute for hours",
        120,
        ["growing"],
        Alert("NsqChannelBacklogGrowsSlowly", "The depth of t/c has grown by 360 messages in 60 minutes"),
        channel=Channel(depth=lambda minute: 6 * minute),
    ),
    situation(
        "100 a minute",
        20,
        ["growing"],
        Alert("NsqChannelBacklogGrows", "The depth of t/c has grown by 500 messages in 5 minutes"),
        channel=Channel(depth=lambda minute: 100 * minute),
    ),
    situation(
        "30 a minute on one of two nsqds",
        20,
        ["growing"],
        Alert("NsqChannelBacklogGrows", "The depth of t/c has grown by 150 messages in 5 minutes"),
        nsqds=(Nsqd(), Nsqd(host="b", channels=(Channel(depth=lambda minute: 30 * minute),))),
    ),
    situation(
        "messages on an nsqd without a consumer, and idle consumers elsewhere",
        12,
        ["nsqd_without_consumers"],
        Alert(
            "NsqNsqdWithoutConsumers",
            "50 messages wait in t/c on nsqd b:4150, which no consumer is connected to",
            on("b:4150"),
        ),
        nsqds=(
            Nsqd(channels=(Channel(got=100),)),
            Nsqd(host="b", channels=(Channel(got=50, depth=50, clients=0),)),
        ),
    ),
    situation(
        "consumers that hang, and a pause on an nsqd without messages",
        12,
        ["stalled"],
        Alert(
            "NsqChannelStalled",
            "50 messages wait in t/c, and its consumers have finished none for 5 minutes",
        ),
        nsqds=(
            Nsqd(channels=(Channel(got=60, depth=50, in_flight=10),)),
            Nsqd(host="b", channels=(Channel(got=0, paused=1),)),
        ),
    ),
    situation(
        "consumers that hang on one of two nsqds",
        12,
        ["nsqd_stalled"],
        Alert(
            "NsqNsqdStalled",
            "50 messages wait in t/c on nsqd b:4150, whose consumers have finished none for 5 minutes",
            on("b:4150"),
        ),
        nsqds=(Nsqd(), Nsqd(host="b", channels=(Channel(got=60, depth=50, in_flight=10),))),
    ),
    situation(
        "30 a minute on one of two nsqds, without a consumer there",
        20,
        ["growing", "nsqd_without_consumers"],
        Alert("NsqChannelBacklogGrows", "The depth of t/c has grown by 150 messages in 5 minutes"),
        Alert(
            "NsqNsqdWithoutConsumers",
            "600 messages wait in t/c on nsqd b:4150, which no consumer is connected to",
            on("b:4150"),
        ),
        nsqds=(
            Nsqd(),
            Nsqd(
                host="b",
                channels=(
                    Channel(clients=0, got=lambda minute: 30 * minute, depth=lambda minute: 30 * minute),
                ),
            ),
        ),
    ),
    situation(
        "a tombstoned topic with messages",
        6,
        ["tombstoned"],
        Alert(
            "NsqTopicTombstoned",
            "Topic t is tombstoned on nsqd b:4150, where 5 messages wait",
            {"topic": "t", "nsqd": "b:4150"},
        ),
        nsqds=(
            Nsqd(),
            Nsqd(host="b", depth=2, tombstoned=lambda minute: minute > 5, channels=(Channel(depth=3),)),
        ),
    ),
    situation(
        "a channel that is paused on one nsqd only",
        20,
        ["paused"],
        Alert("NsqChannelPaused", "t/c is paused on one nsqd or more, where 2k messages wait"),
        nsqds=(
            Nsqd(),
            Nsqd(host="b", channels=(Channel(paused=1, depth=lambda minute: 100 * minute),)),
        ),
    ),
    situation(
        "a lively channel that stops",
        16,
        ["stalled"],
        Alert(
            "NsqChannelStalled",
            "3.6k messages wait in t/c, and its consumers have finished none for 5 minutes",
        ),
        channel=Channel(depth=lambda minute: 600 * max(minute - 10, 0)),
    ),
    situation(
        "a paused topic with millions of messages",
        20,
        ["paused"],
        Alert("NsqTopicPaused", "Topic t is paused, and 2.02M messages wait in it", TOPIC),
        nsqds=(Nsqd(paused=1, depth=lambda minute: 2_000_000 + 1000 * minute),),
    ),
    situation(
        "a topic without channels",
        65,
        ["no_channels"],
        Alert("NsqTopicWithoutChannels", "Topic t has messages and no channel", TOPIC),
        nsqds=(Nsqd(channels=(), depth=7),),
    ),
    situation(
        "a channel that one of three nsqds does not have",
        20,
        ["channel_missing"],
        Alert("NsqChannelMissing", "1 nsqds have the topic of t/c, and not the channel"),
        nsqds=(Nsqd(), Nsqd(host="b"), Nsqd(host="x", channels=())),
    ),
    situation(
        "an nsqd that does not answer",
        14,
        ["nsqd_down"],
        DOWN,
        nsqds=(Nsqd(), Nsqd(host="b", up=lambda minute: minute < 10)),
    ),
    situation(
        "an nsqd that has not answered for so long that it is no longer asked",
        180,
        [],
        DOWN,
        nsqds=(Nsqd(), Nsqd(host="b", up=lambda minute: minute < 10, known=lambda minute: minute < 70)),
    ),
    situation(
        "an nsqd that answers again after it was no longer asked",
        120,
        [],
        nsqds=(
            Nsqd(),
            Nsqd(
                host="b",
                up=lambda minute: minute < 10 or minute > 110,
                known=lambda minute: minute < 70 or minute > 110,
            ),
        ),
    ),
    situation(
        "an nsqd whose name is known since it answers",
        30,
        [],
        nsqds=(Nsqd(up=lambda minute: minute > 10, named=lambda minute: minute > 10),),
    ),
    situation(
        "an nsqd that cannot write",
        5,
        ["unhealthy"],
        Alert("NsqdUnhealthy", "nsqd a:4150 says that it is not healthy", {"nsqd": "a:4150"}),
        nsqds=(Nsqd(health="NOK - no space left on device"),),
    ),
    situation(
        "an nsqd that is not registered",
        8,
        ["not_registered"],
        Alert(
            "NsqdNotRegistered",
            f"nsqlookupd {LOOKUP} does not know nsqd a:4150",
            {"nsqd": "a:4150", **LOOKUPD},
        ),
        nsqds=(Nsqd(registered=0),),
    ),
    situation(
        "a topic that is not registered",
        8,
        ["topic_not_registered"],
        Alert(
            "NsqTopicsNotRegistered",
            f"nsqlookupd {LOOKUP} misses 1 topics of nsqd a:4150",
            {"nsqd": "a:4150", **LOOKUPD},
        ),
        nsqds=(Nsqd(topics_registered=0),),
    ),
    situation(
        "an nsqlookupd that does not answer",
        5,
        ["nsqlookupd_down"],
        Alert("NsqlookupdDown", f"nsqlookupd {LOOKUP} does not answer", LOOKUPD),
        lookup_is_up=False,
    ),
    situation(
        "an nsqd that registered no usable address",
        8,
        ["unusable"],
        Alert("NsqdUnusable", f"1 nsqds have registered no usable address at nsqlookupd {LOOKUP}", LOOKUPD),
        unusable=("no host",),
    ),
]


def burst(minute: float) -> float:
    """The depth of 20,000 messages that came at once at minute 30, and take 5 minutes."""
    return max(20_000 - 4000 * (minute - 30), 0) if minute >= 30 else 0


BUSY = situation(
    "a busy, healthy cluster",
    90,
    [],
    nsqds=[
        Nsqd(
            host=host,
            depth=lambda minute: 3 * minute % 7,
            channels=(
                # Fetched in batches, by a consumer that was killed once, and failed once.
                Channel(
                    got=lambda minute: 1200 * minute,
                    depth=lambda minute: 900 * minute % 2000,
                    in_flight=50,
                    timed_out=lambda minute: 40 if minute > 20 else 0,
                    requeued=lambda minute: 1 if minute > 40 else 0,
                    clients=4,
                ),
                Channel(
                    name="d", depth=burst, got=lambda minute: 60 * minute + (20_000 if minute >= 30 else 0)
                ),
                # Idle, paused while it is empty, and one that finishes a message every other minute.
                Channel(name="e", got=100),
                Channel(name="f", got=100, paused=1),
                Channel(
                    name="g", got=lambda minute: 100 + minute / 2, in_flight=lambda minute: minute % 2 >= 1
                ),
                Channel(name="h#ephemeral", depth=lambda minute: 70 * minute % 150),
            ),
        )
        for host in ("a", "b", "x")
    ],
)


@dataclass
class Polled:
    """A poller's last snapshot."""

    last: Snapshot | None = None


def observed(of: Situation) -> tuple[set[str], list[dict[str, str]]]:
    """Return what the dashboard finds at the last minute, and all series, as promtool reads them."""
    meter, activities, history, polled = Meter(), Activities(), History(interval=STEP), Polled()
    collector = ClusterCollector(cast(Poller, polled))
    polls = int(of.minutes * 60 / STEP) + 1
    series: defaultdict[str, list[str]] = defaultdict(lambda: ["_"] * polls)
    for number in range(polls):
        survey = of.survey(number * STEP / 60)
        topics = survey.topics()
        figures = meter.update(survey, survey.time, topics)
        found = activities.update(topics, figures, survey.time)
        polled.last = Snapshot(number, survey, figures, topics, STEP, activities=found)
        history.record(polled.last)
        for family in collector.collect():
            for sample in family.samples:
                labels = ",".join(f"{name}={json.dumps(value)}" for name, value in sample.labels.items())
                series[f"{sample.name}{{{labels}}}"][number] = repr(float(sample.value))
    assert polled.last is not None

    def trend_of(key: Key, seconds: float) -> Trend | None:
        return trend(history.recent(*key, seconds=seconds), 60.0 * of.minutes)

    kinds = {problem.kind for problem in problems(polled.last, trend_of)}
    return kinds, [{"series": name, "values": " ".join(values)} for name, values in series.items()]


def test_the_rules_are_valid() -> None:
    promtool("check", "rules", "--lint=all", "--lint-fatal", str(DOCS / "prometheus-alerts.yml"))


def test_each_kind_of_problem_has_its_alerts_and_each_alert_its_kind() -> None:
    named = [name for names in ALERTS.values() for name in names]
    assert len(set(named)) == len(named)
    assert all(ALERTS.values())
    assert {*named, *rules.NO_PROBLEM} == RULES.keys()
    assert rules.NO_PROBLEM.keys().isdisjoint(named)


def test_each_kind_and_each_of_its_alerts_has_a_situation() -> None:
    assert {kind for each in SITUATIONS for kind in each.kinds} == ALERTS.keys()
    fired = {alert.name for each in SITUATIONS for alert in each.alerts}
    assert fired == RULES.keys() - rules.NO_PROBLEM.keys()


@pytest.mark.parametrize("of", [*SITUATIONS, BUSY], ids=lambda of: of.name)
def test_the_dashboard_and_the_alerts_agree(of: Situation, tmp_path: Path) -> None:
    kinds, series = observed(of)
    assert kinds == of.kinds
    for alert in of.alerts if kinds else ():
        assert any(alert.name in ALERTS[kind] for kind in kinds)
    assert all(any(alert.name in ALERTS[kind] for alert in of.alerts) for kind in kinds)
    tests = [
        {
            "eval_time": f"{of.minutes}m",
            "alertname": name,
            "exp_alerts": [
                {
                    "exp_labels": {"severity": rule.severity, **alert.labels},
                    "exp_annotations": {"summary": alert.summary, "description": rule.description},
                }
                for alert in of.alerts
                if alert.name == name
            ],
        }
        for name, rule in RULES.items()
    ]
    if of is BUSY:
        tests = [{**each, "eval_time": f"{minute}m"} for minute in range(91) for each in tests]
    check = {
        "rule_files": [str(DOCS / "prometheus-alerts.yml")],
        "evaluation_interval": "30s",
        "tests": [{"interval": f"{STEP:.0f}s", "input_series": series, "alert_rule_test": tests}],
    }
    path = tmp_path / "alerts.test.yml"
    path.write_text(json.dumps(check), "utf-8")  # JSON is YAML
    promtool("test", "rules", str(path))


def test_the_alerts_that_are_for_no_kind_of_problem(tmp_path: Path) -> None:
    """Each fires for series of its own, ten minutes long."""
    series = {
        "NsqdRestarted": ('nsq_nsqd_start_time_seconds{nsqd="a:4150"}', "1x10 2x10"),
        "NsqDeadLetters": ('nsq_topic_depth_messages{topic="t.dead",nsqd="a:4150"}', "3x20"),
        "NsqExporterStale": ("nsq_exporter_survey_time_seconds", "1x20"),
        "NsqExporterAbsent": ("nsq_nsqd_up", "1x20"),
        "NsqExporterLeavesOut": ("nsq_exporter_left_out_channels", "1x20"),
    }
    assert series.keys() == rules.NO_PROBLEM.keys()
    tests = [
        {
            "interval": "30s",
            "input_series": [{"series": name, "values": values}],
            "promql_expr_test": [
                {
                    "expr": f"count(ALERTS{{alertname='{alert}',alertstate='firing'}})",
                    "eval_time": "10m",
                    "exp_samples": [{"labels": "{}", "value": 1}],
                }
            ],
        }
        for alert, (name, values) in series.items()
    ]
    check = {
        "rule_files": [str(DOCS / "prometheus-alerts.yml")],
        "evaluation_interval": "30s",
        "tests": tests,
    }
    path = tmp_path / "alerts.test.yml"
    path.write_text(json.dumps(check), "utf-8")
    promtool("test", "rules", str(path))
