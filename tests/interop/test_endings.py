"""A real nsqd is stopped (SIGSTOP) while blocks run: cancelled once or more, each ends within its bound."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import anyio
import pytest

import nsq_anyio as nsq

from ..fake_nsqd import client_tasks
from .cluster import Cluster

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize(
        "anyio_backend",
        [("asyncio", {"use_uvloop": False}), ("asyncio", {"use_uvloop": True})],
        ids=["asyncio", "asyncio+uvloop"],
    ),
]

LIMIT = 5.0
CONSUMER = nsq.ConsumerOptions(close_timeout=0.3, cancelled_drain_timeout=0.2)
PRODUCER = nsq.ProducerOptions(drain_timeout=0.3, cancelled_drain_timeout=0.2)
COALESCING = nsq.ProducerOptions(coalesce=True, drain_timeout=0.3, cancelled_drain_timeout=0.2)

Reached = Callable[[], None]


async def consume(address: str, reached: Reached) -> None:
    async with nsq.consume("t", "c", nsqd=address, options=CONSUMER, max_in_flight=5) as consumer:
        await anext(consumer)
        reached()
        await anyio.sleep_forever()


async def run(address: str, reached: Reached) -> None:
    async def handler(_message: nsq.Message) -> None:
        reached()
        await anyio.sleep_forever()

    async with nsq.consume("t", "c", nsqd=address, options=CONSUMER, max_in_flight=5) as consumer:
        await consumer.run(handler)


def publish(options: nsq.ProducerOptions) -> Callable[[str, Reached], Awaitable[None]]:
    async def publish_for_ever(address: str, reached: Reached) -> None:
        async with nsq.produce(address, options=options) as producer:
            while True:
                await producer.publish("other", b"x")
                reached()

    return publish_for_ever


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_a_cancelled_block_ends_while_nsqd_is_stopped(cluster: Cluster, times: int) -> None:
    nsqd = await cluster.nsqd("real")
    async with nsq.produce(nsqd.tcp_address) as producer:
        await producer.publish_many("t", [b"%d" % number for number in range(20)])
    blocks = [consume, run, publish(PRODUCER), publish(COALESCING)]
    reached = [asyncio.Event() for _ in blocks]

    async def user(block: Callable[[str, Reached], Awaitable[None]], event: asyncio.Event) -> None:
        await block(nsqd.tcp_address, event.set)

    tasks = [asyncio.create_task(user(block, event)) for block, event in zip(blocks, reached, strict=True)]
    with anyio.fail_after(LIMIT):
        for event in reached:
            await event.wait()
    nsqd.suspend()
    try:
        await anyio.sleep(0.05)
        for _ in range(times):
            for task in tasks:
                task.cancel()
            await anyio.sleep(0.1)
        _, pending = await asyncio.wait(tasks, timeout=LIMIT)
        assert not pending
        assert all(task.cancelled() for task in tasks)
        assert client_tasks() == []
    finally:
        nsqd.resume()
    # nsqd reads what was sent before the connections were closed, and has nothing in flight for them.
    if times == 1:
        async with nsqd.http() as http:
            with anyio.fail_after(LIMIT):
                while True:
                    (topic,) = (await http.stats(topic="t")).topics
                    (channel,) = topic.channels
                    if not channel.in_flight_count and not channel.clients:
                        break
                    await anyio.sleep(0.05)
