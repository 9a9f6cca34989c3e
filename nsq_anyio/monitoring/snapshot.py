"""What all viewers of a cluster see at one moment."""

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


@dataclass(frozen=True, slots=True)
class View:
    """The result of one poll, with all that is computed from it.

    :ivar number: how many polls there were so far, with this one
    :ivar survey: what each server answered
    :ivar figures: rates, and sums that never decrease
    :ivar topics: the statistics of each topic over all nsqds, sorted by topic
    :ivar interval: seconds from the beginning of this poll to that of the next one. Whoever tells people how
        often the servers are asked reads it here: it is longer than what was set if polls would take too much
        of a core
    :ivar missing: the registrations that an nsqlookupd lacks, and for how many seconds; the keys are the URLs
        of an nsqd and an nsqlookupd, which have both answered
    """

    number: int
    survey: Survey
    figures: Figures
    topics: tuple[Totals[TopicStats], ...] = ()
    interval: float = 0.0
    missing: Mapping[Registration, float] = field(default_factory=dict[Registration, float])
