"""Traces and metrics by OpenTelemetry: ``NsqBroker(..., middlewares=[NsqTelemetryMiddleware()])``."""

from __future__ import annotations

from typing import Any

from faststream.message import StreamMessage
from faststream.opentelemetry import TelemetrySettingsProvider
from faststream.opentelemetry.consts import MESSAGING_DESTINATION_PUBLISH_NAME
from faststream.opentelemetry.middleware import TelemetryMiddleware
from opentelemetry.metrics import Meter, MeterProvider
from opentelemetry.trace import TracerProvider

from .message import RawMessage
from .response import NsqPublishCommand
from .sizes import messages_of, size_of

__all__ = ["NsqTelemetryMiddleware"]

_SYSTEM = "messaging.system"
_DESTINATION = "messaging.destination.name"
_CONVERSATION_ID = "messaging.message.conversation_id"
_MESSAGE_ID = "messaging.message.id"
_SIZE = "messaging.message.payload_size_bytes"
_COUNT = "messaging.batch.message_count"


class _Settings(TelemetrySettingsProvider[RawMessage, NsqPublishCommand]):
    """The attributes of spans."""

    messaging_system = "nsq"

    def get_consume_attrs_from_message(self, msg: StreamMessage[RawMessage]) -> dict[str, Any]:
        attributes = {
            _SYSTEM: self.messaging_system,
            _MESSAGE_ID: msg.message_id,
            _CONVERSATION_ID: msg.correlation_id,
            _SIZE: size_of(msg),
            MESSAGING_DESTINATION_PUBLISH_NAME: messages_of(msg)[0].topic,
        }
        if isinstance(msg.raw_message, tuple):
            attributes[_COUNT] = len(msg.raw_message)
        return attributes

    def get_consume_destination_name(self, msg: StreamMessage[RawMessage]) -> str:
        return messages_of(msg)[0].topic

    def get_publish_attrs_from_cmd(self, cmd: NsqPublishCommand) -> dict[str, Any]:
        return {
            _SYSTEM: self.messaging_system,
            _DESTINATION: cmd.destination,
            _CONVERSATION_ID: cmd.correlation_id,
        }

    def get_publish_destination_name(self, cmd: NsqPublishCommand) -> str:
        return cmd.destination


class NsqTelemetryMiddleware(TelemetryMiddleware[NsqPublishCommand]):
    """Creates spans for handlers and publishes, and sends the trace context in the headers.

    It needs ``pip install 'faststream-nsq[opentelemetry]'``.

    :param tracer_provider: default: the global one
    :param meter_provider: default: the global one
    :param meter: default: one of the provider
    :param include_messages_counters: whether to count messages
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        meter: Meter | None = None,
        include_messages_counters: bool = True,
    ) -> None:
        super().__init__(
            settings_provider_factory=lambda _: _Settings(),
            tracer_provider=tracer_provider,
            meter_provider=meter_provider,
            meter=meter,
            include_messages_counters=include_messages_counters,
        )
