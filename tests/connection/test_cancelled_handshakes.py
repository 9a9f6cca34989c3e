"""A cancellation after any number of the event loop's turns: amid TLS, compression, SUB, a publish.

All cells of a test run at once, each against a scripted nsqd of its own in the same loop: so each turn is a
step of the client, or of its peer.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import product

import anyio
import anyio.lowlevel
import pytest

import nsq_anyio as nsq
from nsq_anyio.address import nsqd_addresses
from nsq_anyio.connection import NoMessages, open_connection

from ..fake_nsqd import FakeConnection, client_tasks, fake_nsqd
from ..layered_nsqd import Compression, Layers, server_context
from ..tls_files import TLSFiles

pytestmark = pytest.mark.anyio

TURNS = range(34)
"""The longest handshake takes 22 of them; the first publish has its answer after 31."""

BOUND = 30.0
CONSUMER = nsq.ConsumerOptions(close_timeout=0.3)
PRODUCER = nsq.ProducerOptions(drain_timeout=0.3, cancelled_drain_timeout=0.3)

Block = Callable[[str, nsq.ConnectionOptions], Awaitable[None]]

WAYS: dict[str, tuple[bool, Compression | None]] = {
    "tls": (True, None),
    "tls-deflate": (True, "deflate"),
    "snappy": (False, "snappy"),
}


async def opens(address: str, options: nsq.ConnectionOptions) -> None:
    """The handshake in the task that is cancelled itself."""
    async with open_connection(nsqd_addresses(address)[0], options, NoMessages()):
        await anyio.sleep_forever()


async def consumes(address: str, options: nsq.ConnectionOptions) -> None:
    async with nsq.consume("t", "c", nsqd=address, connection=options, options=CONSUMER) as consumer:
        async for message in consumer:
            message.finish()


async def publishes(address: str, options: nsq.ConnectionOptions) -> None:
    async with nsq.produce(address, connection=options, options=PRODUCER) as producer:
        while True:
            await producer.publish("t", b"x")


BLOCKS: tuple[Block, ...] = (opens, consumes, publishes)


def serving(layers: Layers) -> Callable[[FakeConnection], Awaitable[None]]:
    async def script(peer: FakeConnection) -> None:
        # A client that goes away amid a handshake is what this is about.
        with suppress(ssl.SSLError, nsq.ProtocolError):
            await layers.negotiate(peer)
            while True:
                line = await peer.served_command()
                if line.startswith((b"SUB", b"PUB")):
                    await peer.response()
                elif line == b"CLS":
                    await peer.response(b"CLOSE_WAIT")
                elif line.startswith(b"RDY"):
                    await peer.message()

    return script


@dataclass(frozen=True)
class Cell:
    """What is cancelled, and when."""

    way: str
    block: Block
    turns: int

    def __str__(self) -> str:
        return f"{self.way}, {self.block.__name__} after {self.turns} turns"


CELLS = [
    Cell(way, block, turns)
    for (number, way), block, turns in product(enumerate(WAYS), BLOCKS, TURNS)
    if (number + turns) % 2  # one way has the even ones, the next the odd ones
]


async def run_all(
    files: TLSFiles, strike: Callable[[Cell, Callable[[], Awaitable[None]]], Awaitable[None]]
) -> None:
    """Call ``strike`` with each cell and what it runs; then nothing may be left of it."""
    context = server_context(files)

    async def run(cell: Cell) -> None:
        has_tls, compression = WAYS[cell.way]
        options = nsq.ConnectionOptions(
            tls=nsq.TLSOptions(ca_file=files.ca_file) if has_tls else False,
            snappy=compression == "snappy",
            deflate=compression == "deflate",
        )
        async with fake_nsqd(serving(Layers(context if has_tls else None, compression))) as nsqd:

            async def block() -> None:
                await cell.block(nsqd.address, options)

            await strike(cell, block)
            # The client has hung up: no script waits for it any more.
            with anyio.fail_after(BOUND):
                while nsqd.running:  # noqa: ASYNC110 - nothing tells of it
                    await anyio.sleep(0.01)

    async with anyio.create_task_group() as tasks:
        for cell in CELLS:
            tasks.start_soon(run, cell)
    assert client_tasks() == []


async def wait_turns(count: int) -> None:
    for _ in range(count):
        await anyio.lowlevel.checkpoint()


async def test_by_asyncio(anyio_backend_name: str, tls_files: TLSFiles) -> None:
    """`Task.cancel`; in every second cell again, while the block ends because of it."""
    if anyio_backend_name == "trio":
        return  # it has no Task.cancel

    async def strike(cell: Cell, block: Callable[[], Awaitable[None]]) -> None:
        async def user() -> None:
            await block()

        task = asyncio.create_task(user())
        await wait_turns(cell.turns)
        task.cancel()
        if cell.turns // 2 % 2:
            await wait_turns(2)
            task.cancel()
        _, pending = await asyncio.wait([task], timeout=BOUND)
        assert not pending, f"{cell}: it goes on"
        assert task.cancelled(), f"{cell}: {task.exception()!r}"

    await run_all(tls_files, strike)


async def test_by_a_scope(tls_files: TLSFiles) -> None:
    async def strike(cell: Cell, block: Callable[[], Awaitable[None]]) -> None:
        async def cancel(scope: anyio.CancelScope) -> None:
            await wait_turns(cell.turns)
            scope.cancel()

        scope = anyio.CancelScope()
        async with anyio.create_task_group() as tasks:
            with anyio.fail_after(BOUND), scope:
                tasks.start_soon(cancel, scope)
                await block()
        assert scope.cancelled_caught, f"{cell}: it ended by itself"

    await run_all(tls_files, strike)
