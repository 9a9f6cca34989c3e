"""Spans of handlers that are cut short: at the deadline of their message, and by cancellation."""

import anyio
import pytest
from opentelemetry.trace import StatusCode

import nsq_anyio as nsq

from ... import virtual_time
from ...fake_nsqd import FakeConnection, consuming, until
from .recorder import Recorder, attributes

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio


async def timing_out(connection: FakeConnection) -> None:
    await connection.subscribe({"msg_timeout": 200, "max_msg_timeout": 200})
    await connection.follow()


async def test_a_message_that_times_out_is_a_failure_without_an_exception() -> None:
    recorder = Recorder()

    async def handler(_: nsq.Message) -> None:
        await anyio.sleep_forever()

    options = nsq.ConsumerOptions(requeue_delay=0, max_backoff_duration=0)
    async with consuming(timing_out, middleware=[recorder.middleware()], options=options) as (consumer, peer):
        await peer.message()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, handler)
            await until(lambda: recorder.spans("process"))
            consumer.stop()
    span = recorder.span("process")
    assert span.status.status_code is StatusCode.ERROR
    assert attributes(span)["error.type"] == attributes(span)["messaging.nsq.outcome"] == "timed_out"
    assert span.events == ()


async def test_a_cancelled_handler_is_no_error() -> None:
    recorder, started = Recorder(), anyio.Event()

    async def handler(_: nsq.Message) -> None:
        started.set()
        await anyio.sleep_forever()

    options = nsq.ConsumerOptions(cancelled_drain_timeout=0.01)
    async with consuming(middleware=[recorder.middleware()], options=options) as (consumer, peer):
        await peer.message()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, handler)
            await started.wait()
            tasks.cancel_scope.cancel()
    span = recorder.span("process")
    assert span.status.status_code is StatusCode.UNSET
    assert span.events == ()
    assert "error.type" not in attributes(span)
    assert attributes(span)["messaging.nsq.outcome"] == "cancelled"
    ((measured, _),) = recorder.points("messaging.process.duration")
    assert measured["messaging.nsq.outcome"] == "cancelled"
