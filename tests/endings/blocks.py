"""The public blocks: each function is a user's code that opens one, works in it, and ends it.

Each works for ever in the phases before its end, so that only the impatience under test ends it.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import anyio

import nsq_anyio as nsq

from .peers import Peer, Temper

CONSUMER = nsq.ConsumerOptions(
    reconnect_delay=0.02,
    max_reconnect_delay=0.05,
    max_backoff_duration=0,
    drain_timeout=0.15,
    cancelled_drain_timeout=0.1,
    close_timeout=0.15,
)
PATIENT = replace(CONSUMER, close_timeout=5.0)
"""For a peer that answers until the end: a busy machine is no reason to leave messages in flight."""

PRODUCER = nsq.ProducerOptions(
    reconnect_delay=0.02, max_reconnect_delay=0.05, drain_timeout=0.15, cancelled_drain_timeout=0.1
)
COALESCING = nsq.ProducerOptions(
    coalesce=True,
    reconnect_delay=0.02,
    max_reconnect_delay=0.05,
    drain_timeout=0.15,
    cancelled_drain_timeout=0.1,
)


class Phase(Enum):
    """When the impatience strikes."""

    OPENING = "opening"
    RUNNING = "running"
    ENDING = "ending"


class Mine(Exception):
    """What the user's block raises."""


@dataclass
class Cell:
    """What a block is told.

    :ivar raises: what the user raises when the phase has come, if anything
    :ivar reached: set when the phase has come
    """

    peer: Peer
    phase: Phase
    raises: BaseException | None = None
    reached: threading.Event = field(default_factory=threading.Event)

    @property
    def opening(self) -> bool:
        return self.phase is Phase.OPENING

    async def strike(self) -> None:
        """The phase of the cell has come: the peer turns, and the impatience is let loose."""
        self.peer.turn()
        self.reached.set()
        if self.raises is not None:
            raise self.raises

    async def begin(self) -> None:
        """Called before the block is entered."""
        if self.opening:
            self.peer.turn()
            self.reached.set()

    async def work(self) -> None:
        """Called inside the block, once it does what it is for; returns where the user leaves it."""
        if not self.opening:
            await self.strike()
        elif self.raises is not None:
            raise self.raises
        if self.phase is not Phase.ENDING:
            await anyio.sleep_forever()


Block = Callable[[Cell], Awaitable[None]]


def _consume(
    cell: Cell, middleware: Sequence[Any] = ()
) -> contextlib.AbstractAsyncContextManager[nsq.Consumer]:
    options = PATIENT if cell.peer.temper is Temper.ANSWERING else CONSUMER
    return nsq.consume(
        "t", "c", nsqd=cell.peer.address, options=options, max_in_flight=4, middleware=middleware
    )


async def consume(cell: Cell) -> None:
    await cell.begin()
    async with _consume(cell) as consumer:
        if not cell.opening:
            await anext(consumer)
        await cell.work()


async def iterate(cell: Cell) -> None:
    await cell.begin()
    async with _consume(cell) as consumer:
        if cell.opening and cell.raises:
            raise cell.raises
        async for _ in consumer:
            if not cell.opening:
                await cell.strike()
            if cell.phase is Phase.ENDING:
                return


async def run(cell: Cell) -> None:
    async def handler(_message: nsq.Message) -> None:
        if cell.opening:
            await anyio.sleep_forever()
        if cell.raises is not None:
            await anyio.sleep_forever()
        await cell.strike()
        if cell.phase is Phase.ENDING:
            consumer.stop()
        else:
            await anyio.sleep_forever()

    await cell.begin()
    async with _consume(cell) as consumer:
        if cell.raises is not None:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(consumer.run, handler)
                await anyio.sleep(0.02)
                tasks.cancel_scope.cancel()
            await cell.work()
        await consumer.run(handler, concurrency=2)


async def batches(cell: Cell) -> None:
    await cell.begin()
    async with _consume(cell) as consumer:
        if cell.opening and cell.raises:
            raise cell.raises
        async for _ in consumer.batches(2, 0.02):
            await cell.work()
            return


async def message(cell: Cell) -> None:
    await cell.begin()
    async with _consume(cell) as consumer:
        if cell.opening:
            await cell.work()
        async with await anext(consumer):
            await cell.work()


async def wrapped_message(cell: Cell) -> None:
    """In a middleware, and kept alive."""

    @contextlib.asynccontextmanager
    async def middleware(_handling: nsq.Handling) -> AsyncGenerator[None]:
        failure: BaseException | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.sleep_forever)
            try:
                yield
            except (Mine, GeneratorExit) as error:  # or this very group would wrap it
                failure = error
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure

    await cell.begin()
    async with _consume(cell, [middleware]) as consumer:
        if cell.opening:
            await cell.work()
        message = await anext(consumer)
        async with message, message.keep_alive():
            await cell.work()


async def keep_alive(cell: Cell) -> None:
    await cell.begin()
    async with _consume(cell) as consumer:
        if cell.opening:
            await cell.work()
        async with (await anext(consumer)).keep_alive():
            await cell.work()


async def produce(cell: Cell) -> None:
    await cell.begin()
    async with nsq.produce(cell.peer.address, options=PRODUCER):
        await cell.work()


def _publishing(options: nsq.ProducerOptions, tasks: int, *, many: bool = False) -> Block:
    async def publish_for_ever(producer: nsq.Producer) -> None:
        while True:
            try:
                if many:
                    await producer.publish_many("t", [b"a", b"b"])
                else:
                    await producer.publish("t", b"x")
            except nsq.PublishError:
                await anyio.sleep(0.01)

    async def block(cell: Cell) -> None:
        await cell.begin()
        async with nsq.produce(cell.peer.address, options=options) as producer:
            if not cell.opening:
                await producer.publish("t", b"x")
            failure: BaseException | None = None
            async with anyio.create_task_group() as group:
                for _ in range(tasks):
                    group.start_soon(publish_for_ever, producer)
                await anyio.sleep(0.01)
                try:
                    await cell.work()
                except (Mine, GeneratorExit) as error:  # or this very group would wrap it
                    failure = error
                group.cancel_scope.cancel()
            if failure is not None:
                raise failure

    return block


async def publish_alone(cell: Cell) -> None:
    """The impatience strikes the very task that awaits the publish."""
    await cell.begin()
    is_interrupted = cell.phase is not Phase.ENDING and cell.raises is None
    # An orderly end alone may wait for drain_timeout; here that would be too long.
    options = replace(PRODUCER, drain_timeout=30.0) if is_interrupted else PRODUCER
    async with nsq.produce(cell.peer.address, options=options) as producer:
        if cell.opening and cell.raises is not None:
            raise cell.raises
        if not cell.opening:
            await producer.publish("t", b"x")
            await cell.strike()
        while cell.phase is not Phase.ENDING:
            try:
                await producer.publish("t", b"x")
            except nsq.PublishError:
                await anyio.sleep(0.01)


async def embedded_nsqd(cell: Cell) -> None:
    """The peer is one of its clients: an open connection that says nothing."""
    await cell.begin()
    async with nsq.embedded.nsqd() as server:
        host, _, port = server.tcp_address.rpartition(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(b"  V2SUB t c\n")
            await anyio.sleep(0.01)
            await cell.work()


async def embedded_nsqlookupd(cell: Cell) -> None:
    """Likewise, amid a request."""
    await cell.begin()
    async with nsq.embedded.nsqlookupd() as server:
        host, _, port = server.http_url.removeprefix("http://").rpartition(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(b"GET /ping HTTP/1.1\r\nHo")
            await anyio.sleep(0.01)
            await cell.work()


def _http(kind: type[nsq.http.Nsqd | nsq.http.Nsqlookupd]) -> Block:
    async def block(cell: Cell) -> None:
        await cell.begin()
        async with kind(f"http://{cell.peer.address}", timeout=60) as client:
            if cell.opening and cell.raises is not None:
                raise cell.raises
            if not cell.opening:
                await client.ping()
                await cell.strike()
            while cell.phase is not Phase.ENDING:
                try:
                    await client.ping()
                except nsq.HTTPError:
                    await anyio.sleep(0.01)

    return block


BLOCKS: dict[str, Block] = {
    "consume": consume,
    "iterate": iterate,
    "run": run,
    "batches": batches,
    "message": message,
    "keep_alive": keep_alive,
    "wrapped message": wrapped_message,
    "produce": produce,
    "publish": publish_alone,
    "publishes": _publishing(PRODUCER, 3),
    "publish_many": _publishing(PRODUCER, 2, many=True),
    "coalesced": _publishing(COALESCING, 3),
    "embedded nsqd": embedded_nsqd,
    "embedded nsqlookupd": embedded_nsqlookupd,
    "http nsqd": _http(nsq.http.Nsqd),
    "http nsqlookupd": _http(nsq.http.Nsqlookupd),
}
