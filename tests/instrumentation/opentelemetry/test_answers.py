# pyright: reportUnknownLambdaType=false
"""Spans of FIN and REQ, and what is kept of a message until then."""

from functools import partial

import anyio
import pytest
from opentelemetry.trace import SpanKind

import nsq_anyio as nsq
from nsq_anyio.events import Event, MessageTimedOut

from ...fake_nsqd import Events, consuming, fake_nsqd, serve, until
from .recorder import Recorder, attributes, context, parent_id

pytestmark = pytest.mark.anyio

NO_DELAY = nsq.ConsumerOptions(requeue_delay=0, max_backoff_duration=0)


@pytest.mark.parametrize("fails", [False, True])
async def test_an_answer_has_a_span_in_that_of_its_message(fails: bool) -> None:
    recorder = Recorder()
    telemetry = recorder.middleware()

    async def handler(_: nsq.Message) -> None:
        consumer.stop()
        if fails:
            raise nsq.Requeue(1.5)

    async with consuming(middleware=[telemetry], on_event=telemetry.on_event) as (consumer, peer):
        id = await peer.message(attempts=2)
        await consumer.run(handler)
    span, process = recorder.span("settle"), recorder.span("process")
    assert (span.name, span.kind) == ("settle t", SpanKind.CLIENT)
    assert parent_id(span) == context(process).span_id
    command = "REQ" if fails else "FIN"
    common = {
        **{
            name: value
            for name, value in attributes(process).items()
            if name.startswith(("messaging.system", "messaging.destination", "server"))
        },
        "messaging.operation.name": "settle",
        "messaging.operation.type": "settle",
        "messaging.nsq.command": command,
    }
    own = {"messaging.message.id": id.decode(), "messaging.nsq.message.attempts": 2}
    assert attributes(span) == {
        **common,
        **own,
        **({"messaging.nsq.requeue.delay": 1.5} if fails else {}),
    }
    ((measured, duration),) = recorder.points("messaging.client.operation.duration")
    assert (measured, duration.count) == (common, 1)
    assert len(telemetry.deliveries) == 0


async def test_an_answer_within_the_handler_has_the_same_parent() -> None:
    recorder = Recorder()
    telemetry = recorder.middleware()
    async with consuming(middleware=[telemetry], on_event=telemetry.on_event) as (consumer, peer):
        await peer.message()
        async with await anext(consumer) as message:
            message.finish()
            assert parent_id(recorder.span("settle")) is not None
    assert parent_id(recorder.span("settle")) == context(recorder.span("process")).span_id


async def test_each_message_of_a_batch_is_answered_in_the_span_of_the_batch() -> None:
    recorder = Recorder()
    telemetry = recorder.middleware()
    async with consuming(middleware=[telemetry], on_event=telemetry.on_event, max_in_flight=3) as (
        consumer,
        peer,
    ):
        await peer.messages(b"a", b"b", b"c")
        async with await anext(consumer.batches(3)):
            pass
    process = context(recorder.span("process")).span_id
    assert [parent_id(span) for span in recorder.spans("settle")] == [process] * 3
    assert len(telemetry.deliveries) == 0


async def test_an_answer_without_a_processing_span_belongs_to_the_current_one() -> None:
    recorder = Recorder()
    telemetry = recorder.middleware()
    async with consuming(on_event=telemetry.on_event) as (consumer, peer):
        await peer.message()
        with recorder.tracer.start_as_current_span("request") as request:
            (await anext(consumer)).finish()
    assert parent_id(recorder.span("settle")) == request.get_span_context().span_id


async def test_a_message_that_has_timed_out_is_not_settled_and_not_kept() -> None:
    recorder, events = Recorder(), Events()
    telemetry = recorder.middleware()

    def on_event(event: Event) -> None:
        events(event)
        telemetry.on_event(event)

    async with (
        fake_nsqd(serve) as nsqd,
        nsq.consume("t", "c", nsqd=nsqd.address, middleware=[telemetry], on_event=on_event) as consumer,
    ):
        peer = await nsqd.subscribed()
        id = await peer.message()
        async with await anext(consumer) as message:
            # nsqd delivers it again: for nsqd it has timed out.
            await peer.message(id=id, attempts=2)
            await until(lambda: events.of(MessageTimedOut))
            assert len(telemetry.deliveries) == 0
        assert message._response == "timed_out"
        assert recorder.spans("settle") == []
        assert attributes(recorder.span("process"))["error.type"] == "timed_out"


async def test_what_is_known_of_lost_messages_does_not_pile_up() -> None:
    recorder, lost_are_free = Recorder(), anyio.Event()
    telemetry = recorder.middleware()

    async def handler(_: nsq.Message) -> None:
        await lost_are_free.wait()

    options = nsq.ConsumerOptions(reconnect_delay=0.01, max_reconnect_delay=0.01)
    async with (
        fake_nsqd(serve) as nsqd,
        nsq.consume(
            "t",
            "c",
            nsqd=nsqd.address,
            middleware=[telemetry],
            on_event=telemetry.on_event,
            max_in_flight=200,
            options=options,
        ) as consumer,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(lambda: consumer.run(handler, concurrency=200))
        for connection in range(2):
            peer = await nsqd.subscribed(connection)
            await peer.offer(*[b"body"] * 100)
            await until(partial(has_consumed, recorder, 100 * (connection + 1)))
            if connection == 0:
                assert len(telemetry.deliveries) == 100
                await peer.close()  # no event tells of the lost messages, and no answer will
        assert len(telemetry.deliveries) == 100
        lost_are_free.set()
        await until(lambda: consumer.statistics().finished == 100)
        consumer.stop()
    assert len(recorder.spans("settle")) == 100
    assert len(telemetry.deliveries) == 0


def has_consumed(recorder: Recorder, messages: int) -> bool:
    points = recorder.points("messaging.client.consumed.messages")
    return bool(sum(point.value for _, point in points) == messages)
