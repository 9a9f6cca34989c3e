"""All metrics: their names, types, labels and descriptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

_CHANNEL = ("topic", "channel")
_CHANNEL_AT_NSQD = ("topic", "channel", "nsqd")


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric, named by Prometheus' conventions.

    :ivar name: the name in Prometheus; for a histogram, without the suffixes ``_bucket``, ``_count`` and
        ``_sum``
    :ivar kind: its type
    :ivar help: its description in a scrape
    :ivar labels: the names of its labels
    :ivar highest: for a gauge, whether several consumers of a channel, or several services, show their
        highest value instead of the sum
    """

    name: str
    kind: Literal["counter", "gauge", "histogram", "summary"]
    help: str
    labels: tuple[str, ...] = ()
    highest: bool = False


def _consumer_counter(name: str, text: str) -> Metric:
    return Metric(f"nsq_consumer_{name}_total", "counter", text, _CHANNEL_AT_NSQD)


CONSUMER_COUNTERS: Final = {
    "received": _consumer_counter("messages", "Messages received from nsqd."),
    "received_bytes": _consumer_counter(
        "received_bytes", "Bytes received from nsqd, after decryption and decompression."
    ),
    "finished": _consumer_counter("messages_finished", "Messages finished (FIN)."),
    "requeued": _consumer_counter("messages_requeued", "Messages requeued (REQ)."),
    "timed_out": _consumer_counter(
        "messages_timed_out", "Messages that were not answered before their deadline."
    ),
    "failed": _consumer_counter("messages_failed", "Messages whose handler failed."),
    "discarded": _consumer_counter("messages_discarded", "Messages finished because of Discard."),
    "gave_up": _consumer_counter("messages_given_up", "Messages that were given up."),
    "late": _consumer_counter("answers_late", "Answers dropped because their message had timed out."),
    "refused": _consumer_counter("answers_refused", "Answers that nsqd refused."),
}
"""The metrics, by the field of `ConsumerStatistics` with the count."""

ATTEMPTS: Final = Metric(
    "nsq_consumer_message_attempts",
    "histogram",
    "How many times received messages had been delivered, including that time.",
    _CHANNEL,
)
HANDLER_DURATION: Final = Metric(
    "nsq_consumer_handler_duration_seconds",
    "histogram",
    "How long handlers of run() ran, whether they succeeded or not.",
    _CHANNEL,
)
CONSUMER_CONNECTIONS: Final = Metric(
    "nsq_consumer_connections",
    "gauge",
    "Subscribed connections; 0 for an nsqd that is being connected to.",
    _CHANNEL_AT_NSQD,
)
RDY: Final = Metric(
    "nsq_consumer_rdy", "gauge", "RDY count: messages that nsqd may have in flight.", _CHANNEL_AT_NSQD
)
IN_FLIGHT: Final = Metric(
    "nsq_consumer_messages_in_flight",
    "gauge",
    "Messages that were received and are not answered.",
    _CHANNEL_AT_NSQD,
)
CONSUMER_WAITING: Final = Metric(
    "nsq_consumer_messages_waiting", "gauge", "Messages in flight that nobody has taken yet.", _CHANNEL
)
MAX_IN_FLIGHT: Final = Metric(
    "nsq_consumer_max_in_flight", "gauge", "The most messages that may be in flight.", _CHANNEL
)
BACKOFF_LEVEL: Final = Metric(
    "nsq_consumer_backoff_level", "gauge", "Backoff level; 0 is no backoff.", _CHANNEL, highest=True
)
CONSUMER_EVENTS: Final = Metric(
    "nsq_consumer_events_total",
    "counter",
    "Rare events, by the name of their class in nsq_anyio.events.",
    (*_CHANNEL, "event"),
)

PUBLISHED: Final = Metric(
    "nsq_producer_messages_total",
    "counter",
    "Messages whose publish has ended, by outcome: stored, rejected, not_sent or unknown.",
    ("topic", "outcome"),
)
PUBLISHED_BYTES: Final = Metric(
    "nsq_producer_stored_bytes_total",
    "counter",
    "Bytes of the commands whose messages nsqd has stored.",
    ("topic",),
)
PUBLISH_DURATION: Final = Metric(
    "nsq_producer_publish_duration_seconds",
    "histogram",
    "How long it took from a publish to nsqd's OK, for each command.",
    ("topic",),
)
RESENT: Final = Metric(
    "nsq_producer_messages_resent_total", "counter", "Messages sent again; each time counts.", ("topic",)
)
STORED: Final = Metric(
    "nsq_producer_messages_stored_total", "counter", "Messages that an nsqd has confirmed.", ("nsqd",)
)
PRODUCER_CONNECTIONS: Final = Metric(
    "nsq_producer_connections", "gauge", "Connections; 0 for an nsqd that is being connected to.", ("nsqd",)
)
OUTSTANDING: Final = Metric(
    "nsq_producer_messages_outstanding", "gauge", "Messages that await nsqd's answer.", ("nsqd",)
)
OUTSTANDING_BYTES: Final = Metric(
    "nsq_producer_outstanding_bytes", "gauge", "Bytes of the commands that await nsqd's answer.", ("nsqd",)
)
PRODUCER_WAITING: Final = Metric(
    "nsq_producer_messages_waiting", "gauge", "Messages that wait for a connection, for room or in a batch."
)
PRODUCER_EVENTS: Final = Metric(
    "nsq_producer_events_total",
    "counter",
    "Rare events, by the name of their class in nsq_anyio.events.",
    ("event",),
)

DELAYS_STORED: Final = Metric(
    "nsq_delays_messages_stored_total", "counter", "Messages that were stored in the file."
)
DELAYS_REPEATED: Final = Metric(
    "nsq_delays_messages_repeated_total", "counter", "Messages that came again, and were in the file already."
)
DELAYS_UNREADABLE: Final = Metric(
    "nsq_delays_messages_unreadable_total",
    "counter",
    "Messages that are no delayed messages, and became dead letters.",
)
DELAYS_PUBLISHED: Final = Metric(
    "nsq_delays_messages_published_total", "counter", "Messages that were published at their time."
)
DELAYS_REFUSED: Final = Metric(
    "nsq_delays_messages_refused_total", "counter", "Refusals by nsqd; the messages are tried again."
)
DELAYS_WAITING: Final = Metric(
    "nsq_delays_messages_waiting", "gauge", "Messages that wait in the file.", ("topic",)
)
DELAYS_BYTES: Final = Metric(
    "nsq_delays_waiting_bytes", "gauge", "Bytes of the bodies of these messages.", ("topic",)
)
DELAYS_FAILING: Final = Metric(
    "nsq_delays_messages_failing", "gauge", "Those of them that nsqd has refused.", ("topic",)
)
DELAYS_LATENESS: Final = Metric(
    "nsq_delays_lateness_seconds",
    "gauge",
    "For how long the message that is due first has been due; 0 if none is due.",
    highest=True,
)

LOOP_DELAY: Final = Metric(
    "nsq_event_loop_delay_seconds",
    "gauge",
    "How long the slowest event loop took to answer this scrape; at the limit, its values are older.",
)

METRICS: Final[tuple[Metric, ...]] = (
    *CONSUMER_COUNTERS.values(),
    ATTEMPTS,
    HANDLER_DURATION,
    CONSUMER_CONNECTIONS,
    RDY,
    IN_FLIGHT,
    CONSUMER_WAITING,
    MAX_IN_FLIGHT,
    BACKOFF_LEVEL,
    CONSUMER_EVENTS,
    PUBLISHED,
    PUBLISHED_BYTES,
    PUBLISH_DURATION,
    RESENT,
    STORED,
    PRODUCER_CONNECTIONS,
    OUTSTANDING,
    OUTSTANDING_BYTES,
    PRODUCER_WAITING,
    PRODUCER_EVENTS,
    DELAYS_STORED,
    DELAYS_REPEATED,
    DELAYS_UNREADABLE,
    DELAYS_PUBLISHED,
    DELAYS_REFUSED,
    DELAYS_WAITING,
    DELAYS_BYTES,
    DELAYS_FAILING,
    DELAYS_LATENESS,
    LOOP_DELAY,
)
"""All metrics, in the order of a scrape."""
