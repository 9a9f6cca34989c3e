"""Health rules: stuck topics and failing servers, found in a snapshot and recent trends."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..http import ChannelStats, NsqdSurvey, Survey, TopicStats, Totals
from ..names import is_ephemeral
from .snapshot import Key, Snapshot
from .trend import LEAST_SECONDS, Trend, TrendOf


def problems(snapshot: Snapshot, trend_of: TrendOf) -> list[Problem]:
    """Return all problems: bad ones before others, then servers before topics, then by weight."""
    found = [*server_problems(snapshot.survey), *topic_problems(snapshot, trend_of)]
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
    "growing": "growing",
    "requeues": "requeues",
    "timeouts": "timeouts",
    "channel_missing": "channel missing",
    "nsqd_without_consumers": "no consumers",
}


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
    """

    kind: str
    text: str
    is_bad: bool = False
    topic: str = ""
    channel: str = ""
    server: str = ""
    weight: float = 0.0

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


def server_problems(survey: Survey) -> Iterator[Problem]:
    """Yield the problems of servers and of registrations."""
    for each in survey.nsqlookupds:
        if each.error:
            text = f"This nsqlookupd does not answer: {each.error}."
            yield Problem(kind="nsqlookupd_down", is_bad=True, server=each.url, text=text, weight=2)
        for reason in each.unusable:
            text = f"An nsqd registered there cannot be asked: {reason}."
            yield Problem(kind="unusable", server=each.url, text=text)
    for nsqd in survey.nsqds:
        yield from _of_nsqd(survey, nsqd)


def _of_nsqd(survey: Survey, nsqd: NsqdSurvey) -> Iterator[Problem]:
    url = nsqd.node.url
    if nsqd.error:
        text = f"This nsqd does not answer: {nsqd.error}. No figure includes its messages."
        yield Problem(kind="nsqd_down", is_bad=True, server=url, text=text, weight=1)
        return
    if nsqd.stats.health not in ("", "OK"):
        yield Problem(kind="unhealthy", is_bad=True, server=url, text=f"It reports: {nsqd.stats.health}.")
    answered = [each for each in survey.nsqlookupds if not each.error]
    entries = {each.url: node for each in answered for node in each.nodes if node.url == url}
    missing = [each.url for each in answered if each.url not in entries]
    if missing and len(missing) == len(answered):
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


def topic_problems(snapshot: Snapshot, trend_of: TrendOf) -> Iterator[Problem]:
    """Yield the problems of topics and channels."""
    shown = {each.node.url: each.node.name for each in snapshot.survey.nsqds}
    for each in snapshot.topics:
        topic = each.total
        yield from _of_topic(topic)
        yield from _per_nsqd(shown, each)
        for channel in topic.channels:
            key = topic.topic_name, channel.channel_name
            yield from _of_channel(key, channel)
            # A new channel has no trend, and only consumers can be slow.
            if channel.client_count and (trend := trend_of(key)) is not None:
                yield from _slow(key, channel, trend)


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


def _of_channel(key: Key, channel: ChannelStats) -> Iterator[Problem]:
    if not channel.depth:
        return
    if channel.paused:
        kind = "paused"
        text = f"The channel is paused, and {messages_wait(channel.depth)} until it is unpaused."
    elif not channel.client_count:
        kind = "no_consumers"
        text = f"No consumer is connected, and {messages_wait(channel.depth)}."
    else:
        return
    yield _on_channel(key, kind, text, channel.depth, is_bad=not channel.paused)


def _on_channel(key: Key, kind: str, text: str, weight: float, *, is_bad: bool) -> Problem:
    topic, channel = key
    return Problem(kind=kind, is_bad=is_bad, topic=topic, channel=channel, text=text, weight=weight)


def _slow(key: Key, channel: ChannelStats, trend: Trend) -> Iterator[Problem]:
    """Yield the problems of a channel whose consumers fail or cannot keep up."""
    over = f"over the last {_minutes(trend.seconds)}"
    if channel.depth and not channel.paused:
        if trend.egress == 0 and min(trend.depths) > 0 and trend.seconds >= LEAST_SECONDS:
            taken = (
                f"consumers hold {channel.in_flight_count:,}" if channel.in_flight_count else "none is taken"
            )
            text = f"Nothing was finished {over}: {messages_wait(channel.depth)}, and {taken}."
            yield _on_channel(key, "stalled", text, channel.depth, is_bad=True)
        elif trend.growth >= max(_LEAST_GROWTH, 0.01 * trend.depths[0]):
            text = (
                f"The depth grew by {trend.growth:,.0f} {over}, to {channel.depth:,}: "
                f"{per_second(trend.ingress)} came in, {per_second(trend.egress)} were finished."
            )
            yield _on_channel(key, "growing", text, channel.depth, is_bad=True)
    if trend.requeued >= 0.1 and trend.requeued >= 0.25 * trend.egress:
        text = (
            f"Consumers requeue {per_second(trend.requeued)} and finish {per_second(trend.egress)}: "
            "their handlers fail."
        )
        yield _on_channel(key, "requeues", text, trend.requeued, is_bad=trend.requeued >= trend.egress)
    if trend.timed_out >= 0.05 and trend.timed_out >= 0.02 * trend.egress:
        text = (
            f"{per_second(trend.timed_out)} time out, and {per_second(trend.egress)} are finished: "
            "consumers take longer than the message timeout, or hang."
        )
        yield _on_channel(key, "timeouts", text, trend.timed_out, is_bad=trend.timed_out >= trend.egress)


def _per_nsqd(shown: Mapping[str, str], topic: Totals[TopicStats]) -> Iterator[Problem]:
    """Yield the problems of channels on single nsqds."""
    # One pass over all rows: a large cluster has very many.
    holders: dict[str, set[str]] = {channel.channel_name: set() for channel in topic.total.channels}
    alone: dict[str, dict[str, int]] = {}
    for url, stats in topic.nodes.items():
        for row in stats.channels:
            holders[row.channel_name].add(url)
            if row.depth and not row.client_count:
                alone.setdefault(row.channel_name, {})[url] = row.depth
    for channel in topic.total.channels:
        key = topic.total.topic_name, channel.channel_name
        if len(holders[channel.channel_name]) < len(topic.nodes):
            lacking = [url for url in topic.nodes if url not in holders[channel.channel_name]]
            yield from _missing(key, [shown.get(url, url) for url in lacking])
        waiting = alone.get(channel.channel_name)
        if waiting and channel.client_count and not channel.paused:
            yield _alone(key, {shown.get(url, url): depth for url, depth in waiting.items()})


def _missing(key: Key, nsqds: Sequence[str]) -> Iterator[Problem]:
    if is_ephemeral(key[1]):
        return  # it comes and goes with its consumers, separately on each nsqd
    have = "has" if len(nsqds) == 1 else "have"
    text = f"{named(nsqds)} {have} the topic and not this channel, which gets no messages from there."
    yield _on_channel(key, "channel_missing", text, len(nsqds), is_bad=False)


def _alone(key: Key, waiting: Mapping[str, int]) -> Problem:
    count = sum(waiting.values())
    text = f"No consumer is connected to {named(list(waiting))}, where {messages_wait(count)}."
    return _on_channel(key, "nsqd_without_consumers", text, count, is_bad=True)


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
