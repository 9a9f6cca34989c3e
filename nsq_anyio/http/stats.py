"""nsqd's statistics: topics, channels, clients and memory, and sums over nsqds. Durations are in seconds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter, is_
from typing import Generic, TypeVar

from .reply import Fields

__all__ = [
    "NO_LATENCY",
    "ChannelStats",
    "ClientStats",
    "Latency",
    "MemoryStats",
    "Percentile",
    "PublishCount",
    "Stats",
    "TopicStats",
]

_TOPIC_COUNTS = ("depth", "backend_depth", "message_count", "message_bytes")
_CHANNEL_COUNTS = (
    "depth",
    "backend_depth",
    "in_flight_count",
    "deferred_count",
    "message_count",
    "requeue_count",
    "timeout_count",
    "client_count",
)
_TOPIC_VALUES = attrgetter(*_TOPIC_COUNTS)
_CHANNEL_VALUES = attrgetter(*_CHANNEL_COUNTS)


@dataclass(frozen=True, slots=True)
class Percentile:
    """The share ``quantile`` (0 to 1) of the messages took ``value`` seconds or less."""

    quantile: float = 0.0
    value: float = 0.0

    @classmethod
    def read(cls, reply: Fields) -> Percentile:
        """Read one element of ``percentiles``."""
        return reply.fill(cls, value=reply.get("value", 0.0) / 1e9)  # nsqd counts nanoseconds


@dataclass(frozen=True, slots=True)
class Latency:
    """The time from the publication of a message to its FIN.

    :ivar percentiles: empty unless nsqd runs with ``--e2e-processing-latency-percentile``
    """

    count: int = 0
    percentiles: tuple[Percentile, ...] = ()

    @classmethod
    def read(cls, reply: Fields) -> Latency:
        """Read ``e2e_processing_latency``."""
        if not reply.has("percentiles"):
            # The usual case. A large cluster has very many of these, so they share one object.
            return cls(count) if (count := reply.get("count", 0)) else NO_LATENCY
        return reply.fill(cls, percentiles=tuple(map(Percentile.read, reply.children("percentiles"))))


NO_LATENCY = Latency()


@dataclass(frozen=True, slots=True)
class PublishCount:
    """How many messages a connection published to a topic."""

    topic: str = ""
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientStats:
    """The connection of a consumer or a producer to nsqd.

    :ivar remote_address: ``host:port``
    :ivar state: 0 new, 1 disconnected, 2 connected, 3 subscribed, 4 closing
    :ivar ready_count: its RDY count
    :ivar message_count: messages sent to it
    :ivar finish_count: messages it finished
    :ivar requeue_count: messages it requeued
    :ivar connect_ts: when it connected, in Unix seconds
    :ivar sample_rate: percentage of the messages it receives; 0 for all
    :ivar pub_counts: the messages that it published, by topic
    """

    client_id: str = ""
    hostname: str = ""
    version: str = ""
    remote_address: str = ""
    state: int = 0
    ready_count: int = 0
    in_flight_count: int = 0
    message_count: int = 0
    finish_count: int = 0
    requeue_count: int = 0
    connect_ts: int = 0
    sample_rate: int = 0
    deflate: bool = False
    snappy: bool = False
    user_agent: str = ""
    authed: bool = False
    auth_identity: str = ""
    auth_identity_url: str = ""
    pub_counts: tuple[PublishCount, ...] = ()
    tls: bool = False
    tls_cipher_suite: str = ""
    tls_version: str = ""
    tls_negotiated_protocol: str = ""
    tls_negotiated_protocol_is_mutual: bool = False

    @classmethod
    def read(cls, reply: Fields) -> ClientStats:
        """Read one element of ``clients`` or of ``producers``."""
        counts = tuple(count.fill(PublishCount) for count in reply.children("pub_counts"))
        return reply.fill(cls, pub_counts=counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelStats:
    """One channel.

    :ivar depth: messages waiting, in memory and on disk
    :ivar backend_depth: messages waiting on disk
    :ivar message_count: all messages that it got from its topic so far
    :ivar client_count: how many consumers it has, even if ``clients`` were not asked for
    """

    channel_name: str = ""
    depth: int = 0
    backend_depth: int = 0
    in_flight_count: int = 0
    deferred_count: int = 0
    message_count: int = 0
    requeue_count: int = 0
    timeout_count: int = 0
    client_count: int = 0
    clients: tuple[ClientStats, ...] = ()
    paused: bool = False
    e2e_processing_latency: Latency = NO_LATENCY

    @classmethod
    def read(cls, reply: Fields) -> ChannelStats:
        """Read one element of ``channels``."""
        clients = tuple(map(ClientStats.read, reply.children("clients")))
        return reply.fill(
            cls,
            clients=clients,
            client_count=reply.get("client_count", len(clients)),
            e2e_processing_latency=Latency.read(reply.child("e2e_processing_latency")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStats:
    """One topic.

    :ivar depth: messages that no channel has taken yet, in memory and on disk
    :ivar backend_depth: the part of ``depth`` that is on disk
    :ivar message_count: all messages published to it so far
    :ivar message_bytes: the size of their bodies in total
    """

    topic_name: str = ""
    channels: tuple[ChannelStats, ...] = ()
    depth: int = 0
    backend_depth: int = 0
    message_count: int = 0
    message_bytes: int = 0
    paused: bool = False
    e2e_processing_latency: Latency = NO_LATENCY

    @classmethod
    def read(cls, reply: Fields) -> TopicStats:
        """Read one element of ``topics``."""
        return reply.fill(
            cls,
            channels=tuple(map(ChannelStats.read, reply.children("channels"))),
            e2e_processing_latency=Latency.read(reply.child("e2e_processing_latency")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStats:
    """nsqd's heap in bytes, and its garbage collector's pauses in microseconds by percentile."""

    heap_objects: int = 0
    heap_idle_bytes: int = 0
    heap_in_use_bytes: int = 0
    heap_released_bytes: int = 0
    gc_pause_usec_100: int = 0
    gc_pause_usec_99: int = 0
    gc_pause_usec_95: int = 0
    next_gc_bytes: int = 0
    gc_total_runs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """The reply of ``/stats`` of one nsqd.

    :ivar health: ``OK``, or ``NOK`` and the reason
    :ivar start_time: in Unix seconds
    :ivar memory: None if it was not asked for
    :ivar producers: connections that published; empty if clients were not asked for
    """

    version: str = ""
    health: str = ""
    start_time: int = 0
    topics: tuple[TopicStats, ...] = ()
    memory: MemoryStats | None = None
    producers: tuple[ClientStats, ...] = ()

    @classmethod
    def read(cls, value: object) -> Stats:
        """Read the reply of ``/stats``."""
        reply = Fields(value, "stats")
        reply.require("topics")
        return reply.fill(
            cls,
            topics=tuple(map(TopicStats.read, reply.children("topics"))),
            memory=reply.child("memory").fill(MemoryStats) if reply.has("memory") else None,
            producers=tuple(map(ClientStats.read, reply.children("producers"))),
        )


StatsT = TypeVar("StatsT", TopicStats, ChannelStats)


@dataclass(frozen=True, slots=True)
class Totals(Generic[StatsT]):
    """The statistics of a topic or channel on all nsqds, and on each.

    :ivar total: the sums, with the clients of all nsqds; paused if it is paused on any nsqd. A latency is the
        largest of any nsqd at that quantile, which is an upper bound for the cluster
    :ivar nodes: the statistics on each nsqd, by its URL; empty if no nsqd has it
    """

    total: StatsT
    nodes: dict[str, StatsT]


def topic_totals(topic: str, nodes: Mapping[str, TopicStats]) -> Totals[TopicStats]:
    """Add up the rows of one topic."""
    rows = list(nodes.values())
    channels: dict[str, list[ChannelStats]] = {}
    for channel in chain.from_iterable(row.channels for row in rows):
        channels.setdefault(channel.channel_name, []).append(channel)
    total = TopicStats(
        topic_name=topic,
        channels=tuple(_channel(name, found) for name, found in sorted(channels.items())),
        paused=any(row.paused for row in rows),
        e2e_processing_latency=_latency(row.e2e_processing_latency for row in rows),
        **_sums(rows, _TOPIC_COUNTS, _TOPIC_VALUES),
    )
    return Totals(total, dict(nodes))


def totals_by_topic(
    nodes: Mapping[str, Iterable[TopicStats]], before: Iterable[Totals[TopicStats]] = ()
) -> tuple[Totals[TopicStats], ...]:
    """Add up the rows of each topic, sorted by topic.

    :param nodes: the rows of each nsqd, by its URL
    :param before: an earlier result; the totals of a topic whose rows are the same objects are reused
    """
    rows: defaultdict[str, dict[str, TopicStats]] = defaultdict(dict)
    for url, topics in nodes.items():
        for row in topics:
            rows[row.topic_name][url] = row
    known = {each.total.topic_name: each for each in before}
    return tuple(
        each if (each := known.get(name)) is not None and _is_of(each, found) else topic_totals(name, found)
        for name, found in sorted(rows.items())
    )


def _is_of(totals: Totals[TopicStats], rows: dict[str, TopicStats]) -> bool:
    nodes = totals.nodes
    return (
        len(nodes) == len(rows)
        and all(map(is_, nodes.values(), rows.values()))
        and nodes.keys() == rows.keys()
    )


def channel_totals(channel: str, nodes: Mapping[str, ChannelStats]) -> Totals[ChannelStats]:
    """Add up the rows of one channel."""
    return Totals(_channel(channel, list(nodes.values())), dict(nodes))


def _channel(name: str, rows: Sequence[ChannelStats]) -> ChannelStats:
    return ChannelStats(
        channel_name=name,
        clients=tuple(chain.from_iterable(row.clients for row in rows)),
        paused=any(row.paused for row in rows),
        e2e_processing_latency=_latency(row.e2e_processing_latency for row in rows),
        **_sums(rows, _CHANNEL_COUNTS, _CHANNEL_VALUES),
    )


def _sums(
    rows: Sequence[object], names: Sequence[str], values: Callable[[object], Iterable[int]]
) -> dict[str, int]:
    columns = zip(*map(values, rows), strict=True) if rows else [()] * len(names)
    return dict(zip(names, map(sum, columns), strict=True))


def _latency(latencies: Iterable[Latency]) -> Latency:
    count = 0
    largest: dict[float, float] = {}
    for latency in latencies:
        if latency is NO_LATENCY:  # the usual case
            continue
        count += latency.count
        for percentile in latency.percentiles:
            known = largest.get(percentile.quantile, 0.0)
            largest[percentile.quantile] = max(known, percentile.value)
    if not count and not largest:
        return NO_LATENCY
    return Latency(count, tuple(Percentile(*item) for item in sorted(largest.items(), reverse=True)))
