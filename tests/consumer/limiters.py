"""Consumers that share a limiter."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

import nsq_anyio as nsq

from ..fake_nsqd import FakeConnection, FakeNsqd

OFTEN = nsq.ConsumerOptions(rdy_redistribute_interval=0.01)


@asynccontextmanager
async def sharing(
    nsqd: FakeNsqd, limiter: anyio.CapacityLimiter
) -> AsyncGenerator[tuple[nsq.Consumer, FakeConnection]]:
    async with nsq.consume("t", "c", nsqd=nsqd.address, limiter=limiter, options=OFTEN) as consumer:
        yield consumer, await nsqd.subscribed()
