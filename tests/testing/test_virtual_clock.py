"""Minutes of requeues and of deferral pass at once."""

from __future__ import annotations

import asyncio
import time

import anyio
import anyio.to_thread
import pytest
import trio

import nsq_anyio as nsq
from nsq_anyio.testing import VirtualTimeLoop, cluster, pass_time, virtual_time

from .. import virtual_time as for_tests

anyio_backend = for_tests.anyio_backend


@pytest.mark.anyio
async def test_requeues_and_backoff_take_no_time() -> None:
    attempts: list[tuple[int, float]] = []

    async def handle(message: nsq.Message) -> None:
        attempts.append((message.attempts, anyio.current_time()))
        if message.attempts < 5:
            raise nsq.Requeue(delay=120)

    async with cluster(nsqds=1) as running, anyio.create_task_group() as tasks:
        await running.publish("orders", b"1")
        async with nsq.consume("orders", "billing", nsqd=running.tcp_addresses) as consumer:
            tasks.start_soon(consumer.run, handle)
            await running.wait_until_empty("orders", "billing", timeout=3600)
            consumer.stop()
    assert [attempt for attempt, _ in attempts] == [1, 2, 3, 4, 5]
    assert attempts[-1][1] - attempts[0][1] >= 4 * 120


@pytest.mark.anyio
async def test_the_clock_stands_still_while_a_worker_thread_is_busy() -> None:
    began = anyio.current_time()
    with anyio.move_on_after(3600) as limit:
        await anyio.to_thread.run_sync(time.sleep, 0.05)
    assert (anyio.current_time() - began, limit.cancelled_caught) == (0, False)


@pytest.mark.anyio
async def test_a_deferred_message_comes_when_it_should() -> None:
    async with cluster(nsqds=1) as running:
        await running.publish("orders", b"1", defer=600)
        published = anyio.current_time()
        assert await running.messages("orders") == []
        await running.messages("orders", count=1, timeout=900)
        assert 590 < anyio.current_time() - published < 640


@pytest.mark.anyio
async def test_a_handler_that_blocks_misses_its_deadline() -> None:
    async with cluster(nsqds=1) as running:
        await running.publish("orders", b"1")
        async with nsq.consume("orders", "billing", nsqd=running.tcp_addresses) as consumer:
            message = await anext(aiter(consumer))
            pass_time(61)
            assert message.time_left() == 0


def test_each_event_loop_by_itself() -> None:
    async def an_hour() -> None:
        await asyncio.sleep(3600)

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(an_hour())
        assert 3600 <= runner.get_loop().time() < 3601

    async def on_trio() -> float:
        await trio.sleep(3600)
        return trio.current_time()

    assert 3600 <= trio.run(on_trio, **virtual_time("trio")[1]) < 3601


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_real_time_cannot_be_passed(backend: str) -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match="no virtual clock"):
            pass_time(1)

    anyio.run(main, backend=backend)
    with pytest.raises(RuntimeError, match="no virtual clock"):
        pass_time(1)
    with pytest.raises(nsq.InvalidOption, match="seconds=-1"):
        pass_time(-1)


def test_an_event_loop_without_such_a_clock_is_refused() -> None:
    with pytest.raises(nsq.InvalidOption, match="backend='uvloop' is not valid: use 'asyncio' or 'trio'"):
        virtual_time("uvloop")  # type: ignore[arg-type]
