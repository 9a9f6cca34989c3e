"""gnsq, on gevent."""

from __future__ import annotations

from typing import Any

from .meter import Meter, load
from .task import Task, read_task


def consume(gnsq: Any, task: Task) -> None:
    consumer = gnsq.Consumer(
        task.topic,
        task.channel,
        nsqd_tcp_addresses=task.nsqds,
        max_in_flight=task.max_in_flight,
        **connection_options(task),
    )
    meter = Meter(task, consumer.close)
    left = meter.begin()

    def handle(consumer: Any, message: Any) -> None:
        nonlocal left
        message.finish()
        left -= 1
        if not left:
            left = meter.next()

    consumer.on_message.connect(handle)
    consumer.start()
    meter.report(left)


def publish(gnsq: Any, task: Task) -> None:
    gevent = load("gevent")
    meter = Meter(task)
    left = meter.begin()
    body = b"." * task.size
    producer = gnsq.Producer(task.nsqds, **connection_options(task))
    producer.start()
    send = producer.publish if task.batch == 1 else producer.multipublish
    what = body if task.batch == 1 else [body] * task.batch

    def publish_in_turn() -> None:
        nonlocal left
        while left:
            left -= task.batch
            send(task.topic, what)

    while not meter.done:
        gevent.joinall([gevent.spawn(publish_in_turn) for _ in range(task.concurrency)], raise_error=True)
        left = meter.next()
    producer.close()
    meter.report(left)


def connection_options(task: Task) -> dict[str, Any]:
    return {"snappy": task.compression == "snappy", "deflate": task.compression == "deflate"}


if __name__ == "__main__":
    {"consume": consume, "publish": publish}[read_task().kind](load("gnsq"), read_task())
