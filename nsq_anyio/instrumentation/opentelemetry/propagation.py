"""The trace context in a message's headers, and the attributes and links of messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter, Setter, TextMapPropagator

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


class _Headers(Getter[Mapping[str, str]], Setter[dict[str, str]]):
    """Reads and writes headers, ignoring the case of their names, as in HTTP."""

    def get(self, carrier: Mapping[str, str], key: str) -> list[str] | None:
        found = [value for name, value in carrier.items() if name.lower() == key.lower()]
        return found or None

    def keys(self, carrier: Mapping[str, str]) -> list[str]:
        return list(carrier)

    def set(self, carrier: dict[str, str], key: str, value: str) -> None:
        if self.get(carrier, key) is None:  # keep a header that the caller has set
            carrier[key] = value


_HEADERS = _Headers()


class Propagation:
    """Writes and reads the headers of a propagator.

    :param propagator: None for the global one, which uses W3C's ``traceparent``, ``tracestate`` and
        ``baggage`` unless the program has chosen others
    """

    def __init__(self, propagator: TextMapPropagator | None) -> None:
        self._propagator = propagator

    def inject(self, headers: dict[str, str], context: Context) -> None:
        """Add the headers of ``context``. Headers that are already set are kept."""
        self._current().inject(headers, context=context, setter=_HEADERS)

    def extract(self, headers: Mapping[str, str], context: Context) -> Context:
        """Return ``context`` with the span and the baggage that the headers carry."""
        if not headers:
            return context
        return self._current().extract(headers, context=context, getter=_HEADERS)

    def creation_context(self, headers: Mapping[str, str]) -> trace.SpanContext | None:
        """Return the span in which a message was created; None if its headers do not name one."""
        span_context = trace.get_current_span(self.extract(headers, Context())).get_span_context()
        return span_context if span_context.is_valid else None

    def _current(self) -> TextMapPropagator:
        return self._propagator or propagate.get_global_textmap()


def headers_of(message: Message) -> Mapping[str, str]:
    """Return the headers of a message; none if its envelope cannot be read."""
    try:
        return message.headers
    except InvalidEnvelope:
        return {}  # the handler gets the error when it reads them


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
