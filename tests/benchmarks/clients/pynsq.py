"""pynsq, whose readers call a handler: finished is what it returns True for."""

from __future__ import annotations

import asyncio
from typing import Any

from .meter import Meter, load
from .task import Task, read_task


async def consume(nsq: Any, task: Task) -> None:
    finished = asyncio.Event()
    meter = Meter(task, finished.set)
    left = meter.begin()

    def handle(message: Any) -> bool:
        nonlocal left
        left -= 1
        if not left:
            left = meter.next()
        return True

    nsq.Reader(
        message_handler=handle,
        nsqd_tcp_addresses=task.nsqds,
        topic=task.topic,
        channel=task.channel,
        max_in_flight=task.max_in_flight,
        **connection_options(task),
    )
    await finished.wait()
    meter.report(left)


async def publish(nsq: Any, task: Task) -> None:
    meter = Meter(task)
    left = meter.begin()
    loop = asyncio.get_running_loop()
    body = b"." * task.size
    writer = nsq.Writer(task.nsqds, **connection_options(task))
    while not any(connection.connected() for connection in writer.conns.values()):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    send = writer.pub if task.batch == 1 else writer.mpub
    what = body if task.batch == 1 else [body] * task.batch

    async def publish_in_turn() -> None:
        nonlocal left
        while left:
            left -= task.batch
            await publish_once()

    async def publish_once() -> None:
        answered: asyncio.Future[Any] = loop.create_future()

        def resolve(connection: Any, data: Any) -> None:
            answered.set_result(data)

        send(task.topic, what, callback=resolve)
        answer = await answered
        if answer != b"OK":
            raise ConnectionError(f"nsqd answered {answer!r}")

    while not meter.done:
        await asyncio.gather(*(publish_in_turn() for _ in range(task.concurrency)))
        left = meter.next()
    meter.report(left)


def connection_options(task: Task) -> dict[str, Any]:
    return {
        "tls_v1": bool(task.ca_file),
        "tls_options": {"ca_certs": task.ca_file} if task.ca_file else None,
        "snappy": task.compression == "snappy",
        "deflate": task.compression == "deflate",
    }


if __name__ == "__main__":
    asyncio.run({"consume": consume, "publish": publish}[read_task().kind](load("nsq"), read_task()))
