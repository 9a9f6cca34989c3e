"""A block that is used from another event loop than its own: it says so, and nothing waits for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.consumer import Consumer
from nsq_anyio.producer import Producer

from ..conftest import BACKENDS
from ..fake_nsqd import LIMIT, fake_nsqd, serve

pytestmark = pytest.mark.anyio


async def handle(_message: nsq.Message) -> None: ...


async def make_batches(consumer: Consumer) -> None:
    consumer.batches(10)


async def stop(consumer: Consumer) -> None:
    consumer.stop()


OF_PRODUCERS: dict[str, Callable[[Producer], Awaitable[object]]] = {
    "publish": lambda producer: producer.publish("t", b"x"),
    "publish later": lambda producer: producer.publish("t", b"x", defer=1),
    "publish_many": lambda producer: producer.publish_many("t", [b"x"]),
    "ready": lambda producer: producer.ready(),
}
OF_CONSUMERS: dict[str, Callable[[Consumer], Awaitable[object]]] = {
    "anext": anext,
    "run": lambda consumer: consumer.run(handle),
    "batches": make_batches,
    "ready": lambda consumer: consumer.ready(),
    "stop": stop,
}

elsewhere = pytest.mark.parametrize("loop", BACKENDS.values(), ids=list(BACKENDS))


async def refused(call: Callable[[], Awaitable[object]], loop: tuple[str, dict[str, bool]]) -> None:
    """Check that a call fails at once in an event loop of another thread."""

    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"another event loop.*anyio\.from_thread\.run.*nsq\.sync"):
            with anyio.fail_after(LIMIT):
                await call()

    def run() -> None:
        anyio.run(main, backend=loop[0], backend_options=loop[1])

    await anyio.to_thread.run_sync(run)


@asynccontextmanager
async def producing(options: nsq.ProducerOptions | None = None) -> AsyncGenerator[Producer]:
    async with nsq.embedded.nsqd() as nsqd, nsq.produce(nsqd.tcp_address, options=options) as producer:
        yield producer


@elsewhere
@pytest.mark.parametrize("coalesce", [False, True])
async def test_a_producer_refuses_and_goes_on(loop: tuple[str, dict[str, bool]], coalesce: bool) -> None:
    async with producing(nsq.ProducerOptions(coalesce=coalesce)) as producer:
        for call in OF_PRODUCERS.values():
            await refused(lambda call=call: call(producer), loop)  # type: ignore[misc]
            await call(producer)
        assert producer.statistics().published == 3


@elsewhere
async def test_a_consumer_refuses_and_goes_on(loop: tuple[str, dict[str, bool]]) -> None:
    async with fake_nsqd(serve) as nsqd, nsq.consume("t", "c", nsqd=nsqd.address) as consumer:
        await consumer.ready()
        for call in OF_CONSUMERS.values():
            await refused(lambda call=call: call(consumer), loop)  # type: ignore[misc]
        await (await nsqd.connection()).offer(b"a")
        with anyio.fail_after(LIMIT):
            async for message in consumer:
                message.finish()
                break


async def test_a_plain_thread_cannot_stop_a_consumer() -> None:
    async with fake_nsqd(serve) as nsqd, nsq.consume("t", "c", nsqd=nsqd.address) as consumer:
        with pytest.raises(RuntimeError, match=r"anyio\.from_thread\.run"):
            await anyio.to_thread.run_sync(consumer.stop)
        await anyio.to_thread.run_sync(anyio.from_thread.run_sync, consumer.stop)
        with pytest.raises(StopAsyncIteration):
            await anext(consumer)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_block_is_not_left_in_another_loop() -> None:
    async with nsq.embedded.nsqd() as nsqd:

        def in_two_loops() -> None:
            block = nsq.produce(nsqd.tcp_address)
            with asyncio.Runner() as entering, asyncio.Runner() as leaving:
                producer = entering.run(enter(block))
                entering.run(producer.ready())
                with pytest.raises(RuntimeError, match="loop_scope"):
                    leaving.run(producer.publish("t", b"x"))
                with pytest.raises(RuntimeError, match="loop_scope"):
                    leaving.run(leave(block))

        await anyio.to_thread.run_sync(in_two_loops)


async def enter(block: AbstractAsyncContextManager[Producer]) -> Producer:
    return await block.__aenter__()


async def leave(block: AbstractAsyncContextManager[Producer]) -> None:
    await block.__aexit__(None, None, None)
