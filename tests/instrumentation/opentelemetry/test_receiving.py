"""Spans of the steps of an iteration."""

import anyio
import pytest
from opentelemetry.trace import SpanKind

import nsq_anyio as nsq
from nsq_anyio.envelope import encode
from nsq_anyio.instrumentation.opentelemetry import OpenTelemetryMiddleware

from ...fake_nsqd import LIMIT, consuming, until
from .recorder import Recorder, attributes, linked, parent_id

pytestmark = pytest.mark.anyio

CONSUMED = "messaging.client.consumed.messages"
BODY = encode(b"body", {"traceparent": f"00-{1:032x}-{5:016x}-01"})


async def test_a_message_that_is_taken_has_a_span() -> None:
    recorder = Recorder()
    telemetry = recorder.middleware()
    async with consuming() as (consumer, peer):
        id = await peer.message(BODY)
        with recorder.tracer.start_as_current_span("poll") as poll, anyio.fail_after(LIMIT):
            async for message in telemetry.receiving(consumer):
                assert message.payload == b"body"
                message.finish()
                break
    span = recorder.span("receive")
    assert (span.name, span.kind) == ("receive t", SpanKind.CLIENT)
    assert parent_id(span) == poll.get_span_context().span_id
    assert linked(span) == [5]
    told = attributes(span)
    assert told["messaging.operation.type"] == "receive"
    assert told["messaging.destination.subscription.name"] == "c"
    assert told["messaging.message.id"] == id.decode()
    assert told["messaging.message.body.size"] == 4
    assert told["messaging.nsq.message.attempts"] == 1
    ((counted, consumed),) = recorder.points(CONSUMED)
    assert (counted["messaging.operation.name"], consumed.value) == ("receive", 1)


async def test_the_span_lasts_as_long_as_the_wait() -> None:
    recorder = Recorder()
    async with consuming() as (consumer, peer), anyio.create_task_group() as tasks:
        messages = recorder.middleware().receiving(consumer)
        tasks.start_soon(messages.__anext__)
        await anyio.sleep(0.1)
        assert recorder.spans() == []
        await peer.message()
        await until(recorder.spans)
    span = recorder.span("receive")
    assert span.start_time is not None
    assert span.end_time is not None
    seconds = (span.end_time - span.start_time) / 1e9
    assert 0.09 < seconds < LIMIT
    ((_, duration),) = recorder.points("messaging.client.operation.duration")
    assert duration.sum == pytest.approx(seconds, abs=1e-9)


async def test_a_step_that_brings_nothing_has_no_span() -> None:
    recorder = Recorder()
    async with consuming() as (consumer, _):
        messages = recorder.middleware().receiving(consumer)
        with anyio.move_on_after(0.01):
            await anext(messages)
        consumer.stop()
        assert [message async for message in messages] == []
    assert recorder.spans() == []


async def test_a_batch_that_is_taken_has_one_span() -> None:
    recorder = Recorder()
    telemetry = recorder.middleware()
    async with consuming(max_in_flight=3) as (consumer, peer):
        await peer.messages(BODY, b"raw", b"raw")
        taken: list[nsq.Message] = []
        with anyio.fail_after(LIMIT):
            async for batch in telemetry.receiving(consumer.batches(3)):
                async with batch:
                    taken += batch
                break
    span = recorder.span("receive")
    assert attributes(span)["messaging.batch.message_count"] == len(taken) == 3
    assert linked(span) == [5]
    assert recorder.points(CONSUMED)[0][1].value == 3


@pytest.mark.parametrize("answers", [False, True])
async def test_a_message_is_counted_once_where_it_is_received_and_processed(answers: bool) -> None:
    recorder = Recorder()
    telemetry = recorder.middleware()
    on_event = telemetry.on_event if answers else None
    async with consuming(middleware=[telemetry], on_event=on_event) as (consumer, peer):
        await peer.message()
        async with await anext(telemetry.receiving(consumer)):
            pass
        await peer.message()
        async with await anext(consumer):
            pass
    names = [span.name for span in recorder.spans()]
    settled = ["settle t"] * answers
    assert names == ["receive t", "process t", *settled, "process t", *settled]
    counts = {told["messaging.operation.name"]: point.value for told, point in recorder.points(CONSUMED)}
    assert counts == {"receive": 1, "process": 1}
    assert known(telemetry) == 0


def known(telemetry: OpenTelemetryMiddleware) -> int:
    return len(telemetry.deliveries)
