"""asyncnsq: its iteration, or its handler without a queue, which is its fastest way."""

from __future__ import annotations

import asyncio
from typing import Any

from .meter import Meter, load
from .task import Task, read_task


async def consume(asyncnsq: Any, task: Task) -> None:
    finished = asyncio.Event()
    meter = Meter(task, finished.set)
    left = meter.begin()
    reader = await asyncnsq.create_reader(
        nsqd_tcp_addresses=task.nsqds, max_in_flight=task.max_in_flight, **connection_options(task)
    )

    def handle(message: Any) -> None:
        nonlocal left
        left -= 1
        if not left:
            left = meter.next()

    if task.style == "handler":
        reader.set_message_handler(handle, direct=True)
    await reader.subscribe(task.topic, task.channel)
    if task.style == "handler":
        await finished.wait()
    else:
        async for message in reader.messages():
            message.fin_nowait()
            handle(message)
            if meter.done:
                break
    meter.report(left)


async def publish(asyncnsq: Any, task: Task) -> None:
    meter = Meter(task)
    left = meter.begin()
    body = b"." * task.size
    bodies = [body] * task.batch
    host, _, port = task.nsqds[0].rpartition(":")
    writer = await asyncnsq.create_writer(host=host, port=int(port), **connection_options(task))

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
    writer.close()
    meter.report(left)


def connection_options(task: Task) -> dict[str, Any]:
    # It has no option for the authority: it never checks the certificate.
    return {
        "tls_v1": bool(task.ca_file),
        "snappy": task.compression == "snappy",
        "deflate": task.compression == "deflate",
    }


if __name__ == "__main__":
    asyncio.run({"consume": consume, "publish": publish}[read_task().kind](load("asyncnsq"), read_task()))
