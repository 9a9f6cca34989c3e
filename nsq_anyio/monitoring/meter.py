"""A meter: rates and sums from the counters of nsqds, recomputed only where something has changed.

nsqd reports an idle topic in the same text as before, and such a topic is the same object in the next survey.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from ..http import Survey, TopicStats, Totals
from ..names import is_ephemeral
from .snapshot import Counts, Figures, Key, Rates

_Measures: TypeAlias = dict[str, tuple[int, int, int, int, int, int, int]]
"""The figures of a topic on one nsqd, under "", and of its channels, by name.

Each has the values of `Counts`, then the backlog, then how many messages have left by these figures. nsqd may
move a message while it counts, and so count it twice or not at all: the last figure may decrease. Its highest
value so far is ``finished``.
"""

NOTHING: _Measures = {}
_ZERO = 0, 0, 0, 0, 0, 0, 0
_STILL = Rates()


class Since(NamedTuple):
    """The time since an nsqd's last answer, and whether it was restarted.

    :ivar seconds: from that answer to this one; 0 if this is the first
    """

    seconds: float
    is_new: bool
    is_restarted: bool


@dataclass(frozen=True, slots=True)
class _Topic:
    """A topic after a survey.

    :ivar totals: the sums over the nsqds that answered; None if none of them has the topic
    :ivar measures: by the URL of the nsqd; for nsqds that did not answer, from their last answer
    :ivar counters: the sums over all nsqds, in the order of `Counts`, by channel; "" is the topic. The sums
        of a channel that is gone are kept with the topic, so that they continue if it is created again
    :ivar sums: the same for `Figures`, without channels that are gone
    """

    totals: Totals[TopicStats] | None
    measures: Mapping[str, _Measures]
    counters: Mapping[str, list[int]]
    sums: Mapping[Key, Counts]


class Meter:
    """Computes rates, and sums that never decrease, from successive surveys.

    An nsqd contributes to the rates from the second survey that it answers. Its first counts go only into
    sums that no earlier survey had. After a restart its counters begin at zero. So an nsqd that comes, goes
    or restarts distorts nothing. For each nsqd of the last survey, only its last answer is kept.
    """

    def __init__(self) -> None:
        self._answers: dict[str, tuple[int, float]] = {}  # start time, and when it came
        self._topics: dict[str, _Topic] = {}

    def update(
        self, survey: Survey, now: float, topics: Iterable[Totals[TopicStats]] | None = None
    ) -> Figures:
        """Add a survey, and return the figures.

        :param now: when it ended, in seconds, by a clock that never goes back
        :param topics: the result of ``survey.topics()``, if it is known. A topic that is the same object as
            before has not changed
        """
        since: dict[str, Since] = {}
        silent: set[str] = set()
        answers: dict[str, tuple[int, float]] = {}
        for each in survey.nsqds:
            url = each.node.url
            before = self._answers.get(url)
            if not each.error:
                answers[url] = each.stats.start_time, now - each.age
                since[url] = _since(before, answers[url])
            elif before is not None:
                silent.add(url)
                answers[url] = before
        self._answers = answers
        step = _Step(since, silent)
        found: dict[str, _Topic] = {}
        for totals in survey.topics() if topics is None else topics:
            name = totals.total.topic_name
            found[name] = step.advanced(name, totals, self._topics.get(name))
        for name, known in self._topics.items() if silent else ():
            if name not in found and (remembered := step.remembered(name, known)):
                found[name] = remembered
        self._topics = found
        for name, topic in found.items():
            step.figures.sums.update(topic.sums)
            step.figures.nodes[name] = topic.measures
        return step.figures


def _since(before: tuple[int, float] | None, answer: tuple[int, float]) -> Since:
    if before is None:
        return Since(0.0, is_new=True, is_restarted=False)
    return Since(answer[1] - before[1], is_new=False, is_restarted=before[0] != answer[0])


class _Step:
    """The step from one survey to the next.

    :ivar figures: the figures of the topics so far
    """

    def __init__(self, since: Mapping[str, Since], silent: set[str]) -> None:
        self.figures = Figures()
        self._since = since
        self._silent = silent
        # For these, unchanged counters do not mean that the rates are zero.
        self._special = {url for url, each in since.items() if each.is_restarted or each.seconds <= 0}

    def advanced(self, name: str, totals: Totals[TopicStats], known: _Topic | None) -> _Topic:
        """Add the counts of each nsqd since its last answer."""
        if known is None:
            known = _Topic(None, {}, {}, {})
        elif (
            known.totals is totals
            and len(known.measures) == len(totals.nodes)
            and (not self._special or self._special.isdisjoint(totals.nodes))
        ):
            self.figures.rates.update(dict.fromkeys(known.sums, _STILL))
            return known
        nodes = {} if known.totals is None else known.totals.nodes
        measures = self._of_silent(known)
        counters: dict[str, list[int]] = {}
        rates: dict[str, list[float]] = {}
        for each in measures.values():
            _keep(each, known.counters, counters)
        for url, row in totals.nodes.items():
            old = known.measures.get(url, NOTHING)
            since = self._since[url]
            is_same = nodes.get(url) is row and not since.is_restarted
            new = measures[url] = old if is_same else measures_of(row)
            _keep(new, known.counters, counters)
            if since.is_new:
                _begin(new, known.counters, counters)
            elif is_same:
                if since.seconds > 0:
                    for channel in new:
                        rates.setdefault(channel, [0.0, 0.0, 0.0, 0.0])
            else:
                advance(old, new, since, counters, rates)
        self.figures.rates.update({(name, channel): Rates(*values) for channel, values in rates.items()})
        return _topic(name, totals, measures, counters, known.counters)

    def remembered(self, name: str, known: _Topic) -> _Topic | None:
        """Return a topic of nsqds that do not answer; None if they do not have it."""
        measures = self._of_silent(known)
        if not measures:
            return None
        counters: dict[str, list[int]] = {}
        for each in measures.values():
            _keep(each, known.counters, counters)
        return _topic(name, None, measures, counters, known.counters)

    def _of_silent(self, known: _Topic) -> dict[str, _Measures]:
        if not self._silent:
            return {}
        return {url: each for url, each in known.measures.items() if url in self._silent}


def _topic(
    name: str,
    totals: Totals[TopicStats] | None,
    measures: Mapping[str, _Measures],
    counters: dict[str, list[int]],
    before: Mapping[str, list[int]],
) -> _Topic:
    sums = {(name, channel): Counts(*values) for channel, values in counters.items()}
    for channel, values in before.items():
        # Ephemeral channels come and go under ever new names.
        if channel not in counters and not is_ephemeral(channel):
            counters[channel] = values
    return _Topic(totals, measures, counters, sums)


def measures_of(row: TopicStats) -> _Measures:
    """Return the measures of a topic on one nsqd, and of its channels."""
    messages, depth = row.message_count, row.depth
    left = max(messages - depth, 0)
    found = {"": (messages, row.message_bytes, 0, 0, left, depth, left)}
    for each in row.channels:
        messages, backlog = each.message_count, each.depth + each.in_flight_count + each.deferred_count
        # An nsqd that was restarted has messages on its disk that it has not counted.
        left = max(messages - backlog, 0)
        found[each.channel_name] = messages, 0, each.requeue_count, each.timeout_count, left, backlog, left
    return found


def _keep(measures: _Measures, before: Mapping[str, list[int]], counters: dict[str, list[int]]) -> None:
    """Carry over the sums of a topic and its channels, as far as an nsqd has them."""
    for channel in measures:
        if channel not in counters:
            counters[channel] = list(before.get(channel, (0, 0, 0, 0, 0)))


def _begin(measures: _Measures, before: Mapping[str, list[int]], counters: Mapping[str, list[int]]) -> None:
    """Add the counts of a new nsqd, unless that would make a known sum jump."""
    for channel, values in measures.items():
        if channel not in before:
            total = counters[channel]
            for index in range(5):
                total[index] += values[index]


def advance(
    old: _Measures,
    new: _Measures,
    since: Since,
    counters: Mapping[str, list[int]],
    rates: dict[str, list[float]],
) -> None:
    """Add the counts of an nsqd since its last answer, and put into ``new`` what has left."""
    seconds = since.seconds
    for channel, (messages, size, requeued, timed_out, _, backlog, _) in new.items():
        before = old.get(channel, _ZERO)
        known = _ZERO if since.is_restarted else before
        # A topic that was deleted and created again begins at zero, too.
        came = messages - known[0] if messages >= known[0] else messages
        requeues = requeued - known[2] if requeued >= known[2] else requeued
        timeouts = timed_out - known[3] if timed_out >= known[3] else timed_out
        left = known[6] + came + before[5] - backlog
        if since.is_restarted:
            left = max(left, 0)  # after a crash, nsqd delivers some messages again
        finished = max(known[4], left)
        new[channel] = messages, size, requeued, timed_out, finished, backlog, left
        total = counters[channel]
        total[0] += came
        total[1] += size - known[1] if size >= known[1] else size
        total[2] += requeues
        total[3] += timeouts
        total[4] += finished - known[4]
        if seconds > 0:
            rate = rates.get(channel)
            if rate is None:
                rate = rates[channel] = [0.0, 0.0, 0.0, 0.0]
            rate[0] += came / seconds
            rate[1] += (finished - known[4]) / seconds
            rate[2] += requeues / seconds
            rate[3] += timeouts / seconds
