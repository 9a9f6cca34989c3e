"""asyncio's own cancellation ends a service in bounded time, in each phase, and hands its messages back."""

from __future__ import annotations

import asyncio
from functools import partial

import anyio
import pytest

import nsq_anyio as nsq

from .endpoints import LIMIT

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize(
        "anyio_backend", [("asyncio", {"use_uvloop": False}), ("asyncio", {"use_uvloop": True})]
    ),
]


@pytest.mark.parametrize("phase", ["handling", "draining"])
@pytest.mark.parametrize("times", [1, 2])
async def test_a_cancelled_task(phase: str, times: int) -> None:
    begun = anyio.Event()

    async def handle(_: nsq.Message) -> None:
        begun.set()
        await anyio.sleep(1000)

    stop = anyio.Event()
    options = nsq.ConsumerOptions(cancelled_drain_timeout=0.2, close_timeout=0.5)
    async with nsq.embedded.nsqd() as nsqd:
        async with nsq.produce(nsqd.tcp_address) as producer:
            await producer.publish("t", b"1")
        serve = partial(nsq.serve, handle, "t", "c", nsqd=nsqd.tcp_address, http_address="127.0.0.1:0")
        task = asyncio.create_task(serve(stop=stop, options=options))
        with anyio.fail_after(LIMIT):
            await begun.wait()
            if phase == "draining":
                stop.set()
                await anyio.sleep(0.05)
            for _ in range(times):
                task.cancel()
                await anyio.sleep(0.05)
            with pytest.raises(asyncio.CancelledError):
                await task
            while nsqd.topics["t"].channels["c"].in_flight:  # noqa: ASYNC110 - handing back sets no event
                await anyio.sleep(0.01)
