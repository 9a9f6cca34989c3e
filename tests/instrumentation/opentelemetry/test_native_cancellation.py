"""Cancellation in asyncio's own way: of the task that processes a message, and of what a handler awaits."""

import asyncio

import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode

import nsq_anyio as nsq

from ...fake_nsqd import LIMIT, consuming, until
from .recorder import Recorder, attributes

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module", params=[False, True], ids=["asyncio", "asyncio+uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


@pytest.mark.parametrize("times", [1, 2])
async def test_a_task_that_is_cancelled_ends_its_span_without_an_error(times: int) -> None:
    recorder = Recorder()

    async def process() -> None:
        async with await anext(consumer):
            await asyncio.sleep(LIMIT)

    async with consuming(middleware=[recorder.middleware()]) as (consumer, peer):
        await peer.message()
        task = asyncio.create_task(process())
        await until(lambda: recorder.points("messaging.client.consumed.messages"))
        for _ in range(times):
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    span = recorder.span("process")
    assert span.status.status_code is StatusCode.UNSET
    assert span.events == ()
    assert attributes(span)["messaging.nsq.outcome"] == "cancelled"
    assert not trace.get_current_span().get_span_context().is_valid


async def test_a_handler_that_awaits_a_cancelled_task_has_failed() -> None:
    recorder = Recorder()

    async def handler(_: nsq.Message) -> None:
        other = asyncio.create_task(asyncio.sleep(LIMIT))
        other.cancel()
        consumer.stop()
        await other

    async with consuming(middleware=[recorder.middleware()]) as (consumer, peer):
        await peer.message()
        await consumer.run(handler)
    span = recorder.span("process")
    assert span.status.status_code is StatusCode.ERROR
    assert attributes(span)["error.type"] == "asyncio.exceptions.CancelledError"
    assert attributes(span)["messaging.nsq.outcome"] == "requeued"
    assert [event.name for event in span.events] == ["exception"]
