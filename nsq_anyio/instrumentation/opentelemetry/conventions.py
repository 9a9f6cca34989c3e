"""OpenTelemetry's names for messaging, applied to NSQ.

The names are those of the semantic conventions 1.44, whose part on messaging is still in development:
https://opentelemetry.io/docs/specs/semconv/messaging/
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final, Literal

from ...address import Address, nsqd_addresses

AttributeValue = str | int | float
Attributes = Mapping[str, AttributeValue]

OperationName = Literal["send", "receive", "process", "settle"]
"""The operations. Each is named after its type, as the conventions define it."""

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.44.0"

BATCH_MESSAGE_COUNT: Final = "messaging.batch.message_count"
BODY_SIZE: Final = "messaging.message.body.size"
ERROR_TYPE: Final = "error.type"
MESSAGE_ID: Final = "messaging.message.id"

# The conventions have no names for these. They reserve `messaging.{system}` for attributes of one system.
ATTEMPTS: Final = "messaging.nsq.message.attempts"
COMMAND: Final = "messaging.nsq.command"
OUTCOME: Final = "messaging.nsq.outcome"
REQUEUE_DELAY: Final = "messaging.nsq.requeue.delay"

_CACHED = 1024
"""The number of combinations of topic, channel and nsqd whose attributes are cached."""


@lru_cache(_CACHED)
def base_attributes(
    operation: OperationName, topic: str, channel: str | None = None, nsqd: str | None = None
) -> Attributes:
    """Return the attributes that spans and metrics of an operation have in common.

    :param nsqd: the address, as ``host:port`` or a path; None if there are several or it is unknown
    """
    attributes: dict[str, AttributeValue] = {
        "messaging.system": "nsq",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": topic,
    }
    if channel is not None:
        attributes["messaging.destination.subscription.name"] = channel
    if nsqd is not None:
        attributes.update(server_attributes(nsqd))
    return MappingProxyType(attributes)


@lru_cache(_CACHED)
def server_attributes(nsqd: str) -> Attributes:
    """Return the attributes that name an nsqd: its host and port, or the path of its socket."""
    (address,) = nsqd_addresses(nsqd)
    if isinstance(address, Address):
        return MappingProxyType({"server.address": address.host, "server.port": address.port})
    return MappingProxyType({"server.address": address.path})
