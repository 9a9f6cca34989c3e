"""Middleware under asyncio's own `Task.cancel`, which no shield stops."""

import asyncio
from typing import Any

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.events import HandlerFailed

from ..fake_nsqd import LIMIT, Events, consuming, until
from ..middleware.noting import Notes

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module", params=[False, True], ids=["asyncio", "asyncio+uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("batch", [False, True])
async def test_cancelled_while_it_is_left(times: int, batch: bool) -> None:
    notes = Notes()
    # What is to be interrupted takes so long that it cannot end before, on a busy machine either.
    middleware = [
        notes.middleware("a", cleanup=0.02 if times < 3 else LIMIT * 10),
        notes.middleware("b", cleanup=0.02 if times == 1 else LIMIT * 10),
    ]
    async with consuming(middleware=middleware) as (consumer, peer):
        id = await peer.message()

        async def block() -> None:
            subject: Any = await anext(consumer.batches(1)) if batch else await anext(consumer)
            async with subject:
                await anyio.sleep_forever()

        task = asyncio.create_task(block())
        await until(lambda: len(notes) == 2)
        for number in range(times):
            task.cancel()
            await until(lambda: len(notes) > 2 + min(number, 1))  # noqa: B023 - called at once
        with anyio.fail_after(LIMIT), pytest.raises(asyncio.CancelledError):
            await task
        await peer.saw(b"REQ %b 0" % id)
    assert notes[:3] == ["+a", "+b", "-b cancelled"]
    assert "-a cancelled" in notes
    assert ("b is clean" in notes) == (times == 1)
    assert ("a is clean" in notes) == (times < 3)


async def test_a_stray_cancellation_is_a_failure() -> None:
    notes, events = Notes(), Events()
    options = nsq.ConsumerOptions(requeue_delay=0)

    async def handler(_: nsq.Message) -> None:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    middleware = [notes.middleware("a", cleanup=0.001)]
    async with consuming(middleware=middleware, options=options, on_event=events) as (consumer, peer):
        id = await peer.message()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, handler)
            await peer.saw(b"REQ %b 0" % id)
            consumer.stop()
    assert notes == ["+a", "-a requeued", "a is clean"]
    assert len(events.of(HandlerFailed)) == 1
