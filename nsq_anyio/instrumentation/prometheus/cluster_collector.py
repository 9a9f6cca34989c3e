"""The metrics of a cluster, from the last poll."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric as Family

from ...address import Address
from ...errors import InvalidAddress
from ...http import ChannelStats, ClientStats, Latency, Node, NsqdSurvey, Survey, TopicStats
from ...monitoring import Counts, Poller, Snapshot
from ...options.checks import check_integer
from .cluster_metrics import (
    CHANNEL,
    CHANNEL_LATENCY,
    CLIENT,
    CLUSTER_METRICS,
    LEFT_OUT,
    NSQD_ANSWER,
    NSQD_HEALTHY,
    NSQD_INFO,
    NSQD_START,
    NSQD_UP,
    NSQLOOKUPD_ANSWER,
    NSQLOOKUPD_NSQDS,
    NSQLOOKUPD_UNUSABLE,
    NSQLOOKUPD_UP,
    REGISTERED,
    REGISTRATION_LAG,
    SURVEY_DURATION,
    SURVEY_TIME,
    SURVEYS,
    TOMBSTONED,
    TOPIC,
    TOPIC_LATENCY,
    UNREGISTERED_TOPICS,
)
from .metrics import Metric
from .samples import empty_family

Labels = dict[str, str]
Row = tuple[Labels, TopicStats | ChannelStats, Counts]
"""A topic or channel, on one nsqd or on all, with its labels and counters."""

_EPHEMERAL = "#ephemeral"


def _every(_: str) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLabels:
    """Bounds the number of series in the metrics of a cluster.

    :ivar topics: returns whether a topic has metrics, by its name; default: all have. Called in any thread
    :ivar ephemeral: whether ephemeral topics and channels have metrics; default True
    :ivar by_nsqd: whether topics and channels have metrics for each nsqd. Otherwise they have the sums over
        all nsqds, without the label ``nsqd``; counters then do not decrease when an nsqd comes, goes or
        restarts. Default True
    :ivar clients: whether each consumer's connection has metrics; this needs a poller that asks for clients.
        Default False
    :ivar max_channels: the most topics and channels with metrics, counted on each nsqd, 1 or more; each has
        up to 11 series. The first in alphabetical order are chosen. Default 20,000
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
    """The series of one snapshot.

    :ivar names: the label ``nsqd`` of each nsqd, by its URL
    """

    def __init__(self, snapshot: Snapshot, labels: ClusterLabels) -> None:
        self._snapshot = snapshot
        self._survey = survey = snapshot.survey
        self._labels = labels
        self.names: dict[str, str] = _names([each.node for each in survey.nsqds])

    def rows(self) -> Iterator[Row]:
        """Yield the topics and channels, sorted by their names."""
        return self._by_nsqd() if self._labels.by_nsqd else self._of_all()

    def tombstones(self) -> Iterator[tuple[Labels, int]]:
        """Yield the labels of each topic that an nsqlookupd hides on an nsqd, and its messages there."""
        topics = {totals.total.topic_name: totals.nodes for totals in self._snapshot.topics}
        for nsqd in self._survey.nsqds:
            for topic in nsqd.node.tombstoned:
                if self._labels.wants_topic(topic):
                    row = topics.get(topic, {}).get(nsqd.node.url, TopicStats())
                    count = row.depth + sum(channel.depth for channel in row.channels)
                    yield {"topic": topic, "nsqd": self.names[nsqd.node.url]}, count

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
        """Yield the topics and channels of each nsqd, in an order in which limits affect all nsqds alike."""
        nodes = self._snapshot.figures.nodes
        for totals in self._snapshot.topics:
            name = totals.total.topic_name
            if not self._labels.wants_topic(name):
                continue
            channels: dict[str, dict[str, ChannelStats]] = {}
            for url, topic in totals.nodes.items():
                yield {"topic": name, "nsqd": self.names[url]}, topic, _counts(nodes[name][url][""])
                for channel in topic.channels:
                    if self._labels.wants_channel(channel.channel_name):
                        channels.setdefault(channel.channel_name, {})[url] = channel
            for channel_name, found in sorted(channels.items()):
                for url, channel in found.items():
                    labels = {"topic": name, "channel": channel_name, "nsqd": self.names[url]}
                    yield labels, channel, _counts(nodes[name][url][channel_name])

    def _of_all(self) -> Iterator[Row]:
        """Yield the topics and channels, with their sums over all nsqds."""
        sums = self._snapshot.figures.sums
        for totals in self._snapshot.topics:
            topic = totals.total
            name = topic.topic_name
            if not self._labels.wants_topic(name):
                continue
            yield {"topic": name}, topic, sums.get((name, ""), Counts())
            for channel in topic.channels:
                if self._labels.wants_channel(channel.channel_name):
                    labels = {"topic": name, "channel": channel.channel_name}
                    yield labels, channel, sums.get((name, channel.channel_name), Counts())


def _counts(values: Sequence[int]) -> Counts:
    return Counts(*values[:5])


def _names(nodes: Iterable[Node]) -> dict[str, str]:
    """Return the label of each nsqd: its TCP address, as in consumers' metrics, or its URL if not unique.

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


T = TypeVar("T")

_DEFAULT_LABELS = ClusterLabels()


class ClusterCollector:
    """Collects the metrics of the last poll of a cluster; see `CLUSTER_METRICS`.

    ::

        async with nsq.http.Cluster(nsqlookupd="http://127.0.0.1:4161") as cluster:
            async with Poller(cluster) as poller:
                registry.register(ClusterCollector(poller))

    :param poller: polls the cluster
    :param labels: which series there are
    :param registry: the registry to register with; None for none
    """

    def __init__(
        self,
        poller: Poller,
        *,
        labels: ClusterLabels = _DEFAULT_LABELS,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self._poller = poller
        self._labels = labels
        if registry is not None:
            registry.register(self)

    def describe(self) -> Iterable[Family]:
        """Return the metrics without values. Called when the collector is registered."""
        return map(empty_family, CLUSTER_METRICS)

    def collect(self) -> Iterable[Family]:
        """Return the metrics of the last poll; before the first, without values. Any thread may call this."""
        samples = _Samples()
        snapshot = self._poller.last
        if snapshot is not None:
            _Collection(snapshot, self._labels, samples).run()
        return samples.families()


class _Samples:
    """The samples of one scrape."""

    def __init__(self) -> None:
        self._families = {metric.name: empty_family(metric) for metric in CLUSTER_METRICS}

    def add(self, metric: Metric, labels: Labels, value: float) -> None:
        self._families[metric.name].add_sample(metric.name, labels, value)

    def add_all(self, metrics: Iterable[Metric], labels: Labels, values: Iterable[float]) -> None:
        for metric, value in zip(metrics, values, strict=True):
            self._families[metric.name].add_sample(metric.name, labels, value)

    def families(self) -> list[Family]:
        return list(self._families.values())


class _Collection:
    """One scrape."""

    def __init__(self, snapshot: Snapshot, labels: ClusterLabels, samples: _Samples) -> None:
        self._snapshot = snapshot
        self._survey: Survey = snapshot.survey
        self._labels = labels
        self._samples = samples
        self._rows = Rows(snapshot, labels)
        self._names = self._rows.names
        self._left_out = 0

    def run(self) -> None:
        self._add_exporter()
        for nsqd in self._survey.nsqds:
            self._add_nsqd(nsqd)
        self._add_nsqlookupds()
        self._add_rows()
        self._samples.add(LEFT_OUT, {}, self._left_out)

    def _add_exporter(self) -> None:
        self._samples.add(SURVEYS, {}, self._snapshot.number)
        self._samples.add(SURVEY_TIME, {}, self._survey.time)
        self._samples.add(SURVEY_DURATION, {}, self._survey.seconds)

    def _add_nsqd(self, nsqd: NsqdSurvey) -> None:
        node, name = nsqd.node, self._names[nsqd.node.url]
        labels = {"nsqd": name}
        self._samples.add(NSQD_UP, labels, not nsqd.error)
        self._samples.add(NSQD_ANSWER, labels, nsqd.seconds)
        info = {"url": node.url, "hostname": node.hostname, "version": nsqd.stats.version or node.version}
        self._samples.add(NSQD_INFO, {**labels, **info}, 1)
        if not nsqd.error:
            self._samples.add(NSQD_HEALTHY, labels, nsqd.stats.health in ("", "OK"))
            self._samples.add(NSQD_START, labels, nsqd.stats.start_time)

    def _add_nsqlookupds(self) -> None:
        for nsqlookupd in self._survey.nsqlookupds:
            labels = {"nsqlookupd": nsqlookupd.url}
            self._samples.add(NSQLOOKUPD_UP, labels, not nsqlookupd.error)
            self._samples.add(NSQLOOKUPD_ANSWER, labels, nsqlookupd.seconds)
            if nsqlookupd.error:
                continue  # its registrations are unknown
            self._samples.add(NSQLOOKUPD_NSQDS, labels, len(nsqlookupd.nodes))
            self._samples.add(NSQLOOKUPD_UNUSABLE, labels, len(nsqlookupd.unusable))
            known = {node.url: node for node in nsqlookupd.nodes}
            for nsqd in self._survey.nsqds:
                both = {"nsqd": self._names[nsqd.node.url], **labels}
                node = known.get(nsqd.node.url)
                self._samples.add(REGISTERED, both, node is not None)
                if not nsqd.error:
                    lag = self._snapshot.missing.get((nsqd.node.url, nsqlookupd.url), 0.0)
                    self._samples.add(REGISTRATION_LAG, both, lag)
                    topics = {topic.topic_name for topic in nsqd.stats.topics}
                    listed = () if node is None else node.topics
                    self._samples.add(UNREGISTERED_TOPICS, both, len(topics.difference(listed)))

    def _add_rows(self) -> None:
        for labels, row, counts in self._bounded(self._rows.rows()):
            if isinstance(row, TopicStats):
                self._add_topic(labels, row, counts)
            else:
                self._add_channel(labels, row, counts)
        for labels, count in self._bounded(self._rows.tombstones()):
            self._samples.add_all(TOMBSTONED, labels, (1, count))
        for labels, client in self._bounded(self._rows.clients()):
            gauges = (client.ready_count, client.in_flight_count)
            counters = (client.message_count, client.finish_count, client.requeue_count)
            self._samples.add_all(CLIENT, labels, (*gauges, *counters))

    def _bounded(self, rows: Iterator[T]) -> Iterator[T]:
        """Yield as many rows as may have metrics, and count the others."""
        yield from islice(rows, self._labels.max_channels)
        self._left_out += sum(1 for _ in rows)

    def _add_topic(self, labels: Labels, row: TopicStats, counts: Counts) -> None:
        gauges = (row.depth, row.backend_depth, row.paused, len(row.channels))
        self._samples.add_all(TOPIC, labels, (*gauges, counts.messages, counts.message_bytes))
        self._add_latency(TOPIC_LATENCY, labels, row.e2e_processing_latency)

    def _add_channel(self, labels: Labels, row: ChannelStats, counts: Counts) -> None:
        gauges = (row.depth, row.backend_depth, row.in_flight_count, row.deferred_count, row.client_count)
        counters = (counts.messages, counts.finished, counts.requeued, counts.timed_out)
        self._samples.add_all(CHANNEL, labels, (*gauges, row.paused, *counters))
        self._add_latency(CHANNEL_LATENCY, labels, row.e2e_processing_latency)

    def _add_latency(self, metric: Metric, labels: Labels, latency: Latency) -> None:
        values = {each.quantile: each.value for each in latency.percentiles} if latency.count else {}
        for quantile, seconds in values.items():
            self._samples.add(metric, {**labels, "quantile": f"{quantile:g}"}, seconds)
