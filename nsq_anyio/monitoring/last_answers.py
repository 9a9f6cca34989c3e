"""The last answer of each nsqd before a survey: what a silent nsqd held, and the rates of a single nsqd."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..http import NsqdSurvey, Survey, TopicStats
from .meter import NOTHING, Since, advance, measures_of
from .snapshot import LastAnswer, Rates


class LastAnswers:
    """Tracks the last answer of each nsqd of the last survey."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[NsqdSurvey, float]] = {}

    def update(self, survey: Survey, now: float) -> Mapping[str, LastAnswer]:
        """Add a survey; return the last answer before it, by the URL of the nsqd.

        :param now: in seconds, by a clock that never goes back
        """
        before = self._known
        self._known = {
            each.node.url: (each, now - each.age) if not each.error else before[each.node.url]
            for each in survey.nsqds
            if not each.error or each.node.url in before
        }
        return {url: LastAnswer(nsqd, now - at) for url, (nsqd, at) in before.items() if url in self._known}


UNKNOWN = Rates(math.nan, math.nan, math.nan, math.nan)


def rates_on(nsqd: NsqdSurvey, last: LastAnswer | None, topic: str) -> Mapping[str, Rates]:
    """Return the rates of a topic, under "", and of its channels, on one nsqd since its last answer.

    :param last: its last answer before ``nsqd``; without one, no rate is known
    """
    if last is None or nsqd.error:
        return {}
    before, now = (
        next((each for each in stats.topics if each.topic_name == topic), None)
        for stats in (last.nsqd.stats, nsqd.stats)
    )
    rates = {} if now is None else _rates(before, now, _since(nsqd, last))
    return {channel: Rates(*each) for channel, each in rates.items()}


def total_rates(nsqd: NsqdSurvey, last: LastAnswer | None) -> Rates:
    """Return the rates of one nsqd: the ingress of its topics, and what left all their channels."""
    if last is None or nsqd.error:
        return UNKNOWN
    before = {each.topic_name: each for each in last.nsqd.stats.topics}
    since = _since(nsqd, last)
    ingress, total = 0.0, [0.0] * 4
    for each in nsqd.stats.topics:
        old = before.get(each.topic_name)
        if old is not each:  # a topic that is the same object as before has not changed
            rates = _rates(old, each, since)
            ingress += rates.pop("")[0]
            total = [sum(values) for values in zip(total, *rates.values(), strict=True)]
    return Rates(ingress, *total[1:])


def _since(nsqd: NsqdSurvey, last: LastAnswer) -> Since:
    is_restarted = nsqd.stats.start_time != last.nsqd.stats.start_time
    seconds = max(last.seconds - nsqd.age, _LEAST_SECONDS)
    return Since(seconds, is_new=False, is_restarted=is_restarted)


_LEAST_SECONDS = 0.001


def _rates(before: TopicStats | None, now: TopicStats, since: Since) -> dict[str, list[float]]:
    """Return the rates of a topic, under "", and of its channels, in the order of `Rates`."""
    old, new = NOTHING if before is None else measures_of(before), measures_of(now)
    rates: dict[str, list[float]] = {}
    advance(old, new, since, {channel: [0] * 5 for channel in new}, rates)
    return rates
