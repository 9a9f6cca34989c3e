"""Spans of batches: one for all messages, with links to their producers."""

import pytest
from opentelemetry.trace import SpanKind

import nsq_anyio as nsq
from nsq_anyio.envelope import encode

from ...fake_nsqd import consuming, fake_nsqd, serve, until
from .recorder import Recorder, attributes, linked

pytestmark = pytest.mark.anyio


def body(span_id: int) -> bytes:
    return encode(b"body", {"traceparent": f"00-{1:032x}-{span_id:016x}-01"})


async def test_a_batch_has_one_span_with_a_link_for_each_context() -> None:
    recorder = Recorder()
    async with consuming(middleware=[recorder.middleware()], max_in_flight=3) as (consumer, peer):
        ids = await peer.messages(body(1), b"raw", body(3))
        async with await anext(consumer.batches(3)):
            pass
    span = recorder.span("process")
    assert (span.name, span.kind, span.parent) == ("process t", SpanKind.CONSUMER, None)
    told = attributes(span)
    assert told["messaging.batch.message_count"] == 3
    assert told["messaging.nsq.outcome"] == "finished"
    assert not {"messaging.message.id", "messaging.message.body.size"} & set(told)
    assert linked(span) == [1, 3]
    assert [attributes(link) for link in span.links] == [
        {"messaging.message.id": id.decode(), "messaging.nsq.message.attempts": 1} for id in (ids[0], ids[2])
    ]
    ((_, consumed),) = recorder.points("messaging.client.consumed.messages")
    assert consumed.value == 3
    ((_, duration),) = recorder.points("messaging.process.duration")
    assert duration.count == 1


async def test_a_batch_of_one_is_a_single_message() -> None:
    recorder = Recorder()
    middleware = recorder.middleware(producer_as_parent=True)
    async with consuming(middleware=[middleware]) as (consumer, peer):
        await peer.message(body(1))
        async with await anext(consumer.batches(3, 0)):
            pass
    span = recorder.span("process")
    assert span.parent is not None
    assert span.parent.span_id == 1
    assert "messaging.batch.message_count" not in attributes(span)


async def test_what_several_nsqds_have_delivered() -> None:
    recorder = Recorder()
    async with (
        fake_nsqd(serve) as one,
        fake_nsqd(serve) as two,
        nsq.consume(
            "t", "c", nsqd=[one.address, two.address], middleware=[recorder.middleware()], max_in_flight=4
        ) as consumer,
    ):
        for number, nsqd in enumerate((one, two), 1):
            await (await nsqd.subscribed()).offer(body(number))
        await until(lambda: consumer.in_flight == 2)
        async with await anext(consumer.batches(2)) as batch:
            assert len(batch) == 2
    ports = {one.port, two.port}
    points = recorder.points("messaging.client.consumed.messages")
    assert {told["server.port"] for told, _ in points} == ports
    assert [point.value for _, point in points] == [1, 1]
    span = recorder.span("process")
    assert "server.port" not in attributes(span)
    assert {attributes(link)["server.port"] for link in span.links} == ports
