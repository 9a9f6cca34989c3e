"""The tables of a snapshot: rows of topics, channels, nsqds and consumers, with measures and problems.

They are computed once for each snapshot, in a worker thread. Consumers are not part of a snapshot: nsqds are
asked for them when somebody looks at a channel.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...http import ClientStats, Latency, Node, NsqdSurvey, TopicStats, Totals
from ...monitoring import History, Problem, Rates, Snapshot, Trend, problems, trend
from ...monitoring.history import measured
from ...monitoring.last_answers import total_rates
from ...monitoring.snapshot import Key
from ...names import is_ephemeral
from ..api.nsqds import version_key
from ..messages.tail import percent_sent


class Measures(NamedTuple):
    """The values of `nsq_anyio.monitoring.history.MEASURES` for a channel, a topic or the cluster."""

    depth: float
    in_flight: float
    deferred: float
    ingress: float
    egress: float
    requeued: float
    timed_out: float


NOTHING = Measures(0, 0, 0, math.nan, math.nan, math.nan, math.nan)
"""Placeholder: nothing waits, and all rates are unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """A row for one nsqd; the figures of its statistics are NaN if it did not answer.

    :ivar name: ``host:port`` of its HTTP API, as in the path of its page
    :ivar error: why it did not answer; empty if it did
    :ivar seconds: how long its answer took
    :ivar up: its uptime in seconds
    :ivar rates: its rates since its last answer
    :ivar known_to: how many nsqlookupds list it, of ``lookups``
    :ivar is_outdated: whether another nsqd has a newer version
    """

    node: Node
    name: str
    error: str
    health: str
    version: str
    seconds: float
    started: float
    up: float
    topics: float
    channels: float
    clients: float
    depth: float
    in_flight: float
    messages: float
    rates: Rates
    known_to: int
    lookups: int
    is_outdated: bool
    problems: Sequence[Problem]

    @property
    def level(self) -> str:
        """``bad`` or ``warn`` if there is a problem; otherwise nothing."""
        if not self.problems:
            return ""
        return "bad" if any(each.is_bad for each in self.problems) else "warn"


def node_rows(snapshot: Snapshot, problems: Mapping[str, Sequence[Problem]]) -> list[NodeRow]:
    """Return a row for each nsqd, sorted by host name.

    :param problems: by the URL of the nsqd
    """
    survey = snapshot.survey
    versions = {each.node.url: each.stats.version or each.node.version for each in survey.nsqds}
    newest = max(map(version_key, versions.values()), default=())
    known = [{node.url for node in each.nodes} for each in survey.nsqlookupds if not each.error]
    return [
        _row(
            each,
            total_rates(each, snapshot.last_answers.get(each.node.url)),
            survey.time,
            versions[each.node.url],
            version_key(versions[each.node.url]) < newest,
            sum(each.node.url in urls for urls in known),
            len(known),
            problems.get(each.node.url, ()),
        )
        for each in survey.nsqds
    ]


def _row(
    nsqd: NsqdSurvey,
    rates: Rates,
    now: float,
    version: str,
    is_outdated: bool,
    known_to: int,
    lookups: int,
    problems: Sequence[Problem],
) -> NodeRow:
    stats, node = nsqd.stats, nsqd.node
    channels = [channel for topic in stats.topics for channel in topic.channels]
    unknown = math.nan if nsqd.error else 0.0
    return NodeRow(
        node=node,
        name=shown_name(node),
        error=nsqd.error,
        health=stats.health,
        version=version,
        seconds=nsqd.seconds,
        started=stats.start_time or math.nan,
        up=now - stats.start_time if stats.start_time else math.nan,
        topics=unknown + len(stats.topics),
        channels=unknown + len(channels),
        clients=unknown + sum(each.client_count for each in channels),
        depth=unknown + sum(each.depth for each in channels) + sum(each.depth for each in stats.topics),
        in_flight=unknown + sum(each.in_flight_count for each in channels),
        messages=unknown + sum(topic.message_count for topic in stats.topics),
        rates=rates,
        known_to=known_to,
        lookups=lookups,
        is_outdated=is_outdated,
        problems=problems,
    )


def shown_name(node: Node) -> str:
    """Return the name of an nsqd; the host and port of its URL if it never answered."""
    return node.name if node.broadcast_address else node.url.partition("://")[2].rstrip("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A topic or a channel over all nsqds.

    :ivar channel: empty for a topic
    :ivar measures: depth, rates and so on; a topic's depth includes that of its channels
    :ivar on_disk: how many waiting messages are on disk
    :ivar messages: messages received so far
    :ivar size: the size of their bodies in bytes; 0 for a channel
    :ivar waiting: a topic's own depth, without its channels'; 0 for a channel
    :ivar channels: how many channels a topic has; 0 for a channel
    :ivar nsqds: how many nsqds have it
    :ivar paused_on: on how many of these it is paused
    :ivar paused_channels: how many channels of a topic are paused, on any nsqd; 0 for a channel
    :ivar clients: how many consumers are connected
    :ivar problems: its problems; a topic's include those of its channels
    """

    topic: str
    channel: str
    measures: Measures
    on_disk: int
    messages: int
    size: int
    waiting: int
    channels: int
    nsqds: int
    paused_on: int
    paused_channels: int
    clients: int
    latency: Latency
    problems: Sequence[Problem]

    @property
    def name(self) -> str:
        """The channel's name; for a topic row, the topic's."""
        return self.channel or self.topic

    @property
    def is_paused(self) -> bool:
        """Whether it is paused on any nsqd."""
        return self.paused_on > 0

    @property
    def is_ephemeral(self) -> bool:
        """Whether nsqd deletes a channel with its last consumer, or a topic with its last channel."""
        return is_ephemeral(self.name)

    @property
    def level(self) -> str:
        """``bad`` or ``warn`` if there is a problem; otherwise nothing."""
        if not self.problems:
            return ""
        return "bad" if any(each.is_bad for each in self.problems) else "warn"


def topic_row(totals: Totals[TopicStats], measures: Measures, problems: Sequence[Problem]) -> Row:
    """Return the row of a topic."""
    topic = totals.total
    return Row(
        topic=topic.topic_name,
        channel="",
        measures=measures,
        on_disk=topic.backend_depth + sum(channel.backend_depth for channel in topic.channels),
        messages=topic.message_count,
        size=topic.message_bytes,
        waiting=topic.depth,
        channels=len(topic.channels),
        nsqds=len(totals.nodes),
        paused_on=sum(row.paused for row in totals.nodes.values()),
        paused_channels=sum(channel.paused for channel in topic.channels),
        clients=sum(channel.client_count for channel in topic.channels),
        latency=topic.e2e_processing_latency,
        problems=problems,
    )


def channel_rows(
    totals: Totals[TopicStats], measures: Mapping[Key, Measures], problems: Mapping[Key, Sequence[Problem]]
) -> list[Row]:
    """Return the rows of the channels of a topic."""
    topic = totals.total.topic_name
    held = [channel for row in totals.nodes.values() for channel in row.channels]
    holders = Counter(channel.channel_name for channel in held)
    paused = Counter(channel.channel_name for channel in held if channel.paused)
    return [
        Row(
            topic=topic,
            channel=channel.channel_name,
            measures=measures.get((topic, channel.channel_name), NOTHING),
            on_disk=channel.backend_depth,
            messages=channel.message_count,
            size=0,
            waiting=0,
            channels=0,
            nsqds=holders[channel.channel_name],
            paused_on=paused[channel.channel_name],
            paused_channels=0,
            clients=channel.client_count,
            latency=channel.e2e_processing_latency,
            problems=problems.get((topic, channel.channel_name), ()),
        )
        for channel in totals.total.channels
    ]


@dataclass(frozen=True, slots=True)
class ConsumerRow:
    """A consumer that is connected to one nsqd.

    :ivar nsqd: the name of the nsqd
    """

    stats: ClientStats
    nsqd: str

    @property
    def percent_sent(self) -> int:
        """The percentage of the channel's messages that nsqd does not discard before it sends them."""
        return percent_sent(self.stats.sample_rate)

    @property
    def title(self) -> str:
        """Its host name, or else its id or address."""
        return self.stats.hostname or self.stats.client_id or self.stats.remote_address

    def text(self) -> str:
        """Return the text that is searched."""
        stats = self.stats
        words = stats.hostname, stats.client_id, stats.remote_address, stats.user_agent, stats.auth_identity
        return " ".join((*words, self.nsqd))


@dataclass(frozen=True, slots=True)
class Consumers:
    """The consumers of a channel.

    :ivar unheard: the names of the nsqds that did not answer
    """

    consumers: Sequence[ConsumerRow]
    unheard: Sequence[str]

    @property
    def ready(self) -> int:
        """The sum of their RDY counts."""
        return sum(each.stats.ready_count for each in self.consumers)


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of a snapshot, which all pages share.

    :ivar cluster: the measures of the whole cluster
    :ivar topics: the row of each topic, by its name
    :ivar channels: the rows of the channels of each topic, by its name
    :ivar totals: the statistics of each topic, by its name
    :ivar nodes: the rows of all nsqds
    :ivar problems: all problems, the worst first
    """

    snapshot: Snapshot
    cluster: Measures
    topics: Mapping[str, Row]
    channels: Mapping[str, Sequence[Row]]
    totals: Mapping[str, Totals[TopicStats]]
    nodes: Sequence[NodeRow]
    problems: Sequence[Problem]


def make_tables(snapshot: Snapshot, history: History) -> Tables:
    """Compute the tables of a snapshot."""
    now = snapshot.survey.time

    def trend_of(key: Key, seconds: float) -> Trend | None:
        return trend(history.recent(*key, seconds=seconds), now)

    found = problems(snapshot, trend_of)
    of_topic: dict[str, list[Problem]] = {}
    of_key: dict[Key, list[Problem]] = {}
    of_server: dict[str, list[Problem]] = {}
    for each in found:
        if each.server:
            of_server.setdefault(each.server, []).append(each)
        else:
            of_topic.setdefault(each.topic, []).append(each)
            of_key.setdefault((each.topic, each.channel), []).append(each)
    measures = {key: Measures(*values) for key, values in measured(snapshot)}
    totals = {each.total.topic_name: each for each in snapshot.topics}
    return Tables(
        snapshot=snapshot,
        cluster=measures.get(("", ""), NOTHING),
        topics={
            name: topic_row(each, measures.get((name, ""), NOTHING), of_topic.get(name, ()))
            for name, each in totals.items()
        },
        channels={name: channel_rows(each, measures, of_key) for name, each in totals.items()},
        totals=totals,
        nodes=node_rows(snapshot, of_server),
        problems=found,
    )
