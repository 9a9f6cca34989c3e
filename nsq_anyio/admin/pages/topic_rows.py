"""Topics and channels as tables show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...http import Latency, TopicStats, Totals
from ...monitoring import Problem
from ...monitoring.figures import Key
from ...names import is_ephemeral
from .measures import NOTHING, Measures


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A topic or a channel over all nsqds.

    :ivar channel: empty for a topic
    :ivar measures: depth, rates and so on; a topic's depth counts what waits in its channels, too
    :ivar on_disk: how many of the messages that wait are on disk
    :ivar messages: all that came so far
    :ivar size: the size of their bodies in bytes; 0 for a channel
    :ivar waiting: a topic's own depth: what no channel has taken yet; 0 for a channel
    :ivar channels: how many channels a topic has; 0 for a channel
    :ivar nsqds: how many nsqds have it
    :ivar clients: how many consumers are connected
    :ivar problems: those of a topic include those of its channels
    """

    topic: str
    channel: str
    measures: Measures
    on_disk: int
    messages: int
    size: int
    waiting: int
    channels: int
    nsqds: int
    clients: int
    is_paused: bool
    latency: Latency
    problems: Sequence[Problem]

    @property
    def name(self) -> str:
        """The channel, or the topic if it is none."""
        return self.channel or self.topic

    @property
    def is_ephemeral(self) -> bool:
        """Whether nsqd drops it with its last client."""
        return is_ephemeral(self.name)

    @property
    def level(self) -> str:
        """``bad`` or ``warn`` if there is a problem; otherwise nothing."""
        if not self.problems:
            return ""
        return "bad" if any(each.is_bad for each in self.problems) else "warn"


def topic_row(totals: Totals[TopicStats], measures: Measures, problems: Sequence[Problem]) -> Row:
    """Return the row of a topic."""
    topic = totals.total
    return Row(
        topic=topic.topic_name,
        channel="",
        measures=measures,
        on_disk=topic.backend_depth + sum(channel.backend_depth for channel in topic.channels),
        messages=topic.message_count,
        size=topic.message_bytes,
        waiting=topic.depth,
        channels=len(topic.channels),
        nsqds=len(totals.nodes),
        clients=sum(channel.client_count for channel in topic.channels),
        is_paused=topic.paused,
        latency=topic.e2e_processing_latency,
        problems=problems,
    )


def channel_rows(
    totals: Totals[TopicStats], measures: Mapping[Key, Measures], problems: Mapping[Key, Sequence[Problem]]
) -> list[Row]:
    """Return the rows of the channels of a topic."""
    topic = totals.total.topic_name
    holders = Counter(channel.channel_name for row in totals.nodes.values() for channel in row.channels)
    return [
        Row(
            topic=topic,
            channel=channel.channel_name,
            measures=measures.get((topic, channel.channel_name), NOTHING),
            on_disk=channel.backend_depth,
            messages=channel.message_count,
            size=0,
            waiting=0,
            channels=0,
            nsqds=holders[channel.channel_name],
            clients=channel.client_count,
            is_paused=channel.paused,
            latency=channel.e2e_processing_latency,
            problems=problems.get((topic, channel.channel_name), ()),
        )
        for channel in totals.total.channels
    ]
