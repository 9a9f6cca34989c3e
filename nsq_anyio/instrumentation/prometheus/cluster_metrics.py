"""All metrics of a cluster: their names, types, labels and descriptions."""

from __future__ import annotations

from typing import Final

from .metrics import Metric

_TOPIC = ("topic", "nsqd")
_CHANNEL = ("topic", "channel", "nsqd")
_CLIENT = ("topic", "channel", "nsqd", "client", "address")
_REGISTRATION = ("nsqd", "nsqlookupd")

TOPIC: Final = (
    Metric("nsq_topic_depth_messages", "gauge", "Messages that no channel has taken yet.", _TOPIC),
    Metric("nsq_topic_backend_depth_messages", "gauge", "Those of them that are on disk.", _TOPIC),
    Metric("nsq_topic_paused", "gauge", "1 if the topic is paused, else 0.", _TOPIC),
    Metric("nsq_topic_channels", "gauge", "Channels of the topic.", _TOPIC),
    Metric("nsq_topic_messages_total", "counter", "Messages published to the topic.", _TOPIC),
    Metric("nsq_topic_message_bytes_total", "counter", "Bytes of the bodies of these messages.", _TOPIC),
)
"""In the order in which the collector computes their values."""

TOPIC_LATENCY: Final = Metric(
    "nsq_topic_e2e_latency_seconds",
    "summary",
    "Time from the publication of a message to its FIN, by quantile, if nsqd is set to measure it.",
    (*_TOPIC, "quantile"),
)
TOMBSTONED: Final = (
    Metric("nsq_topic_tombstoned", "gauge", "1 for a topic that an nsqlookupd hides on an nsqd.", _TOPIC),
    Metric(
        "nsq_topic_tombstoned_messages",
        "gauge",
        "Messages of such a topic that wait on the nsqd, with those of its channels.",
        _TOPIC,
    ),
)
"""In the order in which the collector computes their values."""

CHANNEL: Final = (
    Metric("nsq_channel_depth_messages", "gauge", "Messages that wait, in memory and on disk.", _CHANNEL),
    Metric("nsq_channel_backend_depth_messages", "gauge", "Those of them that are on disk.", _CHANNEL),
    Metric("nsq_channel_in_flight_messages", "gauge", "Messages in flight.", _CHANNEL),
    Metric(
        "nsq_channel_deferred_messages", "gauge", "Messages deferred by a requeue or a publish.", _CHANNEL
    ),
    Metric("nsq_channel_clients", "gauge", "Consumers that are connected.", _CHANNEL),
    Metric("nsq_channel_paused", "gauge", "1 if the channel is paused, else 0.", _CHANNEL),
    Metric("nsq_channel_messages_total", "counter", "Messages that the channel got.", _CHANNEL),
    Metric(
        "nsq_channel_messages_finished_total",
        "counter",
        "Messages that left the channel: finished (FIN), or discarded when it was emptied or full.",
        _CHANNEL,
    ),
    Metric("nsq_channel_messages_requeued_total", "counter", "Messages requeued (REQ).", _CHANNEL),
    Metric("nsq_channel_messages_timed_out_total", "counter", "Messages that timed out.", _CHANNEL),
)
"""In the order in which the collector computes their values."""

CHANNEL_LATENCY: Final = Metric(
    "nsq_channel_e2e_latency_seconds", "summary", TOPIC_LATENCY.help, (*_CHANNEL, "quantile")
)

CLIENT: Final = (
    Metric("nsq_client_rdy", "gauge", "RDY count of a consumer's connection.", _CLIENT),
    Metric("nsq_client_in_flight_messages", "gauge", "Messages in flight on the connection.", _CLIENT),
    Metric("nsq_client_messages_total", "counter", "Messages sent on the connection.", _CLIENT),
    Metric("nsq_client_messages_finished_total", "counter", "Messages that it finished.", _CLIENT),
    Metric("nsq_client_messages_requeued_total", "counter", "Messages that it requeued.", _CLIENT),
)
"""In the order in which the collector computes their values."""

NSQD_UP: Final = Metric("nsq_nsqd_up", "gauge", "1 if the nsqd answered, else 0.", ("nsqd",))
NSQD_HEALTHY: Final = Metric(
    "nsq_nsqd_healthy", "gauge", "1 if the nsqd says that it is healthy, else 0.", ("nsqd",)
)
NSQD_ANSWER: Final = Metric(
    "nsq_nsqd_answer_duration_seconds", "gauge", "Time until it answered, or failed.", ("nsqd",)
)
NSQD_START: Final = Metric(
    "nsq_nsqd_start_time_seconds", "gauge", "When the nsqd started, in Unix seconds.", ("nsqd",)
)
NSQD_INFO: Final = Metric(
    "nsq_nsqd_info", "gauge", "1, with what is known of the nsqd.", ("nsqd", "url", "hostname", "version")
)
REGISTERED: Final = Metric(
    "nsq_nsqd_registered", "gauge", "1 if the nsqlookupd knows the nsqd, else 0.", _REGISTRATION
)
REGISTRATION_LAG: Final = Metric(
    "nsq_nsqd_registration_lag_seconds",
    "gauge",
    "How long the nsqlookupd has not known the nsqd, which answers; 0 if it knows it.",
    _REGISTRATION,
)
UNREGISTERED_TOPICS: Final = Metric(
    "nsq_nsqd_unregistered_topics",
    "gauge",
    "Topics of the nsqd that the nsqlookupd does not know to be there.",
    _REGISTRATION,
)
NSQLOOKUPD_UP: Final = Metric(
    "nsq_nsqlookupd_up", "gauge", "1 if the nsqlookupd answered, else 0.", ("nsqlookupd",)
)
NSQLOOKUPD_ANSWER: Final = Metric(
    "nsq_nsqlookupd_answer_duration_seconds", "gauge", NSQD_ANSWER.help, ("nsqlookupd",)
)
NSQLOOKUPD_NSQDS: Final = Metric("nsq_nsqlookupd_nsqds", "gauge", "nsqds that it knows.", ("nsqlookupd",))
NSQLOOKUPD_UNUSABLE: Final = Metric(
    "nsq_nsqlookupd_unusable_nsqds",
    "gauge",
    "nsqds that registered no usable HTTP address.",
    ("nsqlookupd",),
)

SURVEYS: Final = Metric("nsq_exporter_surveys_total", "counter", "Times that all servers were asked.")
SURVEY_TIME: Final = Metric(
    "nsq_exporter_survey_time_seconds", "gauge", "When the last survey began, in Unix seconds."
)
SURVEY_DURATION: Final = Metric(
    "nsq_exporter_survey_duration_seconds", "gauge", "How long the last survey took."
)
LEFT_OUT: Final = Metric(
    "nsq_exporter_left_out_channels",
    "gauge",
    "Topics and channels without metrics because there are too many; each nsqd's count.",
)

CLUSTER_METRICS: Final[tuple[Metric, ...]] = (
    *TOPIC,
    TOPIC_LATENCY,
    *TOMBSTONED,
    *CHANNEL,
    CHANNEL_LATENCY,
    *CLIENT,
    NSQD_UP,
    NSQD_HEALTHY,
    NSQD_ANSWER,
    NSQD_START,
    NSQD_INFO,
    REGISTERED,
    REGISTRATION_LAG,
    UNREGISTERED_TOPICS,
    NSQLOOKUPD_UP,
    NSQLOOKUPD_ANSWER,
    NSQLOOKUPD_NSQDS,
    NSQLOOKUPD_UNUSABLE,
    SURVEYS,
    SURVEY_TIME,
    SURVEY_DURATION,
    LEFT_OUT,
)
"""All metrics of a cluster, in the order of a scrape."""
