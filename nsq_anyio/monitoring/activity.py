"""The activity of channels: since when each waits, holds messages, or has failures, from survey to survey."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from ..http import TopicStats, Totals
from .snapshot import FINISHED, NEVER, SLOWEST_GAP, Activity, Counts, Episode, Figures, Key, Rates

_BREAK = 300.0
"""Failures that come further apart, in seconds, are episodes of their own."""


class Activities:
    """Tracks the activity of channels."""

    def __init__(self) -> None:
        self._known: dict[Key, Activity] = {}
        self._idle: dict[str, dict[Key, tuple[int, float]]] = {}  # by nsqd: messages finished, and since when
        self._sums: Mapping[Key, Counts] = {}
        self._time = math.nan

    def update(
        self,
        topics: Sequence[Totals[TopicStats]],
        figures: Figures,
        now: float,
        silent: Container[str] = (),
    ) -> Mapping[Key, Activity]:
        """Add a survey, and return the activity of each of its channels.

        What only silent nsqds have is kept, and not returned. A channel that no nsqd has is forgotten. When a
        clock is set back, everything begins anew.

        :param now: when the survey began, in Unix seconds
        :param silent: the URLs of the nsqds that did not answer
        """
        if now < self._time:
            self._known, self._idle = {}, {}
        found: dict[Key, Activity] = {}
        idle: dict[str, dict[Key, tuple[int, float]]] = {}
        for each in topics:
            nsqds = figures.nodes.get(each.total.topic_name, ())
            is_waiting = any(channel.depth for channel in each.total.channels)
            idle_on = self._idle_on(each, figures, now, idle) if len(nsqds) > 1 and is_waiting else {}
            for channel in each.total.channels:
                key = each.total.topic_name, channel.channel_name
                known = self._known.get(key) or Activity(now)
                rate, before = figures.rates.get(key), self._sums.get(key)
                if rate is not None and before is not None:
                    known = _counted(known, rate, before, figures.sums[key], self._time, now)
                waits, holds = channel.depth > 0, channel.in_flight_count > 0
                found[key] = replace(
                    known,
                    waiting=_since(waits, known.waiting, now),
                    holding=_since(holds, known.holding, now),
                    served=_since(channel.client_count > 0 and not channel.paused, known.served, now),
                    idle_on=idle_on.get(channel.channel_name, {}),
                )
        kept = {key: activity for key, activity in self._known.items() if key in figures.sums}
        of_silent = {url: since for url, since in self._idle.items() if url in silent}
        self._known, self._idle = {**kept, **found}, {**of_silent, **idle}
        self._sums, self._time = figures.sums, now
        return found

    def _idle_on(
        self,
        topic: Totals[TopicStats],
        figures: Figures,
        now: float,
        idle: dict[str, dict[Key, tuple[int, float]]],
    ) -> dict[str, dict[str, float]]:
        """Return since when channels are idle on which nsqds, by channel; add them to ``idle``."""
        name = topic.total.topic_name
        found: dict[str, dict[str, float]] = {}
        for url, stats in topic.nodes.items():
            counts = figures.nodes.get(name, {}).get(url, {})
            for row in stats.channels:
                if row.paused or not row.depth or not row.client_count or row.channel_name not in counts:
                    continue
                finished = counts[row.channel_name][FINISHED]
                key = name, row.channel_name
                before, since = self._idle.get(url, {}).get(key, (-1, now))
                idle.setdefault(url, {})[key] = finished, since if before == finished else now
                found.setdefault(row.channel_name, {})[url] = since if before == finished else now
        return found


def _since(is_so: bool, since: float, now: float) -> float:
    if not is_so:
        return NEVER
    return now if math.isnan(since) else since


def _counted(
    known: Activity, rate: Rates, before: Counts, counts: Counts, last: float, now: float
) -> Activity:
    """Add what happened since the last survey."""
    requeued, timed_out = counts.requeued - before.requeued, counts.timed_out - before.timed_out
    if requeued > 0 or timed_out > 0 or rate.egress > 0:
        known = replace(known, holding=NEVER)
    if requeued > 0:
        known = replace(known, requeues=_continued(known.requeues, requeued, now))
    if timed_out > 0:
        known = replace(known, timeouts=_continued(known.timeouts, timed_out, now))
    if rate.egress > 0:
        since = known.seen if math.isnan(known.finished) else known.finished
        count = max(rate.egress * (now - last), 1.0)
        gap = min((now - since) / count, SLOWEST_GAP)
        pace = gap if math.isnan(known.pace) else known.pace + (gap - known.pace) / 4
        known = replace(known, finished=now, pace=pace)
    return known


def _continued(episode: Episode | None, count: int, now: float) -> Episode:
    """Add failures to an episode, or begin a new one."""
    if episode is None or now - episode.last > _BREAK:
        return Episode(count, now, now)
    return Episode(episode.count + count, episode.began, now)
