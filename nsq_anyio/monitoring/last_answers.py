"""The last answer of each nsqd before a survey: what a silent nsqd held, and the rates of a single nsqd."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..http import NsqdSurvey, Survey
from .meter import Meter
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
            each.node.url: (each, now) if not each.error else before[each.node.url]
            for each in survey.nsqds
            if not each.error or each.node.url in before
        }
        return {url: LastAnswer(nsqd, now - at) for url, (nsqd, at) in before.items() if url in self._known}


def rates_on(nsqd: NsqdSurvey, last: LastAnswer | None, topic: str) -> Mapping[str, Rates]:
    """Return the rates of a topic, under "", and of its channels, on one nsqd since its last answer.

    :param last: its last answer before ``nsqd``; without one, no rate is known
    """
    if last is None or nsqd.error:
        return {}
    meter = Meter()
    meter.update(_only(last.nsqd, topic), 0.0)
    rates = meter.update(_only(nsqd, topic), last.seconds).rates
    return {channel: each for (_, channel), each in rates.items()}


def _only(nsqd: NsqdSurvey, topic: str) -> Survey:
    stats = nsqd.stats
    topics = tuple(each for each in stats.topics if each.topic_name == topic)
    kept = type(stats)(start_time=stats.start_time, topics=topics)
    return Survey(time=math.nan, seconds=0.0, nsqds=(NsqdSurvey(node=nsqd.node, stats=kept),))
