"""Rates and sums of the counters of nsqds, which begin at zero when an nsqd restarts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ..http import ChannelStats, NsqdSurvey, Survey, TopicStats

__all__ = ["Counts", "Figures", "Key", "Meter", "Rates"]

Key = tuple[str, str]
"""A topic and a channel; the channel is empty for the topic itself."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of messages, over all nsqds.

    :ivar messages: messages that came
    :ivar message_bytes: the size of their bodies; only of topics
    :ivar requeued: messages requeued; only of channels
    :ivar timed_out: messages timed out; only of channels
    """

    messages: int = 0
    message_bytes: int = 0
    requeued: int = 0
    timed_out: int = 0


@dataclass(frozen=True, slots=True)
class Rates:
    """Messages per second, over all nsqds; never negative.

    :ivar ingress: messages that came
    :ivar egress: messages that left for good: that consumers finished, or that were thrown away; of a topic,
        those that its channels took
    :ivar requeued: messages requeued; 0 for topics
    :ivar timed_out: messages timed out; 0 for topics
    """

    ingress: float = 0.0
    egress: float = 0.0
    requeued: float = 0.0
    timed_out: float = 0.0


@dataclass(frozen=True, slots=True)
class Figures:
    """What a `Meter` knows after a survey, by topic and channel; the channel is empty for the topic itself.

    :ivar rates: since the last answer of each nsqd; nothing for what no nsqd has told twice
    :ivar sums: the counters over all nsqds. They never decrease while any nsqd has the topic or channel
    """

    rates: dict[Key, Rates] = field(default_factory=dict[Key, Rates])
    sums: dict[Key, Counts] = field(default_factory=dict[Key, Counts])


class _Last(NamedTuple):
    """The last answer of an nsqd."""

    rows: dict[Key, TopicStats | ChannelStats]
    start_time: int
    at: float


class Meter:
    """Computes rates, and sums that never decrease, from successive surveys.

    An nsqd counts from the second survey that it answers, and its counters begin at zero when it restarts, so
    one that comes, goes or restarts distorts nothing. Only the last answer is kept of each nsqd that the last
    survey has.
    """

    def __init__(self) -> None:
        self._last: dict[str, _Last] = {}
        self._sums: dict[Key, list[int]] = {}

    def update(self, survey: Survey, now: float) -> Figures:
        """Take in a survey, and return the figures.

        :param now: when its answers came, in seconds, by a clock that never goes back
        """
        last: dict[str, _Last] = {}
        rates: dict[Key, list[float]] = {}
        sums: dict[Key, list[int]] = {}
        for each in survey.nsqds:
            before = self._last.get(each.node.url)
            if each.error:
                if before is not None:
                    last[each.node.url] = before
                    self._keep(before, sums)
                continue
            current = _Last(dict(_rows(each)), each.stats.start_time, now)
            last[each.node.url] = current
            self._keep(current, sums)
            if before is not None:
                _advance(before, current, sums, rates)
            else:
                self._begin(current, sums)
        self._last, self._sums = last, sums
        return Figures(
            {key: Rates(*values) for key, values in rates.items()},
            {key: Counts(*values) for key, values in sums.items()},
        )

    def _keep(self, last: _Last, sums: dict[Key, list[int]]) -> None:
        """Carry over the sums of what an nsqd has."""
        for key in last.rows:
            if key not in sums:
                sums[key] = self._sums.get(key) or [0, 0, 0, 0]

    def _begin(self, current: _Last, sums: dict[Key, list[int]]) -> None:
        """Count an nsqd that is new, unless that would make a known sum jump."""
        for key, row in current.rows.items():
            if key not in self._sums:
                sums[key] = [a + b for a, b in zip(sums[key], _counters(row), strict=True)]


def _advance(
    before: _Last, current: _Last, sums: dict[Key, list[int]], rates: dict[Key, list[float]]
) -> None:
    """Add what an nsqd has counted since its last answer."""
    seconds = current.at - before.at
    is_restarted = before.start_time != current.start_time
    for key, row in current.rows.items():
        old = before.rows.get(key)
        counted = _counters(row)
        if old is not None and not is_restarted:
            # A topic that was deleted and created again begins at zero, too.
            counted = tuple(
                new - known if new >= known else new
                for new, known in zip(counted, _counters(old), strict=True)
            )
        total = sums[key]
        for index, gained in enumerate(counted):
            total[index] += gained
        if seconds > 0:
            left = counted[0] - _backlog(row) + (0 if old is None else _backlog(old))
            rate = rates.setdefault(key, [0.0, 0.0, 0.0, 0.0])
            for index, gained in enumerate((counted[0], max(left, 0), counted[2], counted[3])):
                rate[index] += gained / seconds


def _rows(survey: NsqdSurvey) -> Iterator[tuple[Key, TopicStats | ChannelStats]]:
    for topic in survey.stats.topics:
        yield (topic.topic_name, ""), topic
        for channel in topic.channels:
            yield (topic.topic_name, channel.channel_name), channel


def _counters(row: TopicStats | ChannelStats) -> tuple[int, ...]:
    """Return the counters in the order of `Counts`."""
    if isinstance(row, TopicStats):
        return row.message_count, row.message_bytes, 0, 0
    return row.message_count, 0, row.requeue_count, row.timeout_count


def _backlog(row: TopicStats | ChannelStats) -> int:
    if isinstance(row, TopicStats):
        return row.depth
    return row.depth + row.in_flight_count + row.deferred_count
