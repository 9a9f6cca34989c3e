"""ansq, whose readers keep to RDY 1: a connection of its lower layer is told the count."""

from __future__ import annotations

import asyncio
from typing import Any

from .meter import Meter, load
from .task import Task, read_task


async def consume(ansq: Any, task: Task) -> None:
    meter = Meter(task)
    left = meter.begin()
    host, _, port = task.nsqds[0].rpartition(":")
    connection = await ansq.open_connection(host, int(port))
    await connection.subscribe(task.topic, task.channel, task.max_in_flight)
    async for message in connection.messages():
        await message.fin()
        left -= 1
        if not left:
            left = meter.next()
            if meter.done:
                break
    await connection.close()
    meter.report(left)


async def publish(ansq: Any, task: Task) -> None:
    meter = Meter(task)
    left = meter.begin()
    body = b"." * task.size
    bodies = [body] * task.batch
    writer = await ansq.create_writer(nsqd_tcp_addresses=task.nsqds)

    async def publish_in_turn() -> None:
        nonlocal left
        while left:
            left -= task.batch
            if task.batch == 1:
                await writer.pub(task.topic, body)
            else:
                await writer.mpub(task.topic, *bodies)

    while not meter.done:
        await asyncio.gather(*(publish_in_turn() for _ in range(task.concurrency)))
        left = meter.next()
    await writer.close()
    meter.report(left)


if __name__ == "__main__":
    asyncio.run({"consume": consume, "publish": publish}[read_task().kind](load("ansq"), read_task()))
