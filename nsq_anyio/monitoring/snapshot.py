"""Snapshots of a cluster, with rates and sums of its counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ..http import Survey, TopicStats, Totals

Key = tuple[str, str]
"""A topic and a channel; the channel is empty for the topic itself."""


Registration: TypeAlias = tuple[str, str]
"""The URLs of an nsqd and of an nsqlookupd."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts of messages, over all nsqds.

    :ivar messages: messages received
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

    :ivar ingress: messages received
    :ivar egress: messages that left for good, finished by consumers or discarded; of a topic, messages that
        its channels took
    :ivar requeued: messages requeued; 0 for topics
    :ivar timed_out: messages timed out; 0 for topics
    """

    ingress: float = 0.0
    egress: float = 0.0
    requeued: float = 0.0
    timed_out: float = 0.0


@dataclass(frozen=True, slots=True)
class Figures:
    """Rates and sums after a survey, by topic and channel; the channel is empty for the topic itself.

    :ivar rates: since the last answer of each nsqd; missing until an nsqd has answered twice
    :ivar sums: the counters over all nsqds. They never decrease while any nsqd has the topic or channel
    """

    rates: dict[Key, Rates] = field(default_factory=dict[Key, Rates])
    sums: dict[Key, Counts] = field(default_factory=dict[Key, Counts])


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The result of one poll, with everything computed from it.

    :ivar number: the number of the poll, counted from 1
    :ivar survey: the answer of each server
    :ivar figures: the rates and sums
    :ivar topics: the statistics of each topic over all nsqds, sorted by topic
    :ivar interval: seconds from the beginning of this poll to that of the next one; longer than the set
        interval if polls would take too much of a core
    :ivar missing: for how many seconds each missing registration has been missing, by the URLs of an nsqd and
        of the nsqlookupd that lacks it, which have both answered
    """

    number: int
    survey: Survey
    figures: Figures
    topics: tuple[Totals[TopicStats], ...] = ()
    interval: float = 0.0
    missing: Mapping[Registration, float] = field(default_factory=dict[Registration, float])
