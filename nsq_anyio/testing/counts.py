"""How many messages there are in a topic and its channels."""

from __future__ import annotations

from collections.abc import Sequence

from ..http.nsqd import Nsqd
from ..http.stats import TopicStats


async def topics_of(http_urls: Sequence[str], topic: str) -> list[TopicStats]:
    """Return the statistics of a topic on each nsqd that has it."""
    found: list[TopicStats] = []
    for url in http_urls:
        async with Nsqd(url) as http:
            stats = await http.stats(topic=topic, include_clients=False, include_mem=False)
        found += stats.topics
    return found


class Counts:
    """The messages of a topic and one of its channels, or of the topic alone.

    :ivar exists: whether any nsqd has the channel, or the topic
    :ivar topic_depth: messages that no channel has got yet
    :ivar depth: messages that wait in the channel, or in the topic
    """

    def __init__(self, topics: Sequence[TopicStats], channel: str | None) -> None:
        channels = [each for topic in topics for each in topic.channels if each.channel_name == channel]
        self.exists: bool = bool(topics) if channel is None else bool(channels)
        self.topic_depth: int = sum(topic.depth for topic in topics)
        self.depth: int = self.topic_depth if channel is None else sum(each.depth for each in channels)
        self.in_flight: int = sum(each.in_flight_count for each in channels)
        self.deferred: int = sum(each.deferred_count for each in channels)

    @property
    def is_empty(self) -> bool:
        """Whether there is no message, in whatever state."""
        return not (self.topic_depth or self.depth or self.in_flight or self.deferred)

    def __str__(self) -> str:
        if not self.exists:
            return "not been created"
        return f"a depth of {self.depth}, {self.in_flight} messages in flight and {self.deferred} deferred"
