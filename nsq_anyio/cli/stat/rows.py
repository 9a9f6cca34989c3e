"""The figures of ``nsq-anyio stat``: sums over all nsqds, and rates between two polls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ...http import ChannelStats, TopicStats, Totals

Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of a channel on one nsqd or on all, or of a topic that has no channel yet."""

    depth: int = 0
    backend_depth: int = 0
    in_flight: int = 0
    deferred: int = 0
    requeued: int = 0
    timed_out: int = 0
    messages: int = 0
    clients: int = 0

    @classmethod
    def of(cls, stats: ChannelStats | TopicStats) -> Counts:
        """Return the counts in nsqd's statistics."""
        if isinstance(stats, TopicStats):
            return cls(depth=stats.depth, backend_depth=stats.backend_depth, messages=stats.message_count)
        return cls(
            depth=stats.depth,
            backend_depth=stats.backend_depth,
            in_flight=stats.in_flight_count,
            deferred=stats.deferred_count,
            requeued=stats.requeue_count,
            timed_out=stats.timeout_count,
            messages=stats.message_count,
            clients=stats.client_count,
        )


@dataclass(frozen=True, slots=True)
class Row:
    """A channel, summed over all nsqds; ``channel`` is empty for a topic without channels.

    :ivar paused: whether it is paused on any nsqd
    :ivar topic_paused: whether its topic is paused, so that no message reaches the channel
    :ivar ingress: messages per second that arrived since the previous poll; None at the first poll
    :ivar egress: messages per second that left the queue since the previous poll; None at the first poll
    """

    topic: str
    channel: str
    counts: Counts
    paused: bool
    topic_paused: bool
    ingress: float | None
    egress: float | None


class Rows:
    """Computes rows from polls.

    Rates count only nsqds that answered both polls and were not restarted in between, so an nsqd that comes
    or goes does not distort them.

    :param channel: the only channel to show; None for all
    """

    def __init__(self, channel: str | None) -> None:
        self._channel = channel
        self._before: dict[Key, Counts] = {}
        self._at: float | None = None

    def of(self, topics: Iterable[Totals[TopicStats]], now: float) -> list[Row]:
        """Return the rows of a poll, sorted.

        :param now: the time of the poll, in seconds
        """
        seconds = None if self._at is None else now - self._at
        rows: list[Row] = []
        counts: dict[Key, Counts] = {}
        for totals in topics:
            for total in _shown(totals.total):
                name = _name(total)
                if self._channel not in (None, name):
                    continue
                nodes = {
                    (url, totals.total.topic_name, name): Counts.of(stats)
                    for url, node in totals.nodes.items()
                    for stats in _shown(node)
                    if _name(stats) == name
                }
                rows.append(
                    Row(
                        totals.total.topic_name,
                        name,
                        Counts.of(total),
                        total.paused,
                        totals.total.paused,
                        *self._rates(nodes, seconds),
                    )
                )
                counts |= nodes
        self._before, self._at = counts, now
        return rows

    def _rates(self, nodes: dict[Key, Counts], seconds: float | None) -> tuple[float | None, float | None]:
        if not seconds:
            return None, None
        came, left = 0, 0
        for key, counts in nodes.items():
            before = self._before.get(key)
            if before is None or counts.messages < before.messages:
                continue
            more = counts.messages - before.messages
            came += more
            left += more - (counts.depth - before.depth)
        return came / seconds, left / seconds


def _shown(topic: TopicStats) -> Iterator[ChannelStats | TopicStats]:
    if topic.channels:
        yield from topic.channels
    else:
        yield topic


def _name(stats: ChannelStats | TopicStats) -> str:
    return stats.channel_name if isinstance(stats, ChannelStats) else ""
