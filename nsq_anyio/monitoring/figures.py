"""Rates and sums of the counters of nsqds."""

from __future__ import annotations

from dataclasses import dataclass, field

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
