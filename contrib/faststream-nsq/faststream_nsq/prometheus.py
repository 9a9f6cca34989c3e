"""Metrics by Prometheus: ``NsqBroker(..., middlewares=[NsqPrometheusMiddleware(registry=registry)])``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from faststream._internal.constants import EMPTY
from faststream.message import StreamMessage
from faststream.prometheus import ConsumeAttrs, MetricsSettingsProvider
from faststream.prometheus.middleware import PrometheusMiddleware
from prometheus_client import CollectorRegistry

from .message import RawMessage
from .response import NsqPublishCommand
from .sizes import messages_of, size_of

__all__ = ["NsqPrometheusMiddleware"]


class _Settings(MetricsSettingsProvider[RawMessage, NsqPublishCommand]):
    """The labels and sizes of metrics."""

    messaging_system = "nsq"

    def get_consume_attrs_from_message(self, msg: StreamMessage[RawMessage]) -> ConsumeAttrs:
        messages = messages_of(msg)
        return {
            "destination_name": messages[0].topic,
            "message_size": size_of(msg),
            "messages_count": len(messages),
        }

    def get_publish_destination_name_from_cmd(self, cmd: NsqPublishCommand) -> str:
        return cmd.destination


class NsqPrometheusMiddleware(PrometheusMiddleware[RawMessage, NsqPublishCommand]):
    """Counts and measures handlers and publishes.

    It needs ``pip install 'faststream-nsq[prometheus]'``.

    :param registry: where the metrics are registered
    :param app_name: the label ``app_name``; default: the prefix
    :param metrics_prefix: the beginning of the metrics' names; default ``faststream``
    :param received_messages_size_buckets: the buckets of sizes, in bytes
    :param custom_labels: further labels, with their values or functions of a message
    """

    def __init__(
        self,
        *,
        registry: CollectorRegistry,
        app_name: str = EMPTY,
        metrics_prefix: str = "faststream",
        received_messages_size_buckets: Sequence[float] | None = None,
        custom_labels: dict[str, str | Callable[[Any], str]] | None = None,
    ) -> None:
        super().__init__(
            settings_provider_factory=lambda _: _Settings(),
            registry=registry,
            app_name=app_name,
            metrics_prefix=metrics_prefix,
            received_messages_size_buckets=received_messages_size_buckets,
            custom_labels=custom_labels,
        )
