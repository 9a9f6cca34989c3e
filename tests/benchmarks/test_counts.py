"""What a message costs, counted: sends, turns of the event loop, calls and bytes.

Each bound leaves room for other releases of Python, AnyIO and Trio, but none for a send, a task or a turn of
the event loop for every message. A bound that has become loose is a reason to tighten it.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
import pytest
from anyio.abc import ByteStream

import nsq_anyio as nsq

from .counters import Suspensions, count_calls
from .memory_nsqd import MemoryNsqd

pytestmark = pytest.mark.anyio

MESSAGES = 10_000
PUBLISHES = 2_000
RDY = 2_500

Take = Callable[[nsq.Consumer, int], Coroutine[Any, Any, None]]


def reaching(nsqd: MemoryNsqd) -> nsq.ConnectionOptions:
    """Options whose connections end at `nsqd`."""

    async def dial(address: str) -> ByteStream:
        return nsqd

    return nsq.ConnectionOptions(dialer=dial)


@asynccontextmanager
async def consuming(nsqd: MemoryNsqd, max_in_flight: int = RDY) -> AsyncGenerator[nsq.Consumer]:
    async with nsq.consume(
        "t", "c", nsqd="nsqd:4150", max_in_flight=max_in_flight, connection=reaching(nsqd)
    ) as consumer:
        await consumer.ready()
        yield consumer


async def finish_messages(consumer: nsq.Consumer, count: int) -> None:
    async for message in consumer:
        message.finish()
        count -= 1
        if not count:
            break


async def finish_in_blocks(consumer: nsq.Consumer, count: int) -> None:
    async for message in consumer:
        async with message:
            count -= 1
        if not count:
            break


async def run_handler(consumer: nsq.Consumer, count: int) -> None:
    async def handle(message: nsq.Message) -> None:
        nonlocal count
        count -= 1
        if not count:
            consumer.stop()

    await consumer.run(handle, concurrency=100)


TAKERS = pytest.mark.parametrize("take", [finish_messages, finish_in_blocks, run_handler])


@TAKERS
async def test_sends_and_chunks(take: Take) -> None:
    nsqd = MemoryNsqd(MESSAGES)
    async with consuming(nsqd) as consumer:
        sends, receives = nsqd.sends, nsqd.receives
        await take(consumer, MESSAGES)
        sends, receives = nsqd.sends - sends, nsqd.receives - receives
    assert nsqd.finished == MESSAGES
    # The taker gives the writer a turn every 64 messages, or 5 ms on a machine that is slower than that.
    assert sends <= MESSAGES / 25
    assert receives <= MESSAGES / 25


@TAKERS
async def test_turns_of_the_event_loop_while_messages_abound(take: Take) -> None:
    async with consuming(MemoryNsqd(MESSAGES)) as consumer:
        taking = Suspensions(take(consumer, MESSAGES))
        await taking
    assert taking.count <= MESSAGES / 25


@pytest.mark.parametrize(
    ("take", "bound"), [(finish_messages, 25), (finish_in_blocks, 29), (run_handler, 35)]
)
async def test_calls_of_a_message(take: Take, bound: int) -> None:
    async with consuming(MemoryNsqd(MESSAGES)) as consumer:
        with count_calls() as calls:
            await take(consumer, MESSAGES)
    assert calls.count / MESSAGES <= bound


async def test_memory_of_a_message() -> None:
    many = 3 * MESSAGES
    async with consuming(MemoryNsqd(many, size=100)) as consumer:
        with traced_memory() as grown:
            held = [await anext(consumer) for _ in range(RDY)]
            # 100 bytes of body and 33 of its object, 49 of the id, 88 of the message; the rest is its
            # timestamp and its places in containers.
            assert grown() / RDY <= 420
            while held:
                held.pop().finish()
            await finish_messages(consumer, many - RDY)
            # A dict keeps the size that it had with all of them, about 150 kB, and Trio keeps up to 100 kB of
            # deadlines that have been moved. One small object that stayed of each message would be 840 kB.
            assert grown() <= 400_000


@pytest.mark.parametrize(("coalesce", "calls_bound"), [(False, 100), (True, 60)])
async def test_costs_of_a_publish(coalesce: bool, calls_bound: int) -> None:
    nsqd = MemoryNsqd()
    options = nsq.ProducerOptions(coalesce=coalesce)
    left = PUBLISHES
    suspensions = 0
    async with nsq.produce(nsqd="nsqd:4150", options=options, connection=reaching(nsqd)) as producer:

        async def publish() -> None:
            nonlocal left
            while left:
                left -= 1
                await producer.publish("t", b"body")

        async def count_suspensions() -> None:
            nonlocal suspensions
            publishing = Suspensions(publish())
            await publishing
            suspensions += publishing.count

        await producer.publish("t", b"the first one waits for the connection")
        sends, publishes = nsqd.sends, nsqd.publishes
        with count_calls() as calls:
            async with anyio.create_task_group() as tasks:
                for _ in range(100):
                    tasks.start_soon(count_suspensions)
        sends, publishes = nsqd.sends - sends, nsqd.publishes - publishes
    # 100 tasks publish, and wait for their OKs, together: each wave of them is one send.
    assert sends <= PUBLISHES / 25
    assert publishes <= PUBLISHES / 25 if coalesce else publishes == PUBLISHES
    assert suspensions <= 1.5 * PUBLISHES
    assert calls.count <= calls_bound * PUBLISHES


@contextmanager
def traced_memory() -> Generator[Callable[[], int]]:
    """Trace allocations for the length of the block, whose value says how many bytes more are in use."""
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()

    def grown() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before

    try:
        yield grown
    finally:
        tracemalloc.stop()
