"""What this package does to consume, in each of its ways, and to be idle."""

from __future__ import annotations

import dataclasses

import anyio
from anyio.abc import ByteStream

import nsq_anyio as nsq

from .meter import Meter
from .ours_options import connection_options
from .task import Task


async def consume(task: Task) -> None:
    """Take messages in the task's style, and finish each."""
    take = {"iterate": iterate, "block": iterate_with_block, "handler": run_handler}[task.style]
    async with nsq.consume(
        task.topic,
        task.channel,
        nsqd=task.nsqds,
        max_in_flight=task.max_in_flight,
        connection=connection_options(task),
    ) as consumer:
        await take(consumer, task)


async def iterate(consumer: nsq.Consumer, task: Task) -> None:
    meter = Meter(task)
    left = meter.begin()
    async for message in consumer:
        message.finish()
        left -= 1
        if not left:
            left = meter.next()
            if meter.done:
                break
    meter.report(left)


async def iterate_with_block(consumer: nsq.Consumer, task: Task) -> None:
    meter = Meter(task)
    left = meter.begin()
    async for message in consumer:
        async with message:
            left -= 1
        if not left:
            left = meter.next()
            if meter.done:
                break
    meter.report(left)


async def run_handler(consumer: nsq.Consumer, task: Task) -> None:
    meter = Meter(task, finished=consumer.stop)
    left = meter.begin()

    async def handle(message: nsq.Message) -> None:
        nonlocal left
        left -= 1
        if not left:
            left = meter.next()

    await consumer.run(handle, concurrency=task.concurrency)
    meter.report(left)


async def idle(task: Task) -> None:
    """Keep one consumer connected to `connections` nsqds, which are one and the same, and do nothing."""
    host, _, port = task.nsqds[0].rpartition(":")

    async def dial(address: str) -> ByteStream:
        return await anyio.connect_tcp(host, int(port))

    waiting = task.connections
    subscribed = anyio.Event()

    def count(event: nsq.events.Event) -> None:
        nonlocal waiting
        if isinstance(event, nsq.events.Subscribed):
            waiting -= 1
            if not waiting:
                subscribed.set()

    meter = Meter(task)
    async with nsq.consume(
        task.topic,
        task.channel,
        nsqd=[f"nsqd-{number}:4150" for number in range(task.connections)],
        max_in_flight=task.connections,
        connection=dataclasses.replace(connection_options(task), dialer=dial),
        on_event=count,
    ):
        with anyio.fail_after(60):
            await subscribed.wait()
        await anyio.sleep(1)  # what follows a connection is over
        meter.next()
        await anyio.sleep(task.timed / 1000)
        left = meter.next()
    meter.report(left)
