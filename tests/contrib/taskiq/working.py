"""A worker of taskiq in the test's own process, and what nsqd has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import anyio
from taskiq import AsyncBroker
from taskiq.receiver import Receiver

import nsq_anyio as nsq
from nsq_anyio.http.stats import ChannelStats

LIMIT = 20.0


@asynccontextmanager
async def working(broker: AsyncBroker, **options: Any) -> AsyncGenerator[asyncio.Event]:
    """Run a worker, as ``taskiq worker`` does; it ends when the event is set, or the block ends."""
    finish = asyncio.Event()
    with ThreadPoolExecutor(2) as executor:
        receiver = Receiver(broker, executor, **options, max_async_tasks=10, run_startup=False)
        task = asyncio.create_task(receiver.listen(finish))
        try:
            yield finish
        finally:
            finish.set()
            with anyio.fail_after(LIMIT):
                await task


async def until(condition: Callable[[], bool]) -> None:
    """Wait until ``condition`` holds."""
    with anyio.fail_after(LIMIT):
        while not condition():  # noqa: ASYNC110 - what tasks do is only looked at
            await anyio.sleep(0.005)


async def channel_of(http_url: str, topic: str = "taskiq", channel: str = "workers") -> Any:
    """What nsqd says about a channel; None if there is none."""
    async with nsq.http.Nsqd(http_url) as http:
        stats = await http.stats(topic=topic)
    channels = [each for of in stats.topics for each in of.channels if each.channel_name == channel]
    return channels[0] if channels else None


async def until_channel(http_url: str, condition: Callable[[ChannelStats], bool]) -> None:
    """Wait until there is a channel for which ``condition`` holds."""
    with anyio.fail_after(LIMIT):
        # nsqd is only asked.
        while not ((channel := await channel_of(http_url)) and condition(channel)):  # noqa: ASYNC110
            await anyio.sleep(0.01)


async def until_finished(http_url: str) -> None:
    """Wait until nsqd waits for nothing, and has nothing."""
    await until_channel(http_url, lambda each: not each.depth + each.in_flight_count + each.deferred_count)


async def first_of(address: str, topic: str = "taskiq.dead") -> nsq.Message:
    """The first message of a topic."""
    async with nsq.consume(topic, "look", nsqd=address) as consumer:
        with anyio.fail_after(LIMIT):
            async for message in consumer:
                message.finish()
                return message
    raise AssertionError
