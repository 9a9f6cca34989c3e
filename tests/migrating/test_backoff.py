"""What messages that always fail cost the others, with pynsq and here: docs/migrating/pynsq.md tells it."""

from __future__ import annotations

import sys

import anyio
import pytest

import nsq_anyio as nsq

from ..real_servers import RealServer, real_nsqd

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="module"),
    pytest.mark.timeout(180),
]

GOOD, BAD = 500, 6
LIMIT = 60.0

READER = """
import sys, time, nsq, tornado.ioloop

def handle(message):
    if message.body == b"bad":
        return False
    if message.body == b"last":
        print(time.monotonic() - started, flush=True)
        tornado.ioloop.IOLoop.current().call_later(0, tornado.ioloop.IOLoop.current().stop)
    return True

started = time.monotonic()
nsq.Reader(topic="t", channel="c", message_handler=handle, nsqd_tcp_addresses=[sys.argv[1]], max_in_flight=8,
           requeue_delay=0, output_buffer_timeout=25)
nsq.run()
"""


async def fill(nsqd: RealServer) -> None:
    async with nsq.http.Nsqd(nsqd.http_url) as http:
        await http.create_topic("t")
        await http.create_channel("t", "c")
    bodies = [b"good"] * GOOD
    for place in range(BAD):
        bodies.insert(place * GOOD // BAD, b"bad")
    async with nsq.produce(nsqd.tcp_address) as producer:
        await producer.publish_many("t", [*bodies, b"last"])


async def with_pynsq() -> float:
    async with real_nsqd() as nsqd:
        await fill(nsqd)
        with anyio.fail_after(LIMIT):
            done = await anyio.run_process([sys.executable, "-c", READER, nsqd.tcp_address])
    return float(done.stdout)


async def here(error: Exception, *, backoff_multiplier: float = 1.0) -> float:
    async def handle(message: nsq.Message) -> None:
        if message.body == b"bad":
            raise error
        if message.body == b"last":
            consumer.stop()

    options = nsq.ConsumerOptions(requeue_delay=0, backoff_multiplier=backoff_multiplier)
    async with real_nsqd() as nsqd:
        await fill(nsqd)
        started = anyio.current_time()
        with anyio.fail_after(LIMIT):
            async with nsq.consume(
                "t", "c", nsqd=nsqd.tcp_address, max_in_flight=8, options=options
            ) as consumer:
                await consumer.run(handle, concurrency=8)
                return anyio.current_time() - started


async def test_pynsq_lets_other_messages_end_its_backoff() -> None:
    seconds = await here(ValueError("bad"))
    assert await with_pynsq() < seconds / 2
    assert await here(ValueError("bad"), backoff_multiplier=0.05) < seconds / 2
    assert await here(nsq.Requeue(backoff=False)) < seconds / 2
