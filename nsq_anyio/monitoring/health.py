"""Health rules: stuck topics and failing servers, found in a snapshot and recent trends."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..http import ChannelStats, Node, NsqdSurvey, TopicStats, Totals
from ..names import is_ephemeral
from .snapshot import NEVER, Activity, Key, Snapshot
from .trend import LEAST_SECONDS, Trend, TrendOf


def problems(snapshot: Snapshot, trend_of: TrendOf) -> list[Problem]:
    """Return all problems: bad ones before others, then servers before topics, then by weight."""
    found = [*server_problems(snapshot), *topic_problems(snapshot, trend_of)]
    return sorted(
        found, key=lambda each: (not each.is_bad, not each.server, -each.weight, each.topic, each.text)
    )


_LABELS = {
    "nsqlookupd_down": "down",
    "unusable": "unusable",
    "nsqd_down": "down",
    "unhealthy": "not healthy",
    "not_registered": "not registered",
    "topic_not_registered": "not registered",
    "no_channels": "no channels",
    "paused": "paused",
    "no_consumers": "no consumers",
    "stalled": "stalled",
    "holding": "no answers",
    "overflows": "overflows",
    "tombstoned": "tombstoned",
    "growing": "growing",
    "requeues": "requeues",
    "timeouts": "timeouts",
    "channel_missing": "channel missing",
    "nsqd_without_consumers": "no consumers",
    "nsqd_stalled": "stalled",
}

ALERTS: Mapping[str, tuple[str, ...]] = {
    "nsqlookupd_down": ("NsqlookupdDown",),
    "unusable": ("NsqdUnusable",),
    "nsqd_down": ("NsqdDown",),
    "unhealthy": ("NsqdUnhealthy",),
    "not_registered": ("NsqdNotRegistered",),
    "topic_not_registered": ("NsqTopicsNotRegistered",),
    "no_channels": ("NsqTopicWithoutChannels",),
    "paused": ("NsqTopicPaused", "NsqChannelPaused"),
    "no_consumers": ("NsqChannelWithoutConsumers",),
    "stalled": ("NsqChannelStalled",),
    "holding": ("NsqChannelUnanswered",),
    "overflows": ("NsqChannelOverflows",),
    "tombstoned": ("NsqTopicTombstoned",),
    "growing": ("NsqChannelBacklogGrows", "NsqChannelBacklogGrowsSlowly"),
    "requeues": ("NsqChannelRequeues", "NsqChannelFails"),
    "timeouts": ("NsqChannelTimeouts",),
    "channel_missing": ("NsqChannelMissing",),
    "nsqd_without_consumers": ("NsqNsqdWithoutConsumers",),
    "nsqd_stalled": ("NsqNsqdStalled",),
}
"""The alerts of each kind, at least one, for the metrics of a cluster: docs/alert_rules.py."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that is stuck or wrong.

    :ivar kind: the rule, such as ``no_consumers``
    :ivar is_bad: whether messages are held up or a server fails; False if it only deserves a look
    :ivar text: what is wrong, in a sentence
    :ivar topic: the topic; empty if it is about a server
    :ivar channel: the channel; empty if it is about a topic or a server
    :ivar server: the URL of the nsqd or nsqlookupd; empty if it is about a topic or channel
    :ivar weight: its severity, such as the number of waiting messages; heavier problems come first
    :ivar since: when it began, in Unix seconds, as far as was seen; NaN if that is not known
    :ivar until: when it ended; NaN if it goes on
    """

    kind: str
    text: str
    is_bad: bool = False
    topic: str = ""
    channel: str = ""
    server: str = ""
    weight: float = 0.0
    since: float = NEVER
    until: float = NEVER

    @property
    def label(self) -> str:
        """A word or two for the kind."""
        return _LABELS[self.kind]


def messages_wait(count: int) -> str:
    """Return how many messages wait, as the end of a sentence."""
    return "1 message waits" if count == 1 else f"{count:,} messages wait"


def per_second(rate: float) -> str:
    """Return a rate with its unit."""
    if math.isnan(rate):
        return "an unknown rate"
    return f"{rate:,.1f}/s" if rate < 10 else f"{rate:,.0f}/s"


def named(names: Sequence[str]) -> str:
    """Return names as a part of a sentence; of more than four, the first three."""
    shown = [*names[:3], f"{len(names) - 3} others"] if len(names) > 4 else list(names)
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def server_problems(snapshot: Snapshot) -> Iterator[Problem]:
    """Yield the problems of servers and of registrations."""
    survey, since = snapshot.survey, snapshot.failing_since
    for each in survey.nsqlookupds:
        if each.error:
            text = f"This nsqlookupd does not answer: {each.error}."
            down = Problem(kind="nsqlookupd_down", is_bad=True, server=each.url, text=text, weight=2)
            yield replace(down, since=since.get(each.url, NEVER))
        for reason in each.unusable:
            text = f"An nsqd registered there cannot be asked: {reason}."
            yield Problem(kind="unusable", server=each.url, text=text)
    answered = [each for each in survey.nsqlookupds if not each.error]
    known = {each.url: {node.url: node for node in each.nodes} for each in answered}
    for nsqd in survey.nsqds:
        for problem in _of_nsqd(known, nsqd):
            is_down = problem.kind == "nsqd_down"
            yield replace(problem, since=since.get(problem.server, NEVER)) if is_down else problem


def _of_nsqd(known: Mapping[str, Mapping[str, Node]], nsqd: NsqdSurvey) -> Iterator[Problem]:
    """Yield the problems of an nsqd.

    :param known: the nsqds that each nsqlookupd that answered knows, by their URLs
    """
    url = nsqd.node.url
    if nsqd.error:
        text = f"This nsqd does not answer: {nsqd.error}. No figure includes its messages."
        yield Problem(kind="nsqd_down", is_bad=True, server=url, text=text, weight=1)
        return
    if nsqd.stats.health not in ("", "OK"):
        yield Problem(kind="unhealthy", is_bad=True, server=url, text=f"It reports: {nsqd.stats.health}.")
    entries = {lookup: nodes[url] for lookup, nodes in known.items() if url in nodes}
    missing = [lookup for lookup in known if lookup not in entries]
    if missing and len(missing) == len(known):
        text = "No nsqlookupd knows it, so consumers do not find it."
        yield Problem(kind="not_registered", is_bad=True, server=url, text=text)
    elif missing:
        do = "does" if len(missing) == 1 else "do"
        text = f"{named(missing)} {do} not know it, so consumers that ask there alone miss it."
        yield Problem(kind="not_registered", server=url, text=text)
    topics = {topic.topic_name for topic in nsqd.stats.topics}
    for lookup, node in entries.items():
        unlisted = sorted(topics.difference(node.topics))
        if unlisted:
            text = f"{lookup} does not list {named(unlisted)} for it, so consumers do not find it there."
            yield Problem(kind="topic_not_registered", server=url, text=text, weight=len(unlisted))


_LEAST_GROWTH = 100
"""A depth that grows by fewer messages is no problem yet."""

_LEAST_SHARE = 0.01
"""Neither is one that grows by a smaller part of itself."""

_FULL = 0.98
"""The least part of its highest depth that a full queue always has."""

_REMEMBERED = 600.0
"""The seconds for which failures that are over are still shown."""

_FEWEST_REQUEUES = 3
_FEWEST_TIMEOUTS = 2
"""Fewer failures in an episode may be accidents, such as a consumer that was stopped."""


def topic_problems(snapshot: Snapshot, trend_of: TrendOf) -> Iterator[Problem]:
    """Yield the problems of topics and channels."""
    shown = {each.node.url: each.node.name for each in snapshot.survey.nsqds}
    tombstones = {(each.node.url, topic) for each in snapshot.survey.nsqds for topic in each.node.tombstoned}
    for each in snapshot.topics:
        topic = each.total
        yield from _of_topic(topic)
        yield from _tombstoned(shown, each, tombstones)
        yield from _per_nsqd(shown, each, snapshot.activities)
        rows = [row for stats in each.nodes.values() for row in stats.channels if not row.paused]
        unpaused = {row.channel_name for row in rows}
        served = {row.channel_name for row in rows if row.depth and row.client_count}
        for channel in topic.channels:
            key = topic.topic_name, channel.channel_name
            if (activity := snapshot.activities.get(key)) is not None:
                yield from _failing(key, channel, activity, snapshot)
                # Without a consumer none can be slow, and a new channel has no trend.
                if channel.client_count and channel.channel_name in unpaused:
                    is_served = channel.channel_name in served
                    slow = list(_slow(key, channel, activity, trend_of, snapshot, is_served=is_served))
                    yield from slow
                    if all(problem.kind != "stalled" for problem in slow):
                        yield from _idle_on_some(key, each, shown, activity, snapshot)


def unknown(snapshot: Snapshot) -> int:
    """Return the number of channels of which it is not known yet whether their messages move."""
    return sum(
        activity is None or not activity.is_known(snapshot.survey.time, snapshot.interval)
        for each in snapshot.topics
        for channel in each.total.channels
        if channel.client_count and (channel.depth or channel.in_flight_count)
        for activity in [snapshot.activities.get((each.total.topic_name, channel.channel_name))]
    )


def _of_topic(topic: TopicStats) -> Iterator[Problem]:
    if not topic.depth:
        return
    if topic.paused:
        kind = "paused"
        text = f"The topic is paused, and {messages_wait(topic.depth)} in it until it is unpaused."
    elif not topic.channels:
        kind = "no_channels"
        text = f"It has no channel, and {messages_wait(topic.depth)} until the first one is created."
    else:
        return
    yield Problem(kind=kind, topic=topic.topic_name, text=text, weight=topic.depth)


def _tombstoned(
    shown: Mapping[str, str], topic: Totals[TopicStats], tombstones: Container[tuple[str, str]]
) -> Iterator[Problem]:
    name = topic.total.topic_name
    held = {
        url: stats.depth + sum(each.depth for each in stats.channels)
        for url, stats in topic.nodes.items()
        if (url, name) in tombstones
    }
    if count := sum(held.values()):
        nsqds = named([shown.get(url, url) for url, depth in held.items() if depth])
        text = (
            f"It is tombstoned on {nsqds}, so consumers do not find it there, where {messages_wait(count)}."
        )
        yield Problem(kind="tombstoned", is_bad=True, topic=name, text=text, weight=count)


def _on_channel(
    key: Key, kind: str, text: str, weight: float, *, is_bad: bool, since: float = NEVER, until: float = NEVER
) -> Problem:
    topic, channel = key
    return Problem(
        kind=kind,
        is_bad=is_bad,
        topic=topic,
        channel=channel,
        text=text,
        weight=weight,
        since=since,
        until=until,
    )


def _failing(key: Key, channel: ChannelStats, activity: Activity, snapshot: Snapshot) -> Iterator[Problem]:
    """Yield the failures that go on, and those that ended a short time ago."""
    now, interval = snapshot.survey.time, snapshot.interval
    for kind, episode, fewest, done, cause in (
        ("requeues", activity.requeues, _FEWEST_REQUEUES, "requeued", "their handlers fail"),
        (
            "timeouts",
            activity.timeouts,
            _FEWEST_TIMEOUTS,
            "left unanswered until they timed out",
            "they take longer than the message timeout, or hang",
        ),
    ):
        if episode is None or episode.count < fewest or now - episode.last > _REMEMBERED:
            continue
        times = {"since": episode.began, "until": episode.last}
        moves = activity.finished > episode.last or not (channel.depth or channel.in_flight_count)
        is_free = moves or channel.paused or not channel.client_count
        # Consumers that back off after failures fail no more, until they try again.
        if is_free and episode.is_over(now, interval, deferred=channel.deferred_count > 0):
            text = f"Consumers {done}: {_messages(episode.count)}. That is over."
            yield _on_channel(key, kind, text, episode.count, is_bad=False, **times)
            continue
        finishes = activity.finished >= max(episode.began, now - _SHORT)
        if not finishes and activity.finished >= episode.began:
            others = f"nothing was finished in the last {_minutes(now - activity.finished)}"
        else:
            others = f"{'other messages are' if finishes else 'nothing was'} finished meanwhile"
        text = f"Consumers have {done}: {_messages(episode.count)}; {others}: {cause}."
        yield _on_channel(key, kind, text, episode.count, is_bad=not finishes, since=episode.began)


def _slow(
    key: Key,
    channel: ChannelStats,
    activity: Activity,
    trend_of: TrendOf,
    snapshot: Snapshot,
    *,
    is_served: bool,
) -> Iterator[Problem]:
    """Yield the problems of a channel whose consumers do not answer, or do not keep up.

    :param is_served: whether messages wait on an nsqd that has consumers, and where the channel is not paused
    """
    now, patience = snapshot.survey.time, activity.patience(snapshot.interval)
    if is_served and now - (idle := activity.idle_since()) >= patience:
        held = channel.in_flight_count
        # nsqd sends a waiting message at once to any consumer whose RDY allows it.
        taken = (
            f"consumers hold {held:,} and answer none"
            if held
            else "every consumer has RDY 0: they are paused, are backing off after failures, or hang"
        )
        text = f"Nothing is finished: {messages_wait(channel.depth)}, and {taken}."
        yield _on_channel(key, "stalled", text, channel.depth, is_bad=True, since=idle)
    elif not is_served and now - activity.holding >= patience:
        text = (
            f"Consumers hold {_messages(channel.in_flight_count)} and answer none: they work long, or hang."
        )
        yield _on_channel(key, "holding", text, channel.in_flight_count, is_bad=False, since=activity.holding)
    elif channel.depth >= _LEAST_GROWTH and not channel.paused:
        for seconds in (_SHORT, _LONG):
            if (trend := trend_of(key, seconds)) is not None and (found := _growing(key, channel, trend)):
                yield replace(found, since=activity.waiting)
                return


def _idle_on_some(
    key: Key, topic: Totals[TopicStats], shown: Mapping[str, str], activity: Activity, snapshot: Snapshot
) -> Iterator[Problem]:
    """Yield the problem of a channel that is idle on some nsqds, and moves on others."""
    now, patience = snapshot.survey.time, activity.patience(snapshot.interval, len(topic.nodes))
    idle: dict[str, float] = {}
    rows: list[ChannelStats] = []
    for url, since in activity.idle_on.items():
        row = next(each for each in topic.nodes[url].channels if each.channel_name == key[1])
        # Consumers that may hold fewer messages than they have connections serve their nsqds by turns.
        if not row.paused and now - since >= (patience if row.in_flight_count else max(_TURN, patience)):
            idle[shown.get(url, url)] = since
            rows.append(row)
    if not rows:
        return
    count, held = sum(row.depth for row in rows), sum(row.in_flight_count for row in rows)
    taken = f"consumers hold {held:,} and answer none" if held else "every consumer has RDY 0 there"
    text = f"Nothing is finished on {named(list(idle))}: {messages_wait(count)}, and {taken}."
    yield _on_channel(key, "nsqd_stalled", text, count, is_bad=held > 0, since=min(idle.values()))


_TURN = 60.0
"""The seconds for which an nsqd may go without its turn: go-nsq takes RDY from an idle connection after 10 s,
and from others after 30 s."""

_SHORT, _LONG = 300.0, 3600.0
"""The seconds over which a depth is compared; a slow growth shows in the longer time alone."""


def _growing(key: Key, channel: ChannelStats, trend: Trend) -> Problem | None:
    over = f"over the last {_minutes(trend.seconds)}"
    if is_ephemeral(key[1]) and _is_full(channel, trend):
        text = (
            f"It has held {channel.depth:,} messages {over}, while {per_second(trend.ingress)} came in: its "
            "memory is full, and nsqd drops further messages of an ephemeral channel."
        )
        return _on_channel(key, "overflows", text, channel.depth, is_bad=True)
    # When an nsqd answers again, its messages count again, and none has come.
    came = (trend.ingress - trend.egress) * trend.seconds  # NaN if not known
    if came < trend.growth / 2:
        return None
    if trend.growth >= max(_LEAST_GROWTH, _LEAST_SHARE * trend.depths[0]):
        rate = trend.growth / trend.seconds
        text = (
            f"The depth grew by {trend.growth:,.0f} {over}, to {channel.depth:,}: "
            f"{per_second(trend.ingress)} came in, {per_second(trend.egress)} were finished."
        )
        if not channel.backend_depth and (left := _MEM_QUEUE_SIZE - channel.depth) > 0:
            text += (
                f" At this rate it reaches nsqd's default --mem-queue-size of {_MEM_QUEUE_SIZE:,} in "
                f"{_minutes(left / rate)}."
            )
        return _on_channel(key, "growing", text, channel.depth, is_bad=True)
    return None


_MEM_QUEUE_SIZE = 10_000
"""What nsqd keeps of a channel in memory by default, before it writes to disk."""


def _is_full(channel: ChannelStats, trend: Trend) -> bool:
    """Return whether a channel's depth stands at a limit, although messages come in.

    A channel whose consumers keep up empties now and then; one that is full differs by what is in flight.
    """
    lowest, highest = min(trend.depths), max(trend.depths)
    return (
        trend.seconds >= LEAST_SECONDS
        and trend.ingress > 0
        and highest >= _LEAST_GROWTH
        and lowest >= _FULL * highest
        and not channel.backend_depth
    )


def _per_nsqd(
    shown: Mapping[str, str], topic: Totals[TopicStats], activities: Mapping[Key, Activity]
) -> Iterator[Problem]:
    """Yield the problems of channels that depend on the nsqd: each nsqd has a queue of its own."""
    # One pass over all rows: a large cluster has very many.
    holders: dict[str, set[str]] = {channel.channel_name: set() for channel in topic.total.channels}
    paused: dict[str, dict[str, int]] = {}  # by channel and nsqd, also where nothing waits
    unserved: dict[str, dict[str, int]] = {}
    deferred: dict[str, int] = {}
    for url, stats in topic.nodes.items():
        for row in stats.channels:
            holders[row.channel_name].add(url)
            if row.paused:
                paused.setdefault(row.channel_name, {})[shown.get(url, url)] = row.depth
            elif row.depth and not row.client_count:
                unserved.setdefault(row.channel_name, {})[shown.get(url, url)] = row.depth
            elif row.deferred_count and not row.client_count:
                deferred[row.channel_name] = deferred.get(row.channel_name, 0) + row.deferred_count
    for channel in topic.total.channels:
        name = channel.channel_name
        key = topic.total.topic_name, name
        since = activities[key].waiting if key in activities else NEVER
        if len(holders[name]) < len(topic.nodes):
            lacking = [url for url in topic.nodes if url not in holders[name]]
            yield from _missing(key, [shown.get(url, url) for url in lacking])
        if any((held := paused.get(name, {})).values()):
            yield replace(_paused(key, held, everywhere=len(held) == len(holders[name])), since=since)
        if waiting := unserved.get(name):
            yield replace(_unserved(key, waiting, everywhere=not channel.client_count), since=since)
        if name in deferred and not channel.client_count:
            text = f"No consumer is connected; {_messages(deferred[name])} deferred in it will come due."
            yield _on_channel(key, "no_consumers", text, deferred[name], is_bad=False)


def _paused(key: Key, held: Mapping[str, int], *, everywhere: bool) -> Problem:
    count = sum(held.values())
    where = "" if everywhere else f" on {named([nsqd for nsqd, depth in held.items() if depth])}"
    there = "" if everywhere else " there"
    text = f"The channel is paused{where}, and {messages_wait(count)}{there} until it is unpaused."
    return _on_channel(key, "paused", text, count, is_bad=False)


def _missing(key: Key, nsqds: Sequence[str]) -> Iterator[Problem]:
    if is_ephemeral(key[1]):
        return  # it comes and goes with its consumers, separately on each nsqd
    have = "has" if len(nsqds) == 1 else "have"
    text = f"{named(nsqds)} {have} the topic and not this channel, which gets no messages from there."
    yield _on_channel(key, "channel_missing", text, len(nsqds), is_bad=False)


def _unserved(key: Key, waiting: Mapping[str, int], *, everywhere: bool) -> Problem:
    count = sum(waiting.values())
    if everywhere:
        text = f"No consumer is connected, and {messages_wait(count)}."
        return _on_channel(key, "no_consumers", text, count, is_bad=True)
    text = f"No consumer is connected to {named(list(waiting))}, where {messages_wait(count)}."
    return _on_channel(key, "nsqd_without_consumers", text, count, is_bad=True)


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count:,} messages"


def _minutes(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.0f} h"
