# pyright: reportUnknownLambdaType=false
"""Spans of what is done with single messages: their attributes, parents, links and endings."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from opentelemetry import baggage, trace
from opentelemetry.trace import SpanKind, StatusCode

import nsq_anyio as nsq
from nsq_anyio.envelope import MAGIC, encode

from ...fake_nsqd import consuming, until
from .recorder import Recorder, attributes, context, linked, parent_id

pytestmark = pytest.mark.anyio

NO_DELAY = nsq.ConsumerOptions(requeue_delay=0, max_backoff_duration=0)
TRACE_ID, SPAN_ID = 0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331
HEADERS = {"traceparent": f"00-{TRACE_ID:032x}-{SPAN_ID:016x}-01", "baggage": "tenant=a"}

Handle = Callable[[nsq.Message], object]


class Own(Exception):
    """The handler's own error."""


def raising(error: BaseException) -> Handle:
    def handle(_: nsq.Message) -> None:
        raise error

    return handle


def nothing(_: nsq.Message) -> None: ...


def finish(message: nsq.Message) -> None:
    message.finish()


def requeue(message: nsq.Message) -> None:
    message.requeue(1)


async def in_run(consumer: nsq.Consumer, handle: Handle) -> None:
    async def handler(message: nsq.Message) -> None:
        await anyio.lowlevel.checkpoint()
        handle(message)

    await run(consumer, handler)


async def in_a_thread(consumer: nsq.Consumer, handle: Handle) -> None:
    await run(consumer, handle)


async def run(consumer: nsq.Consumer, handler: Callable[[nsq.Message], Awaitable[object] | object]) -> None:
    def answered() -> bool:
        statistics = consumer.statistics()
        return statistics.finished + statistics.requeued > 0

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(consumer.run, handler)
        await until(answered)
        consumer.stop()


async def in_a_block(consumer: nsq.Consumer, handle: Handle) -> None:
    message = await anext(consumer)
    with suppress(Own):
        async with message:
            handle(message)


WAYS = pytest.mark.parametrize("way", [in_run, in_a_thread, in_a_block])


@WAYS
async def test_a_message_has_a_span_in_which_it_is_processed(way: Any) -> None:
    recorder, inside = Recorder(), list[trace.SpanContext]()

    def handle(message: nsq.Message) -> None:
        assert message.payload == b"body"
        assert baggage.get_baggage("tenant") == "a"
        inside.append(trace.get_current_span().get_span_context())

    async with consuming(middleware=[recorder.middleware()]) as (consumer, peer):
        id = await peer.message(encode(b"body", HEADERS), attempts=2)
        await way(consumer, handle)
        (address,) = consumer.connections
    span = recorder.span("process")
    assert span.name == "process t"
    assert span.kind is SpanKind.CONSUMER
    assert span.status.status_code is StatusCode.UNSET
    host, _, port = address.rpartition(":")
    common = {
        "messaging.system": "nsq",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "t",
        "messaging.destination.subscription.name": "c",
        "server.address": host,
        "server.port": int(port),
    }
    assert attributes(span) == {
        **common,
        "messaging.message.id": id.decode(),
        "messaging.message.body.size": 4,
        "messaging.nsq.message.attempts": 2,
        "messaging.nsq.outcome": "finished",
    }
    assert inside == [context(span)]
    assert not trace.get_current_span().get_span_context().is_valid
    assert baggage.get_baggage("tenant") is None
    # Its own trace, with a link to the producer's.
    assert span.parent is None
    assert linked(span) == [SPAN_ID]
    ((counted, consumed),) = recorder.points("messaging.client.consumed.messages")
    assert (counted, consumed.value) == (common, 1)
    ((measured, duration),) = recorder.points("messaging.process.duration")
    assert measured == {**common, "messaging.nsq.outcome": "finished"}
    assert span.start_time is not None
    assert span.end_time is not None
    assert duration.sum == pytest.approx((span.end_time - span.start_time) / 1e9, abs=1e-9)
    assert recorder.points("messaging.client.operation.duration") == []


@WAYS
@pytest.mark.parametrize(
    ("handle", "outcome", "error_type", "text"),
    [
        (nothing, "finished", None, None),
        (finish, "finished", None, None),
        (requeue, "requeued", None, None),
        (raising(nsq.Requeue(1)), "requeued", None, None),
        (raising(nsq.Discard("bad")), "discarded", "nsq_anyio.errors.Discard", "bad"),
        (raising(Own("broken")), "requeued", f"{__name__}.Own", "broken"),
        (raising(ExceptionGroup("several", [Own("broken")])), "requeued", f"{__name__}.Own", "broken"),
        (raising(ExceptionGroup("all", [Own(), KeyError()])), "requeued", "ExceptionGroup", None),
    ],
)
async def test_how_a_handler_ends(way: Any, handle: Any, outcome: str, error_type: Any, text: Any) -> None:
    recorder = Recorder()
    async with consuming(middleware=[recorder.middleware()], options=NO_DELAY) as (consumer, peer):
        await peer.message()
        with suppress(ExceptionGroup):
            await way(consumer, handle)
    span = recorder.span("process")
    assert attributes(span)["messaging.nsq.outcome"] == outcome
    assert attributes(span).get("error.type") == error_type
    failed = error_type is not None
    assert span.status.status_code is (StatusCode.ERROR if failed else StatusCode.UNSET)
    assert [event.name for event in span.events] == ["exception"] * failed
    if text is not None:
        assert span.status.description == text
    ((measured, _),) = recorder.points("messaging.process.duration")
    assert measured["messaging.nsq.outcome"] == outcome
    assert measured.get("error.type") == error_type


@pytest.mark.parametrize("fails", [False, True])
async def test_a_message_that_is_given_up_is_a_failure(fails: bool) -> None:
    recorder = Recorder()

    def give_up(_: nsq.Message) -> None:
        if fails:
            raise Own("give up")

    async with consuming(
        middleware=[recorder.middleware()], on_give_up=give_up, options=NO_DELAY, max_in_flight=2
    ) as (consumer, peer):
        await peer.message(attempts=101)
        await peer.message()
        (await anext(consumer)).finish()
    span = recorder.span("process")
    assert span.status.status_code is StatusCode.ERROR
    assert attributes(span)["error.type"] == (f"{__name__}.Own" if fails else "gave_up")
    assert attributes(span)["messaging.nsq.outcome"] == ("requeued" if fails else "gave_up")
    assert len(span.events) == fails


async def test_a_message_without_a_context_has_no_link() -> None:
    recorder = Recorder()
    bodies = (b"raw", encode(b"body", {"kind": "a"}), encode(b"body", {"traceparent": "none"}))
    async with consuming(middleware=[recorder.middleware()], max_in_flight=3) as (consumer, peer):
        await peer.messages(*bodies)
        for _ in bodies:
            await in_a_block(consumer, nothing)
    assert [linked(span) for span in recorder.spans("process")] == [[], [], []]


async def test_an_envelope_that_cannot_be_read_is_left_to_the_handler() -> None:
    recorder, body = Recorder(), MAGIC + b"\x09"

    def handle(message: nsq.Message) -> None:
        with pytest.raises(nsq.InvalidEnvelope):
            assert message.headers

    async with consuming(middleware=[recorder.middleware()]) as (consumer, peer):
        await peer.message(body)
        await in_a_block(consumer, handle)
    span = recorder.span("process")
    assert attributes(span)["messaging.message.body.size"] == len(body)
    assert attributes(span)["messaging.nsq.outcome"] == "finished"


@pytest.mark.parametrize("as_parent", [False, True])
@pytest.mark.parametrize("in_a_span", [False, True])
async def test_the_parent_is_the_producer_only_by_option(as_parent: bool, in_a_span: bool) -> None:
    recorder = Recorder()
    middleware = recorder.middleware(producer_as_parent=as_parent)
    async with consuming(middleware=[middleware]) as (consumer, peer):
        await peer.message(encode(b"body", HEADERS))
        if in_a_span:
            with recorder.tracer.start_as_current_span("request"):
                await in_a_block(consumer, nothing)
        else:
            await in_a_block(consumer, nothing)
    span = recorder.span("process")
    requests = [context(request) for request in recorder.spans("request")]
    request = requests[0].span_id if in_a_span else None
    if as_parent:
        assert parent_id(span) == SPAN_ID
        assert context(span).trace_id == TRACE_ID
        assert linked(span) == [SPAN_ID, *([request] if in_a_span else [])]
    else:
        assert parent_id(span) == request
        assert context(span).trace_id != TRACE_ID
        assert linked(span) == [SPAN_ID]


async def test_without_a_context_the_parent_is_the_current_span_even_by_option() -> None:
    recorder = Recorder()
    async with consuming(middleware=[recorder.middleware(producer_as_parent=True)]) as (consumer, peer):
        await peer.message()
        with recorder.tracer.start_as_current_span("request") as request:
            await in_a_block(consumer, nothing)
    span = recorder.span("process")
    assert parent_id(span) == request.get_span_context().span_id
    assert linked(span) == []
