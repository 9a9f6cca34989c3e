"""Both ends of a connection, in the hands of a test."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from nsq_anyio.connection import Connection, Request, open_connection
from nsq_anyio.options import ConnectionOptions
from nsq_anyio.protocol import commands
from nsq_anyio.protocol.session import Command, ResponseFailed
from nsq_anyio.testing.faults import FaultProxy, fault_proxy

from ..fake_nsqd import FakeConnection, client_tasks, fake_nsqd, identified

HUGE = bytes(32 * 1024 * 1024)
"""More than the kernel takes of a connection whose other end does not read."""


class Kept:
    """A receiver that keeps what it is given."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.failures: list[ResponseFailed] = []

    def arrival(self, now: float, size: int) -> None:
        del now, size

    def make_message(
        self, source: None, timestamp: int, attempts: int, message_id: bytes, body: bytes, /
    ) -> bytes:
        return body

    def received(self, messages: list[bytes], now: float) -> None:
        self.bodies += messages

    def response_failed(self, failure: ResponseFailed) -> None:
        self.failures.append(failure)

    def may_proceed(self) -> None:
        pass


class Open:
    """Both ends of a connection, and the proxy between them."""

    def __init__(
        self, client: Connection[None, bytes], peer: FakeConnection, proxy: FaultProxy, receiver: Kept
    ) -> None:
        self.client = client
        self.peer = peer
        self.proxy = proxy
        self.receiver = receiver

    def publish(self, body: bytes = b"body") -> Request:
        return self.client.request(Command.PUB, commands.pub("t", body))

    async def subscribe(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.client.subscribe, "t", "c")
            await self.peer.expect(b"SUB t c")
            await self.peer.response()


@asynccontextmanager
async def opened(
    options: ConnectionOptions | None = None, receiver: Kept | None = None
) -> AsyncGenerator[Open]:
    receiver = receiver or Kept()
    async with fake_nsqd(identified()) as nsqd, fault_proxy(nsqd.address) as proxy:
        nsqd.address = proxy.address
        lost: BaseException | None = None
        try:
            async with open_connection(nsqd.parsed, options or ConnectionOptions(), receiver) as client:
                yield Open(client, await nsqd.connection(), proxy, receiver)
        except Exception as error:  # raised below, so that no task group of the fakes wraps it
            lost = error
        assert client_tasks() == []
    if lost is not None:
        raise lost


async def ends(connection: Open) -> None:
    """Wait for the connection to end; its block is cancelled then."""
    with anyio.fail_after(5):
        await anyio.sleep_forever()
    raise AssertionError(connection)
