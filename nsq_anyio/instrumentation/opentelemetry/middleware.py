"""The middleware that creates spans and records metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Generic, Self, TypeVar

from opentelemetry import trace
from opentelemetry.context import Context, get_current
from opentelemetry.metrics import MeterProvider
from opentelemetry.propagators.textmap import TextMapPropagator

from ...consumer import Batch, Handling, Message
from ...events import Event, MessageEvent, MessageFinished, MessageRequeued, MessageTimedOut
from ...producer import Publishing
from ...version import VERSION
from .conventions import (
    ATTEMPTS,
    BATCH_MESSAGE_COUNT,
    BODY_SIZE,
    COMMAND,
    MESSAGE_ID,
    OUTCOME,
    REQUEUE_DELAY,
    SCHEMA_URL,
    Attributes,
    AttributeValue,
    OperationName,
    base_attributes,
    server_attributes,
)
from .deliveries import Deliveries
from .operation import Instruments, Operation, Start, failure
from .propagation import Propagation, batch_links, common_attributes, headers_of, own_attributes

TakenT = TypeVar("TakenT", bound=Message | Batch)


class Receiving(Generic[TakenT]):
    """Wraps an iterator over messages or batches. Made by `OpenTelemetryMiddleware.receiving`.

    :param received: called with the message or batch, and when the step began
    """

    def __init__(
        self, source: AsyncIterable[TakenT], received: Callable[[Message | Batch, Start], None]
    ) -> None:
        self._source = aiter(source)
        self._received = received

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TakenT:
        """Wait for the next message or batch. The span begins with the wait, and is created at its end."""
        start = Start()
        taken = await anext(self._source)
        self._received(taken, start)
        return taken


class OpenTelemetryMiddleware:
    """Records traces and metrics of consumers and producers. One object serves any number of them.

    Pass it as ``middleware=[telemetry]`` to `consume` and `produce`. Each publish has a span
    ``send <topic>``, and each handler and ``async with`` block has a span ``process <topic>``.
    `on_event` adds spans for answers, and `receiving` adds spans for iterations.

    A producer sends the context of its span in the message's headers, and so in an envelope. The span in
    which the message is processed has a link to that span.

    :param tracer_provider: default: the global one
    :param meter_provider: default: the global one
    :param propagator: writes and reads the headers; default: the global one, which by default is W3C's
    :param propagate: whether a producer sends the context in headers; default True. With False, it adds no
        headers
    :param producer_as_parent: whether the span in which a single message was sent is also the parent of the
        span in which it is processed, so that both are in one trace; default False. If another span is
        current where the message is processed, the processing span has a link to it
    :ivar deliveries: the messages that are not answered yet; internal
    """

    def __init__(
        self,
        *,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        propagator: TextMapPropagator | None = None,
        propagate: bool = True,
        producer_as_parent: bool = False,
    ) -> None:
        self._tracer = trace.get_tracer("nsq_anyio", VERSION, tracer_provider, SCHEMA_URL)
        self._instruments = Instruments(meter_provider)
        self._propagation = Propagation(propagator)
        self._propagate = propagate
        self._producer_as_parent = producer_as_parent
        self.deliveries: Deliveries = Deliveries()
        self._traces_answers = False

    def __call__(self, subject: Handling | Publishing) -> AbstractAsyncContextManager[None]:
        """Return the context manager around a handler, a block or a publish."""
        return self.handling(subject) if isinstance(subject, Handling) else self.publishing(subject)

    @asynccontextmanager
    async def publishing(self, publishing: Publishing) -> AsyncGenerator[None]:
        """Wrap one publish."""
        operation = self._send(publishing)
        try:
            with operation.current():
                yield
        finally:
            ending: dict[str, AttributeValue] = {}
            if publishing.outcome is not None:
                ending[OUTCOME] = publishing.outcome
            if publishing.nsqd is not None:
                ending.update(server_attributes(publishing.nsqd))
            measured = operation.end(ending, failure(publishing.outcome, publishing.error))
            self._instruments.sent.add(publishing.messages, measured, operation.context)

    @asynccontextmanager
    async def handling(self, handling: Handling) -> AsyncGenerator[None]:
        """Wrap the handling of one message or batch."""
        operation = self._process(handling)
        try:
            with operation.current():
                yield
        finally:
            ending: Attributes = {OUTCOME: handling.outcome} if handling.outcome else {}
            operation.end(ending, failure(handling.outcome, handling.error))

    def receiving(self, source: AsyncIterable[TakenT]) -> Receiving[TakenT]:
        """Iterate over a consumer or its `Consumer.batches`, with a span ``receive <topic>`` for each step.

        ::

            async for message in telemetry.receiving(consumer):
                async with message:
                    ...

        The span lasts while the step waits for the message or batch. It has links to the producers' spans.
        """
        return Receiving(source, self._received)

    def on_event(self, event: Event) -> None:
        """Create a span ``settle <topic>`` for each FIN and REQ. Pass it to `consume` as ``on_event``.

        The parent of the span is the span in which the message was processed. Events of single messages cost
        time, and a batch has an event for each of its messages.
        """
        # A consumer emits `Connected` before it gets messages, so this is set before the first message.
        self._traces_answers = True
        match event:
            case MessageFinished():
                self._settled(event, {COMMAND: "FIN"}, {})
            case MessageRequeued(delay=delay):
                self._settled(event, {COMMAND: "REQ"}, {REQUEUE_DELAY: delay})
            case MessageTimedOut():
                self.deliveries.forget(event)
            case _:
                pass

    # Spans

    def _send(self, publishing: Publishing) -> Operation:
        creation = self._propagation.creation_context(publishing.headers)
        # By the conventions, a context that the caller has added to the message is kept, and only a span
        # whose context the message carries has the kind PRODUCER.
        propagates = self._propagate and creation is None
        single = publishing.messages == 1
        operation = self._operation(
            "send",
            publishing.topic,
            trace.SpanKind.PRODUCER if propagates else trace.SpanKind.CLIENT,
            common=base_attributes("send", publishing.topic),
            own={BODY_SIZE: publishing.size} if single else {BATCH_MESSAGE_COUNT: publishing.messages},
            context=get_current(),
            links=[trace.Link(creation)] if creation else (),
        )
        if propagates:
            self._propagation.inject(publishing.headers, operation.context)
        return operation

    def _process(self, handling: Handling) -> Operation:
        messages = handling.messages
        first, *others = messages
        if others:
            context, links = get_current(), batch_links(messages, self._propagation)
        else:
            context, links = self._processing_context(first)
        operation = self._operation(
            "process",
            handling.topic,
            trace.SpanKind.CONSUMER,
            common=common_attributes("process", messages),
            own=own_attributes(messages, batch=bool(others)),
            context=context,
            links=links,
        )
        self._dispatched(messages, operation.context)
        return operation

    def _processing_context(self, message: Message) -> tuple[Context, list[trace.Link]]:
        """Return the context for a message's span, including its baggage, and the links of the span."""
        current = get_current()
        here = trace.get_current_span(current)
        context = self._propagation.extract(headers_of(message), current)
        creation = trace.get_current_span(context)
        if creation is here:
            return context, []
        links = [trace.Link(creation.get_span_context())]
        if not self._producer_as_parent:
            return trace.set_span_in_context(here, context), links
        if here.get_span_context().is_valid:
            links.append(trace.Link(here.get_span_context()))
        return context, links

    def _received(self, taken: Message | Batch, start: Start) -> None:
        messages = [taken] if isinstance(taken, Message) else taken
        operation = self._operation(
            "receive",
            messages[0].topic,
            trace.SpanKind.CLIENT,
            common=common_attributes("receive", messages),
            own=own_attributes(messages, batch=messages is taken),
            context=get_current(),
            links=batch_links(messages, self._propagation),
            start=start,
        )
        operation.end({}, None)
        for message in messages:
            self.deliveries.of(message).received = True
        self._consumed("receive", messages, operation.context)

    def _settled(self, event: MessageEvent, measured: Attributes, own: Attributes) -> None:
        delivery = self.deliveries.forget(event)
        context = delivery.context if delivery else None
        operation = self._operation(
            "settle",
            event.topic,
            trace.SpanKind.CLIENT,
            common={**base_attributes("settle", event.topic, event.channel, event.nsqd), **measured},
            own={MESSAGE_ID: event.message_id, ATTEMPTS: event.attempts, **own},
            context=context or get_current(),
        )
        operation.end({}, None)

    def _operation(
        self,
        name: OperationName,
        topic: str,
        kind: trace.SpanKind,
        *,
        common: Attributes,
        own: Attributes,
        context: Context,
        links: Sequence[trace.Link] = (),
        start: Start | None = None,
    ) -> Operation:
        instruments = self._instruments
        return Operation(
            self._tracer,
            name,
            topic,
            kind,
            common=common,
            own=own,
            duration=instruments.process_duration if name == "process" else instruments.operation_duration,
            context=context,
            links=links,
            start=start,
        )

    # Deliveries

    def _dispatched(self, messages: Sequence[Message], context: Context) -> None:
        """Count messages that were not counted when they were received, and record their span."""
        uncounted: list[Message] = []
        for message in messages:
            known = self.deliveries.forget(message)
            if known is None or not known.received:
                uncounted.append(message)
            if self._traces_answers:
                self.deliveries.of(message).context = context
        self._consumed("process", uncounted, context)

    def _consumed(self, operation: OperationName, messages: Sequence[Message], context: Context) -> None:
        by_nsqd = Counter((message.topic, message.channel, message.nsqd) for message in messages)
        for (topic, channel, nsqd), count in by_nsqd.items():
            self._instruments.consumed.add(count, base_attributes(operation, topic, channel, nsqd), context)
