"""Traces through real requests and servers: from HTTP to a publish, nsqd, a handler, and on."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import pairwise

import anyio
import anyio.lowlevel
import httpx
import pytest
from anyio.abc import SocketAttribute
from opentelemetry import propagate
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

import nsq_anyio as nsq
from nsq_anyio.serving.http_messages import Request, Response
from nsq_anyio.serving.http_server import serve_http

from ..instrumentation.opentelemetry.recorder import Recorder, attributes, context, linked, parent_id
from .cluster import Server
from .observe import LIMIT, PROMPT, until

pytestmark = pytest.mark.anyio

NO_DELAY = nsq.ConsumerOptions(max_backoff_duration=0, requeue_delay=0)


@asynccontextmanager
async def shop(recorder: Recorder, producer: nsq.Producer, topic: str) -> AsyncGenerator[str]:
    """A service that publishes an order for each request, as an instrumented web framework would run it."""

    async def order(request: Request) -> Response:
        remote = propagate.extract(request.headers)
        with recorder.tracer.start_as_current_span("POST /orders", remote, SpanKind.SERVER):
            await producer.publish(topic, await request.read(100))
        return Response(202)

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve_http, listener, order)
            yield f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}/orders"
            tasks.cancel_scope.cancel()


async def post(recorder: Recorder, url: str) -> None:
    headers: dict[str, str] = {}
    with recorder.tracer.start_as_current_span("buy", kind=SpanKind.CLIENT):
        propagate.inject(headers)
        async with httpx.AsyncClient() as client:
            response = await client.post(url, content=b"a book", headers=headers)
    assert response.status_code == 202


async def run_through(recorder: Recorder, nsqd: Server, topic: str, *, producer_as_parent: bool) -> None:
    """An HTTP request, a publish, a handler that publishes to another topic, and a handler of that."""
    bills = f"{topic}-bills"
    telemetry = recorder.middleware(producer_as_parent=producer_as_parent)

    def consume(topic: str) -> AbstractAsyncContextManager[nsq.Consumer]:
        return nsq.consume(
            topic,
            "c",
            nsqd=nsqd.tcp_address,
            middleware=[telemetry],
            on_event=telemetry.on_event,
            connection=PROMPT,
        )

    async with (
        nsq.produce(nsqd.tcp_address, middleware=[telemetry]) as producer,
        consume(topic) as orders,
        consume(bills) as sent_bills,
        shop(recorder, producer, topic) as url,
        anyio.create_task_group() as tasks,
    ):

        async def bill(message: nsq.Message) -> None:
            await producer.publish(bills, b"a bill for " + message.payload)
            orders.stop()

        async def send_bill(message: nsq.Message) -> None:
            assert message.payload == b"a bill for a book"
            await anyio.lowlevel.checkpoint()
            sent_bills.stop()

        tasks.start_soon(orders.run, bill)
        tasks.start_soon(sent_bills.run, send_bill)
        await post(recorder, url)
        with anyio.fail_after(LIMIT):
            await until(lambda: len(recorder.spans("settle")) == 2)


async def test_one_trace_from_a_request_through_two_topics(nsqd: Server, topic: str) -> None:
    recorder = Recorder()
    await run_through(recorder, nsqd, topic, producer_as_parent=True)
    bills = f"{topic}-bills"
    assert len(recorder.spans()) == 8
    assert len({context(span).trace_id for span in recorder.spans()}) == 1
    path = [only(recorder, "buy"), only(recorder, "POST /orders")]
    path += [
        only(recorder, f"{operation} {of}") for of in (topic, bills) for operation in ("send", "process")
    ]
    for parent, child in pairwise(path):
        assert parent_id(child) == context(parent).span_id, child.name
    kinds = [span.kind for span in path]
    assert kinds == [SpanKind.CLIENT, SpanKind.SERVER, *[SpanKind.PRODUCER, SpanKind.CONSUMER] * 2]
    for of in (topic, bills):
        send, process, settle = (only(recorder, f"{name} {of}") for name in ("send", "process", "settle"))
        assert linked(process) == [context(send).span_id]
        assert parent_id(settle) == context(process).span_id
        assert settle.kind is SpanKind.CLIENT
        assert attributes(settle)["messaging.nsq.command"] == "FIN"


async def test_by_default_each_handler_begins_a_trace_with_a_link(nsqd: Server, topic: str) -> None:
    recorder = Recorder()
    await run_through(recorder, nsqd, topic, producer_as_parent=False)
    bills = f"{topic}-bills"
    request, order = only(recorder, "POST /orders"), only(recorder, f"send {topic}")
    billing, bill = only(recorder, f"process {topic}"), only(recorder, f"send {bills}")
    last = only(recorder, f"process {bills}")
    assert parent_id(order) == context(request).span_id
    assert (billing.parent, linked(billing)) == (None, [context(order).span_id])
    assert parent_id(bill) == context(billing).span_id
    assert (last.parent, linked(last)) == (None, [context(bill).span_id])
    assert len({context(span).trace_id for span in (order, billing, last)}) == 3


async def test_each_delivery_has_a_span_with_a_link_to_the_one_publish(nsqd: Server, topic: str) -> None:
    recorder = Recorder()
    telemetry = recorder.middleware()

    def handle(message: nsq.Message) -> None:  # in a thread
        if message.attempts == 1:
            raise ValueError("at first")

    async with (
        nsq.produce(nsqd.tcp_address, middleware=[telemetry]) as producer,
        nsq.consume(
            topic,
            "c",
            nsqd=nsqd.tcp_address,
            middleware=[telemetry],
            on_event=telemetry.on_event,
            options=NO_DELAY,
            connection=PROMPT,
        ) as consumer,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(consumer.run, handle)
        await producer.publish(topic, b"body")
        await until(lambda: len(recorder.spans("settle")) == 2)
        consumer.stop()
    send = context(recorder.span("send")).span_id
    first, second = recorder.spans("process")
    assert linked(first) == linked(second) == [send]
    assert (first.status.status_code, second.status.status_code) == (StatusCode.ERROR, StatusCode.UNSET)
    assert attributes(first)["error.type"] == "ValueError"
    assert [attributes(span)["messaging.nsq.message.attempts"] for span in (first, second)] == [1, 2]
    commands = [attributes(span)["messaging.nsq.command"] for span in recorder.spans("settle")]
    assert commands == ["REQ", "FIN"]
    assert (await nsqd.channel(topic, "c")).depth == 0


async def test_a_raw_body_of_another_producer_has_no_link(nsqd: Server, topic: str) -> None:
    recorder = Recorder()
    await nsqd.publish(topic, b"raw")
    async with nsq.consume(
        topic, "c", nsqd=nsqd.tcp_address, middleware=[recorder.middleware()], connection=PROMPT
    ) as consumer:
        with anyio.fail_after(LIMIT):
            async with await anext(consumer) as message:
                assert message.payload == b"raw"
    assert linked(recorder.span("process")) == []


def only(recorder: Recorder, name: str) -> ReadableSpan:
    (span,) = [span for span in recorder.spans() if span.name == name]
    return span
