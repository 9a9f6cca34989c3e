"""Statistics of a topic or channel over several nsqds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter, is_
from typing import Generic, TypeVar

from .stats import NO_LATENCY, ChannelStats, Latency, Percentile, TopicStats

StatsT = TypeVar("StatsT", TopicStats, ChannelStats)

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
class Totals(Generic[StatsT]):
    """The statistics of a topic or channel on all nsqds, and on each.

    :ivar total: the sums, with the clients of all nsqds; paused if it is paused on any nsqd. A latency is the
        largest of any nsqd at that quantile, which is an upper bound for all
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
    :param before: what this has returned before; a topic whose rows are the same objects is taken from there
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
        if latency is NO_LATENCY:  # as almost always
            continue
        count += latency.count
        for percentile in latency.percentiles:
            known = largest.get(percentile.quantile, 0.0)
            largest[percentile.quantile] = max(known, percentile.value)
    if not count and not largest:
        return NO_LATENCY
    return Latency(count, tuple(Percentile(*item) for item in sorted(largest.items(), reverse=True)))
