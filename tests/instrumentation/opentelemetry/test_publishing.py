# pyright: reportUnknownLambdaType=false
"""Spans and metrics of publishes, and the headers that carry their context."""

from collections.abc import Mapping
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute
from opentelemetry import baggage
from opentelemetry.context import attach, detach
from opentelemetry.trace import SpanKind, StatusCode

import nsq_anyio as nsq
from nsq_anyio.envelope import decode
from nsq_anyio.instrumentation.opentelemetry import OpenTelemetryMiddleware

from ...fake_nsqd import FakeConnection, fake_nsqd
from .recorder import Recorder, attributes, context, linked, parent_id

pytestmark = pytest.mark.anyio

SENT, DURATION = "messaging.client.sent.messages", "messaging.client.operation.duration"
OTHER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
COMMON = {
    "messaging.system": "nsq",
    "messaging.operation.name": "send",
    "messaging.operation.type": "send",
    "messaging.destination.name": "t",
}


class Storing:
    """Keeps the bodies of what is published.

    :ivar server: the attributes that name it
    """

    def __init__(self, answer: bytes = b"") -> None:
        self.server: dict[str, object] = {}
        self.bodies: list[bytes] = []
        self._answer = answer

    async def __call__(self, connection: FakeConnection) -> None:
        port = connection.stream.extra(SocketAttribute.local_port)
        self.server = {"server.address": "127.0.0.1", "server.port": port}
        await connection.identify()
        while True:
            await connection.command()
            self.bodies.append(connection.body)
            await (connection.error(self._answer) if self._answer else connection.response())

    @property
    def headers(self) -> Mapping[str, str]:
        (body,) = self.bodies
        return decode(body).headers


async def publish(middleware: OpenTelemetryMiddleware, **arguments: Any) -> Storing:
    nsqd = Storing()
    async with fake_nsqd(nsqd) as fake, nsq.produce(fake.address, middleware=[middleware]) as producer:
        await producer.publish("t", b"body", **arguments)
    return nsqd


def traceparent(recorder: Recorder) -> str:
    sent = context(recorder.span("send"))
    return f"00-{sent.trace_id:032x}-{sent.span_id:016x}-{sent.trace_flags:02x}"


async def test_a_publish_has_a_span_whose_context_the_message_carries() -> None:
    recorder = Recorder()
    with recorder.tracer.start_as_current_span("request") as request:
        nsqd = await publish(recorder.middleware())
    span = recorder.span("send")
    assert span.name == "send t"
    assert span.kind is SpanKind.PRODUCER
    assert parent_id(span) == request.get_span_context().span_id
    assert span.status.status_code is StatusCode.UNSET
    assert attributes(span) == {
        **COMMON,
        **nsqd.server,
        "messaging.message.body.size": 4,
        "messaging.nsq.outcome": "stored",
    }
    assert nsqd.headers == {"traceparent": traceparent(recorder)}
    assert decode(nsqd.bodies[0]).payload == b"body"


async def test_a_batch_has_one_span_whose_context_each_message_carries() -> None:
    recorder, nsqd = Recorder(), Storing()
    async with (
        fake_nsqd(nsqd) as fake,
        nsq.produce(fake.address, middleware=[recorder.middleware()]) as producer,
    ):
        await producer.publish_many("t", [b"1", b"2", b"3"])
    span = recorder.span("send")
    assert attributes(span) == {
        **COMMON,
        **nsqd.server,
        "messaging.batch.message_count": 3,
        "messaging.nsq.outcome": "stored",
    }
    assert nsqd.bodies[0].count(traceparent(recorder).encode()) == 3
    ((counted, sent),) = recorder.points(SENT)
    assert (counted, sent.value) == ({**COMMON, **nsqd.server, "messaging.nsq.outcome": "stored"}, 3)


async def test_the_metrics_of_a_publish() -> None:
    recorder = Recorder()
    nsqd = await publish(recorder.middleware())
    span = recorder.span("send")
    ((counted, sent),) = recorder.points(SENT)
    assert (counted, sent.value) == ({**COMMON, **nsqd.server, "messaging.nsq.outcome": "stored"}, 1)
    ((measured, duration),) = recorder.points(DURATION)
    assert (measured, duration.count) == (counted, 1)
    assert span.start_time is not None
    assert span.end_time is not None
    assert duration.sum == pytest.approx((span.end_time - span.start_time) / 1e9, abs=1e-9)


async def test_baggage_and_other_headers_go_along() -> None:
    recorder = Recorder()
    token = attach(baggage.set_baggage("tenant", "a"))
    nsqd = await publish(recorder.middleware(), headers={"Content-Type": "text/plain"})
    detach(token)
    assert nsqd.headers == {
        "content-type": "text/plain",
        "traceparent": traceparent(recorder),
        "baggage": "tenant=a",
    }


@pytest.mark.parametrize("name", ["traceparent", "TraceParent"])
async def test_a_context_that_the_caller_gives_stays(name: str) -> None:
    recorder = Recorder()
    nsqd = await publish(recorder.middleware(), headers={name: OTHER})
    span = recorder.span("send")
    assert nsqd.headers == {"traceparent": OTHER}
    assert span.kind is SpanKind.CLIENT
    assert linked(span) == [0xB7AD6B7169203331]


async def test_a_header_of_the_callers_that_is_no_context_stays_too() -> None:
    recorder = Recorder()
    nsqd = await publish(recorder.middleware(), headers={"Traceparent": "none"})
    assert nsqd.headers == {"traceparent": "none"}
    assert linked(recorder.span("send")) == []


async def test_bodies_are_sent_as_they_are_without_propagation_and_without_an_sdk() -> None:
    recorder = Recorder()
    assert (await publish(recorder.middleware(propagate=False))).bodies == [b"body"]
    assert recorder.span("send").kind is SpanKind.CLIENT
    assert (await publish(OpenTelemetryMiddleware())).bodies == [b"body"]


async def test_a_refused_publish_has_nsqds_code() -> None:
    recorder, nsqd = Recorder(), Storing(b"E_BAD_TOPIC PUB topic name is not valid")
    async with (
        fake_nsqd(nsqd) as fake,
        nsq.produce(fake.address, middleware=[recorder.middleware()]) as producer,
    ):
        with pytest.raises(nsq.PublishRejected):
            await producer.publish("t", b"body")
    span = recorder.span("send")
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == "E_BAD_TOPIC PUB topic name is not valid"
    assert attributes(span)["error.type"] == "E_BAD_TOPIC"
    assert attributes(span)["messaging.nsq.outcome"] == "rejected"
    (event,) = span.events
    assert event.name == "exception"
    for metric in (SENT, DURATION):
        ((measured, _),) = recorder.points(metric)
        assert measured == {
            **COMMON,
            "error.type": "E_BAD_TOPIC",
            "messaging.nsq.outcome": "rejected",
        }


async def test_a_publish_that_is_not_sent_has_the_class_of_its_error() -> None:
    recorder = Recorder()
    options = nsq.ProducerOptions(publish_timeout=0.05, connect_timeout=0.05)
    async with nsq.produce("127.0.0.1:1", middleware=[recorder.middleware()], options=options) as producer:
        with pytest.raises(nsq.NotSent):
            await producer.publish("t", b"body")
    span = recorder.span("send")
    assert span.status.status_code is StatusCode.ERROR
    assert attributes(span)["error.type"] == "nsq_anyio.errors.NotSent"
    assert attributes(span)["messaging.nsq.outcome"] == "not_sent"


async def test_a_cancelled_publish_ends_its_span_without_an_error() -> None:
    async def silent(connection: FakeConnection) -> None:
        await connection.identify()
        await connection.command()
        await anyio.sleep_forever()

    recorder = Recorder()
    options = nsq.ProducerOptions(drain_timeout=0.05)
    async with (
        fake_nsqd(silent) as fake,
        nsq.produce(fake.address, middleware=[recorder.middleware()], options=options) as producer,
    ):
        await producer.ready()
        with anyio.move_on_after(0.05) as scope:
            await producer.publish("t", b"body")
        assert scope.cancelled_caught
    span = recorder.span("send")
    assert span.status.status_code is StatusCode.UNSET
    assert span.events == ()
    assert "error.type" not in attributes(span)
    assert attributes(span)["messaging.nsq.outcome"] == "cancelled"
