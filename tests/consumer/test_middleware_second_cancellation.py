"""Middleware that is cancelled, and cancelled again, while it is left: it ends soon; the answer is true."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

import nsq_anyio as nsq

from .. import virtual_time
from ..fake_nsqd import LIMIT, consuming, until
from ..middleware.noting import Notes

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio

SHORT = nsq.ConsumerOptions(cancelled_drain_timeout=0.2, drain_timeout=0.2)


def answers(lines: list[bytes], id: bytes) -> list[bytes]:
    return [line for line in lines if id in line]


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("handler", ["has ended", "is cancelled"])
@pytest.mark.parametrize("taking", ["block", "batch", "run"])
async def test_cancelled_in_the_ending(taking: str, handler: str, times: int) -> None:
    notes = Notes()
    middleware = [notes.middleware("a"), notes.middleware("b", cleanup=LIMIT * 10)]
    async with consuming(middleware=middleware, options=SHORT) as (consumer, peer):
        id = await peer.message()
        outer, inner = anyio.CancelScope(), anyio.CancelScope()

        async def handle(_: object) -> None:
            if handler == "is cancelled":
                await anyio.sleep_forever()

        async def take() -> None:
            with outer, inner:
                if taking == "run":
                    await consumer.run(handle)
                else:
                    subject: Any = await anext(consumer.batches(1) if taking == "batch" else consumer)
                    async with subject:
                        await handle(subject)

        with anyio.fail_after(LIMIT / 2):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(take)
                if handler == "is cancelled":
                    await until(lambda: len(notes) == 2)
                    inner.cancel()
                await until(lambda: len(notes) == 3)  # the inner middleware is being left
                for scope in (inner, outer)[:times]:
                    scope.cancel()
                    await anyio.sleep(0.01)
        await peer.saw(b"REQ %b 0" % id)
    # It has not ended well, so it is handed back, and only once.
    assert answers(peer.lines, id) == [b"REQ %b 0" % id]
    first = "-b finished" if handler == "has ended" else "-b cancelled"
    assert notes == ["+a", "+b", first, "-a cancelled"]
