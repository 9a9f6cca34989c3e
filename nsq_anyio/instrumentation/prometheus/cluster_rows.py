"""The series of a cluster: which topics, channels and clients have metrics, and the names of nsqds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from ...address import Address
from ...errors import InvalidAddress
from ...http import ChannelStats, ClientStats, Node, Survey, TopicStats
from ...monitoring import Counts, Figures
from ...options.checks import check_integer

Labels = dict[str, str]
Row = tuple[Labels, TopicStats | ChannelStats, Counts]
"""A topic or channel, on one nsqd or on all, with its labels and counters."""

_EPHEMERAL = "#ephemeral"


def _every(_: str) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLabels:
    """Bounds how many series the metrics of a cluster have.

    :ivar topics: whether a topic has metrics, by its name; default: each has. Called in any thread
    :ivar ephemeral: whether ephemeral topics and channels have metrics; default True
    :ivar by_nsqd: whether topics and channels have metrics for each nsqd. Otherwise they have the sums over
        all nsqds, without the label ``nsqd``; counters then do not decrease when an nsqd comes, goes or
        restarts. Default True
    :ivar clients: whether each consumer's connection has metrics; it needs a poller that asks for them.
        Default False
    :ivar max_channels: how many topics and channels may have metrics, on each nsqd counted, 1 or more; each
        has up to 10 series. The first in alphabetical order do. Default 20,000
    :raises InvalidOption: if a value is outside its range
    """

    topics: Callable[[str], bool] = _every
    ephemeral: bool = True
    by_nsqd: bool = True
    clients: bool = False
    max_channels: int = 20_000

    def __post_init__(self) -> None:
        check_integer("max_channels", self.max_channels, 1)

    def wants_topic(self, name: str) -> bool:
        """Return whether a topic has metrics."""
        return self.wants_channel(name) and self.topics(name)

    def wants_channel(self, name: str) -> bool:
        """Return whether a channel of a topic that has metrics has them, too."""
        return self.ephemeral or not name.endswith(_EPHEMERAL)


class Rows:
    """What has metrics in one survey.

    :ivar names: the label ``nsqd`` of each nsqd, by its URL
    """

    def __init__(self, survey: Survey, figures: Figures, labels: ClusterLabels) -> None:
        self._survey = survey
        self._figures = figures
        self._labels = labels
        self.names: dict[str, str] = _names([each.node for each in survey.nsqds])

    def rows(self) -> Iterator[Row]:
        """Yield the topics and channels, sorted by their names."""
        return self._by_nsqd() if self._labels.by_nsqd else self._of_all()

    def tombstones(self) -> Iterator[Labels]:
        """Yield the labels of each topic that an nsqlookupd hides on an nsqd."""
        for nsqd in self._survey.nsqds:
            for topic in nsqd.node.tombstoned:
                if self._labels.wants_topic(topic):
                    yield {"topic": topic, "nsqd": self.names[nsqd.node.url]}

    def clients(self) -> Iterator[tuple[Labels, ClientStats]]:
        """Yield the connections of consumers, each once, if they have metrics."""
        for nsqd in self._survey.nsqds if self._labels.clients else ():
            found: dict[tuple[str, ...], ClientStats] = {}
            for topic in nsqd.stats.topics:
                if self._labels.wants_topic(topic.topic_name):
                    for channel in topic.channels:
                        if self._labels.wants_channel(channel.channel_name):
                            names = (topic.topic_name, channel.channel_name, self.names[nsqd.node.url])
                            found |= {
                                (*names, each.client_id, each.remote_address): each
                                for each in channel.clients
                            }
            for key, client in found.items():
                yield dict(zip(("topic", "channel", "nsqd", "client", "address"), key, strict=True)), client

    def _by_nsqd(self) -> Iterator[Row]:
        """Yield the topics and channels of each nsqd, in such an order that a limit is alike for all."""
        nsqds: dict[str, dict[str, TopicStats]] = {}
        for nsqd in self._survey.nsqds:
            for topic in nsqd.stats.topics:
                if self._labels.wants_topic(topic.topic_name):
                    nsqds.setdefault(topic.topic_name, {})[self.names[nsqd.node.url]] = topic
        for name, topics in sorted(nsqds.items()):
            channels: dict[str, dict[str, ChannelStats]] = {}
            for nsqd_name, topic in topics.items():
                counts = Counts(topic.message_count, topic.message_bytes)
                yield {"topic": name, "nsqd": nsqd_name}, topic, counts
                for channel in topic.channels:
                    if self._labels.wants_channel(channel.channel_name):
                        channels.setdefault(channel.channel_name, {})[nsqd_name] = channel
            for channel_name, found in sorted(channels.items()):
                for nsqd_name, channel in found.items():
                    counts = Counts(channel.message_count, 0, channel.requeue_count, channel.timeout_count)
                    yield {"topic": name, "channel": channel_name, "nsqd": nsqd_name}, channel, counts

    def _of_all(self) -> Iterator[Row]:
        """Yield the topics and channels, with their sums over all nsqds."""
        sums = self._figures.sums
        for totals in self._survey.topics():
            topic = totals.total
            name = topic.topic_name
            if not self._labels.wants_topic(name):
                continue
            yield {"topic": name}, topic, sums.get((name, ""), Counts())
            for channel in topic.channels:
                if self._labels.wants_channel(channel.channel_name):
                    labels = {"topic": name, "channel": channel.channel_name}
                    yield labels, channel, sums.get((name, channel.channel_name), Counts())


def _names(nodes: Iterable[Node]) -> dict[str, str]:
    """Return the label of each nsqd: its TCP address, as consumers name it; its URL where that is not unique.

    Prometheus refuses a whole scrape in which two series have the same labels.
    """
    names = {node.url: _name(node) for node in nodes}
    counts = Counter(names.values())
    return {url: name if counts[name] == 1 else url for url, name in names.items()}


def _name(node: Node) -> str:
    try:
        return str(Address(node.broadcast_address, node.tcp_port))
    except InvalidAddress:  # nothing is known of it, or it listens on a unix socket
        return urlsplit(node.url).netloc or node.url
