"""Readers of one consumer, producer or service for delays, which measure it in its event loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Protocol

from ...consumer import Consumer
from ...delaying import DelayFile, Delays
from ...errors import NotSent, PublishRejected
from ...events import Event, PublishFailed, PublishResent
from ...producer import Producer
from . import metrics
from .metrics import CONSUMER_COUNTERS, Metric
from .samples import Histogram, Samples

_ATTEMPTS = (1, 2, 3, 5, 10, 20, 50, 100)
_CONSUMER_EVENTS = (
    "BackoffStarted",
    "ConnectFailed",
    "Connected",
    "DeadLetterFailed",
    "Disconnected",
    "LookupFailed",
    "LoopBlocked",
    "ThreadAbandoned",
)
_PRODUCER_EVENTS = ("ConnectFailed", "Connected", "Disconnected", "LookupFailed", "NsqdLeftOut")
_OUTCOMES = ("stored", "rejected", "not_sent", "unknown")

MOST_TOPICS = 1000
_OTHER_TOPICS = "(other)"
"""The label of all further topics of a producer or a service. No topic can have this name."""


class Reader(Protocol):
    """Reads one consumer, producer or service for delays."""

    @property
    def channel(self) -> tuple[str, ...]:
        """The topic and channel of a consumer or service; empty for a producer."""
        ...

    @property
    def has_ended(self) -> bool:
        """Whether its block has ended. After that, no number changes, and any thread may call `read`."""
        ...

    def read(self) -> Samples:
        """Return the current values."""
        ...


class _Events:
    """Counts events by class name. Counts begin at 0, so that Prometheus sees the first event as a change."""

    def __init__(self, names: Sequence[str]) -> None:
        self._counts = dict.fromkeys(names, 0)

    def count(self, event: Event) -> None:
        name = type(event).__name__
        if name in self._counts:
            self._counts[name] += 1

    def read(self, samples: Samples, metric: Metric, *labels: str) -> None:
        for name, count in self._counts.items():
            samples.add(metric, count, *labels, name)


class ConsumerReader:
    """Measures a consumer, as its `ConsumerMeter`, and reads it."""

    def __init__(self, consumer: Consumer, buckets: Sequence[float]) -> None:
        self.durations: list[float] = []
        self._durations = Histogram(buckets)
        self.handled: Callable[[float], None] = self._durations.observe
        self._events = _Events(_CONSUMER_EVENTS)
        self.happened: Callable[[Event], None] = self._events.count
        self._consumer = consumer._measure(self)
        self.channel: tuple[str, ...] = (self._consumer.topic, self._consumer.channel)

    def fold(self) -> None:
        self._durations.observe_all(self.durations)
        self.durations.clear()

    @property
    def has_ended(self) -> bool:
        return self._consumer.has_ended

    def read(self) -> Samples:
        self.fold()
        consumer, samples = self._consumer, Samples()
        channel = self.channel
        statistics = consumer.statistics()
        for nsqd in consumer.nsqds:
            samples.add(metrics.CONSUMER_CONNECTIONS, 0, *channel, nsqd)
        for connection in statistics.per_connection:
            samples.add(metrics.CONSUMER_CONNECTIONS, 1, *channel, connection.nsqd)
            samples.add(metrics.RDY, connection.rdy, *channel, connection.nsqd)
            samples.add(metrics.IN_FLIGHT, connection.in_flight, *channel, connection.nsqd)
        for nsqd, counters in consumer.counters().items():
            for field, metric in CONSUMER_COUNTERS.items():
                samples.add(metric, getattr(counters, field), *channel, nsqd)
        samples.add(metrics.CONSUMER_WAITING, statistics.waiting, *channel)
        samples.add(metrics.MAX_IN_FLIGHT, consumer.max_in_flight, *channel)
        samples.add(metrics.BACKOFF_LEVEL, statistics.backoff_level, *channel)
        attempts = Histogram(_ATTEMPTS)
        attempts.observe_many(1, statistics.received - sum(statistics.redelivered.values()))
        for number, messages in statistics.redelivered.items():
            attempts.observe_many(number, messages)
        samples.add_histogram(metrics.ATTEMPTS, attempts, *channel)
        samples.add_histogram(metrics.HANDLER_DURATION, self._durations, *channel)
        self._events.read(samples, metrics.CONSUMER_EVENTS, *channel)
        return samples


class _Topic:
    """The counts of one topic."""

    __slots__ = ("durations", "outcomes", "resent", "size")

    def __init__(self, buckets: Sequence[float]) -> None:
        self.outcomes: dict[str, int] = dict.fromkeys(_OUTCOMES, 0)
        self.durations = Histogram(buckets)
        self.size = 0
        self.resent = 0


class ProducerReader:
    """Measures a producer, as its `ProducerMeter`, and reads it."""

    channel: tuple[str, ...] = ()

    def __init__(self, producer: Producer, buckets: Sequence[float]) -> None:
        self._buckets = buckets
        self._topics: dict[str, _Topic] = {}
        self._events = _Events(_PRODUCER_EVENTS)
        self._producer = producer._measure(self)

    def stored(self, topic: str, messages: int, size: int, seconds: float) -> None:
        found = self._topics.get(topic) or self._new_topic(topic)
        found.outcomes["stored"] += messages
        found.size += size
        found.durations.observe(seconds)

    def happened(self, event: Event) -> None:
        match event:
            case PublishFailed(topic=topic, messages=messages, error=error):
                self._topic(topic).outcomes[_outcome(error)] += messages
            case PublishResent(topic=topic, messages=messages):
                self._topic(topic).resent += messages
            case _:
                self._events.count(event)

    @property
    def has_ended(self) -> bool:
        return self._producer.has_ended

    def read(self) -> Samples:
        producer, samples = self._producer, Samples()
        statistics = producer.statistics()
        for connection in statistics.per_connection:
            nsqd = connection.nsqd
            samples.add(metrics.PRODUCER_CONNECTIONS, int(connection.connected), nsqd)
            samples.add(metrics.OUTSTANDING, connection.outstanding, nsqd)
            samples.add(metrics.OUTSTANDING_BYTES, connection.outstanding_bytes, nsqd)
        for nsqd, messages in producer.published().items():
            samples.add(metrics.STORED, messages, nsqd)
        samples.add(metrics.PRODUCER_WAITING, statistics.waiting)
        for name, topic in self._topics.items():
            for outcome, messages in topic.outcomes.items():
                samples.add(metrics.PUBLISHED, messages, name, outcome)
            samples.add(metrics.PUBLISHED_BYTES, topic.size, name)
            samples.add(metrics.RESENT, topic.resent, name)
            samples.add_histogram(metrics.PUBLISH_DURATION, topic.durations, name)
        self._events.read(samples, metrics.PRODUCER_EVENTS)
        return samples

    def _topic(self, topic: str) -> _Topic:
        return self._topics.get(topic) or self._new_topic(topic)

    def _new_topic(self, topic: str) -> _Topic:
        name = topic if len(self._topics) < MOST_TOPICS else _OTHER_TOPICS
        return self._topics.setdefault(name, _Topic(self._buckets))


class DelaysReader:
    """Reads a service for delays: its counters in its event loop, and its file in any thread."""

    def __init__(self, delays: Delays) -> None:
        self._delays = delays
        consumer = delays._consumer
        self.channel: tuple[str, ...] = (consumer.topic, consumer.channel)

    @property
    def has_ended(self) -> bool:
        return self._delays._over.is_set()

    def read(self) -> Samples:
        delays, samples = self._delays, Samples()
        samples.add(metrics.DELAYS_STORED, delays._stored)
        samples.add(metrics.DELAYS_REPEATED, delays._repeated)
        samples.add(metrics.DELAYS_UNREADABLE, delays._not_delays)
        samples.add(metrics.DELAYS_PUBLISHED, delays._published)
        samples.add(metrics.DELAYS_REFUSED, delays._refused)
        return samples

    def waiting(self) -> Samples:
        """Return what waits in the file. It is opened once more, since the service may be using it.

        :raises DelayFileUnusable: if the file cannot be read
        """
        samples = Samples()
        with closing(DelayFile(self._delays._path, writer=False)) as file:
            topics = file.topics()
        now = self._delays._clock()
        for number, topic in enumerate(topics):
            label = topic.topic if number < MOST_TOPICS else _OTHER_TOPICS
            samples.add(metrics.DELAYS_WAITING, topic.waiting, label)
            samples.add(metrics.DELAYS_BYTES, topic.bytes, label)
            samples.add(metrics.DELAYS_FAILING, topic.failed, label)
        due = min((topic.next_at for topic in topics if topic.next_at is not None), default=now)
        samples.add(metrics.DELAYS_LATENESS, max(now - due, 0.0))
        return samples


def _outcome(error: Exception) -> str:
    match error:
        case PublishRejected():
            return "rejected"
        case NotSent():
            return "not_sent"
        case _:
            return "unknown"
