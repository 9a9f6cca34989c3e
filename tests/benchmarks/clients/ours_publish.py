"""What this package does to publish, and to measure the way from publisher to consumer."""

from __future__ import annotations

import struct
import time

import anyio

import nsq_anyio as nsq

from .meter import Meter, percentiles
from .ours_options import connection_options
from .task import Task

_STAMP = struct.Struct(">d")


async def publish(task: Task) -> None:
    """Publish from `concurrency` tasks, each of which awaits nsqd's OK before its next."""
    meter = Meter(task)
    left = meter.begin()
    body = b"." * task.size
    bodies = [body] * task.batch
    async with nsq.produce(
        nsqd=task.nsqds,
        options=nsq.ProducerOptions(coalesce=task.coalesce),
        connection=connection_options(task),
    ) as producer:

        async def publish_one_by_one() -> None:
            nonlocal left
            while left:
                left -= 1
                await producer.publish(task.topic, body)

        async def publish_batches() -> None:
            nonlocal left
            while left:
                left -= task.batch
                await producer.publish_many(task.topic, bodies)

        work = publish_one_by_one if task.batch == 1 else publish_batches
        while not meter.done:
            async with anyio.create_task_group() as tasks:
                for _ in range(task.concurrency):
                    tasks.start_soon(work)
            left = meter.next()
    meter.report(left)


async def latency(task: Task) -> None:
    """Publish at a steady rate, and consume in the same process: one clock."""
    taken: list[float] = []
    meter = Meter(task)
    left = meter.begin()
    options = connection_options(task)
    async with (
        nsq.produce(nsqd=task.nsqds, connection=options) as producer,
        nsq.consume(
            task.topic,
            task.channel,
            nsqd=task.nsqds,
            max_in_flight=task.max_in_flight,
            connection=options,
        ) as consumer,
        anyio.create_task_group() as tasks,
    ):
        await consumer.ready()
        tasks.start_soon(publish_steadily, task, producer)
        async for message in consumer:
            taken.append(time.monotonic() - _STAMP.unpack_from(message.body)[0])
            message.finish()
            left -= 1
            if not left:
                left = meter.next()
                if meter.done:
                    break
    meter.report(left, percentiles(taken[task.warm_up :]))


async def publish_steadily(task: Task, producer: nsq.Producer) -> None:
    """Publish all messages at the task's rate; one that is late is published at once."""
    padding = b"." * (task.size - _STAMP.size)
    begins_at = time.monotonic()
    for number in range(task.messages):
        wait = begins_at + number / task.rate - time.monotonic()
        if wait > 0:
            await anyio.sleep(wait)
        await producer.publish(task.topic, _STAMP.pack(time.monotonic()) + padding)
