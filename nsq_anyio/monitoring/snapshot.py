"""Snapshots of a cluster, with rates and sums of its counters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ..http import NsqdSurvey, Survey, TopicStats, Totals

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
    :ivar finished: messages that left for good, finished by consumers or discarded; of a topic, messages that
        its channels took
    """

    messages: int = 0
    message_bytes: int = 0
    requeued: int = 0
    timed_out: int = 0
    finished: int = 0


FINISHED = 4
"""The place of ``finished`` among the values of `Counts`."""


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
    :ivar nodes: the counters of each nsqd, by topic, then by the nsqd's URL, then by channel: the values of
        `Counts` come first. They begin at zero when the nsqd restarts
    """

    rates: dict[Key, Rates] = field(default_factory=dict[Key, Rates])
    sums: dict[Key, Counts] = field(default_factory=dict[Key, Counts])
    nodes: dict[str, Mapping[str, Mapping[str, tuple[int, ...]]]] = field(
        default_factory=dict[str, Mapping[str, Mapping[str, tuple[int, ...]]]]
    )


NEVER = math.nan

SLOWEST_GAP = 60.0
"""The most seconds from one finished message to the next that count as a pace; a longer pause is none."""

_REQUEUE_DELAY = 100.0
"""A little more than the 90 s for which clients defer a message that failed for the first time."""


@dataclass(frozen=True, slots=True)
class Episode:
    """A series of failures of one kind, without a long break.

    :ivar count: how many there were
    :ivar began: when the first was seen, in Unix seconds
    :ivar last: when the last was seen
    """

    count: int
    began: float
    last: float

    def is_over(self, now: float, interval: float, *, deferred: bool = False) -> bool:
        """Return whether none came for two polls, and for three times the usual pause between them.

        :param deferred: whether messages are deferred, as those are that were requeued with a delay
        """
        usual = (self.last - self.began) / max(self.count - 1, 1)
        return now - self.last > max(2 * interval, 3 * usual, _REQUEUE_DELAY if deferred else 0.0)


@dataclass(frozen=True, slots=True)
class Activity:
    """The activity of a channel over all nsqds, as far as this program has seen it.

    Times are in Unix seconds. NaN means "not now".

    :ivar seen: when the channel was first seen
    :ivar finished: when a message was last seen to be finished; NaN if none was
    :ivar pace: the usual seconds from one finished message to the next; NaN if not known
    :ivar waiting: since when messages wait, without a break
    :ivar served: since when consumers are connected to it and it is not paused, without a break
    :ivar holding: since when consumers hold messages, none of which was finished, requeued or timed out
    :ivar requeues: the last episode of requeued messages
    :ivar timeouts: the last episode of messages that timed out
    :ivar idle_on: since when messages wait on an nsqd, consumers are connected to it, and nothing is finished
        there, by the nsqd's URL; only of topics on several nsqds
    """

    seen: float
    finished: float = NEVER
    pace: float = NEVER
    waiting: float = NEVER
    served: float = NEVER
    holding: float = NEVER
    requeues: Episode | None = None
    timeouts: Episode | None = None
    idle_on: Mapping[str, float] = field(default_factory=dict[str, float])

    def idle_since(self) -> float:
        """Return since when messages wait for consumers and none is finished; NaN if none waits."""
        return max([self.waiting, *(each for each in (self.finished, self.served) if not math.isnan(each))])

    def is_known(self, now: float, interval: float) -> bool:
        """Return whether it was seen for long enough to say whether messages move."""
        return now - self.seen >= self.patience(interval) or not math.isnan(self.finished)

    def patience(self, interval: float, nsqds: int = 1) -> float:
        """Return after how many seconds without a finished message something is wrong.

        Consumers fetch messages in bursts, and a slow handler finishes few.

        :param nsqds: on how many nsqds the channel is, if the question is about one of them
        """
        pace = 0.0 if math.isnan(self.pace) else min(nsqds * self.pace, SLOWEST_GAP)
        return max(20.0, 3 * interval, 5 * pace)


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """The last answer of an nsqd before a survey.

    :ivar seconds: the time from that answer to the end of the survey
    """

    nsqd: NsqdSurvey
    seconds: float


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
    :ivar activities: the activity of each channel since the first poll
    :ivar failing_since: since when each server of ``survey.errors`` has failed, by URL, in Unix seconds: the
        beginning of the first poll in which it did, without one in between in which it answered
    :ivar last_answers: the last answer of each nsqd before this poll, by its URL
    """

    number: int
    survey: Survey
    figures: Figures
    topics: tuple[Totals[TopicStats], ...] = ()
    interval: float = 0.0
    missing: Mapping[Registration, float] = field(default_factory=dict[Registration, float])
    activities: Mapping[Key, Activity] = field(default_factory=dict[Key, Activity])
    failing_since: Mapping[str, float] = field(default_factory=dict[str, float])
    last_answers: Mapping[str, LastAnswer] = field(default_factory=dict[str, LastAnswer])
