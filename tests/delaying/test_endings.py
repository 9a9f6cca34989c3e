"""The end of a service's block: bounded, in order, and without a loss, whoever cancels it and how often."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.delaying import DelayedMessage, DelayFile, Selection

from .. import virtual_time

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio

LIMIT = 15.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "delays"
    with closing(DelayFile(path, writer=True)) as file:
        file.store([DelayedMessage("t", 0.0, b"x", "127.0.0.1:1/1")])
    return path


def left(path: Path) -> list[int]:
    """Open the file, which nobody else may use then; return the messages that it has."""
    with closing(DelayFile(path, writer=True)) as file:
        return [message.id for message in file.waiting(Selection())]


@asynccontextmanager
async def silent_nsqd() -> AsyncGenerator[nsq.testing.FaultProxy]:
    """An nsqd that answers until the service has connected, and nothing that is published then."""
    async with nsq.embedded.nsqd() as nsqd, nsq.testing.fault_proxy(nsqd.tcp_address) as proxy:
        yield proxy


async def publishing(delays: nsq.Delays) -> None:
    """Wait until the service has sent what is due."""
    with anyio.fail_after(LIMIT):
        while not delays._producer.statistics().outstanding:  # noqa: ASYNC110 - no event tells
            await anyio.sleep(0.01)


async def run(path: Path, proxy: nsq.testing.FaultProxy, is_publishing: anyio.Event) -> None:
    """A service whose publish gets no answer."""
    times = [-1.0]  # before the message is due
    async with nsq.delays(path, nsqd=proxy.address, clock=lambda: times[-1]) as delays:
        await delays._producer.ready()
        await delays._consumer.ready()
        proxy.stalled = True
        times.append(1.0)
        await publishing(delays)
        is_publishing.set()
        await anyio.sleep_forever()


async def test_a_cancelled_block_keeps_what_nsqd_did_not_answer(path: Path) -> None:
    async with silent_nsqd() as proxy, anyio.create_task_group() as tasks:
        is_publishing = anyio.Event()
        tasks.start_soon(run, path, proxy, is_publishing)
        with anyio.fail_after(LIMIT):
            await is_publishing.wait()
            tasks.cancel_scope.cancel()
    assert left(path) == [1]


@pytest.mark.parametrize("anyio_backend", [nsq.testing.virtual_time("asyncio")], ids=["asyncio"])
@pytest.mark.parametrize("pause", [0.0, 0.2])
async def test_a_block_that_is_cancelled_twice(path: Path, pause: float) -> None:
    async with silent_nsqd() as proxy:
        is_publishing = anyio.Event()
        task = asyncio.create_task(run(path, proxy, is_publishing))
        with anyio.fail_after(LIMIT):
            await is_publishing.wait()
            task.cancel()
            await anyio.sleep(pause)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
    assert left(path) == [1]


async def test_the_end_completes_what_is_published(path: Path) -> None:
    async with nsq.embedded.nsqd() as nsqd:
        async with (
            nsq.consume("t", "c", nsqd=nsqd.tcp_address) as consumer,
            nsq.delays(path, nsqd=nsqd.tcp_address),
        ):
            with anyio.fail_after(LIMIT):
                message = await anext(consumer)
            message.finish()
        assert left(path) == []
