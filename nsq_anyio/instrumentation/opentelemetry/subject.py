"""Describes the messages of an operation, in the attributes and links of its span."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry import trace

from ...consumer import Message
from ...errors import InvalidEnvelope
from .conventions import (
    ATTEMPTS,
    BATCH_MESSAGE_COUNT,
    BODY_SIZE,
    MESSAGE_ID,
    Attributes,
    AttributeValue,
    OperationName,
    base_attributes,
    server_attributes,
)
from .propagation import Propagation, headers_of


def common_attributes(operation: OperationName, messages: Sequence[Message]) -> Attributes:
    """Return the attributes that the span and the metrics of an operation on ``messages`` share."""
    first = messages[0]
    nsqd = first.nsqd if _same_nsqd(messages) else None
    return base_attributes(operation, first.topic, first.channel, nsqd)


def own_attributes(messages: Sequence[Message], *, batch: bool) -> Attributes:
    """Return the additional attributes of the span."""
    if batch:
        return {BATCH_MESSAGE_COUNT: len(messages)}
    return {**message_attributes(messages[0]), BODY_SIZE: _size(messages[0])}


def message_attributes(message: Message) -> Attributes:
    """Return the attributes that identify a delivery."""
    return {MESSAGE_ID: message.id, ATTEMPTS: message.attempts}


def batch_links(messages: Sequence[Message], propagation: Propagation) -> list[trace.Link]:
    """Return links to the spans in which the messages were created, if their headers name them.

    Attributes that differ between the messages are on the links.
    """
    same_nsqd = _same_nsqd(messages)
    links: list[trace.Link] = []
    for message in messages:
        creation = propagation.creation_context(headers_of(message))
        if creation is not None:
            attributes: dict[str, AttributeValue] = dict(message_attributes(message))
            if not same_nsqd:
                attributes.update(server_attributes(message.nsqd))
            links.append(trace.Link(creation, attributes))
    return links


def _same_nsqd(messages: Sequence[Message]) -> bool:
    return len(messages) == 1 or len({message.nsqd for message in messages}) == 1


def _size(message: Message) -> int:
    try:
        return len(message.payload)
    except InvalidEnvelope:
        return len(message.body)
