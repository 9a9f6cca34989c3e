"""A TCP proxy that stands between a client and any server, and fails as a test says.

::

    async with fault_proxy(nsqd.address) as proxy:
        proxy.to_client.piece = 1           # byte by byte
        proxy.to_client.cut_after = 100     # hang up on both sides after so many bytes, in mid-frame
        proxy.stalled = True                # accept, but pass nothing
        proxy.cut()                         # hang up on both sides
        proxy.reset()                       # hang up with RST to the client
        proxy.half_open()                   # the server's side goes away, and the client hears nothing
        await proxy.refuse()                # nothing listens any more, until `listen`
"""

import asyncio
import os
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from enum import Enum

import anyio
from anyio.abc import SocketAttribute, SocketStream, TaskGroup

from nsq_anyio.transport.half_close import half_close

CHUNK = 64 * 1024
RECEIVE_BUFFER = 64 * 1024
"""Bytes that the kernel takes for a stalled proxy; it would grow to many megabytes otherwise."""


@dataclass(slots=True)
class Direction:
    """What happens to the bytes that go one way, on all connections.

    :ivar piece: the most bytes that are sent on at once
    :ivar delay: seconds before each piece is sent on
    :ivar cut_after: bytes of a connection that pass before both sides are closed; None for all
    """

    piece: int = CHUNK
    delay: float = 0.0
    cut_after: int | None = None


class End(Enum):
    """How a connection ends for the client."""

    CLOSED = "closed"
    RESET = "reset"
    HALF_OPEN = "half open"


class FaultProxy:
    """A listener in front of ``upstream``; see the module.

    :ivar port: where clients connect; it stays the same
    :ivar to_server: what happens to the clients' bytes
    :ivar to_client: what happens to the server's bytes
    :ivar accepted: how many connections came
    """

    def __init__(self, upstream: str, tasks: TaskGroup) -> None:
        self.port = 0
        self.to_server = Direction()
        self.to_client = Direction()
        self.accepted = 0
        self._upstream = upstream
        self._tasks = tasks
        self._links: set[_Link] = set()
        self._listening = anyio.CancelScope()
        self._refusing = anyio.Event()
        self._flowing = anyio.Event()
        self._flowing.set()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def stalled(self) -> bool:
        """Whether nothing passes, in both directions; nothing is read then, so that senders get stuck."""
        return not self._flowing.is_set()

    @stalled.setter
    def stalled(self, value: bool) -> None:
        if not value:
            self._flowing.set()
        elif self._flowing.is_set():
            self._flowing = anyio.Event()

    async def wait_flowing(self) -> None:
        await self._flowing.wait()

    async def listen(self) -> None:
        """Accept connections."""
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=self.port)
        raw = listener.extra(SocketAttribute.raw_socket)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)  # accepted ones inherit it
        self.port = listener.extra(SocketAttribute.local_port)
        self._listening = scope = anyio.CancelScope()
        self._refusing = closed = anyio.Event()

        async def accept() -> None:
            async with listener:
                with scope:
                    await listener.serve(self._handle, self._tasks)
            closed.set()

        self._tasks.start_soon(accept)

    async def refuse(self) -> None:
        """Close the listener, so that connections are refused; those that exist stay."""
        self._listening.cancel()
        await self._refusing.wait()

    def cut(self) -> None:
        """Close all connections, on both sides."""
        self._end(End.CLOSED)

    def reset(self) -> None:
        """Close all connections; the client gets RST instead of the end of the stream."""
        self._end(End.RESET)

    def half_open(self) -> None:
        """Close the server's side of all connections; the client's stays open, and silent."""
        self._end(End.HALF_OPEN)

    def _end(self, end: End) -> None:
        for link in self._links:
            link.end(end)

    async def _handle(self, client: SocketStream) -> None:
        self.accepted += 1
        host, _, port = self._upstream.rpartition(":")
        async with client:
            try:
                server = await anyio.connect_tcp(host, int(port))
            except OSError:
                return  # the server is gone: so is the connection
            link = _Link(self, client, server)
            self._links.add(link)
            async with server:
                end = await link.run()
            self._links.discard(link)
            if end is End.HALF_OPEN:
                await anyio.sleep_forever()
            elif end is End.RESET:
                _close_with_reset(client)


class _Link:
    """One connection through the proxy."""

    def __init__(self, proxy: FaultProxy, client: SocketStream, server: SocketStream) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._scope = anyio.CancelScope()
        self._ended = End.CLOSED

    def end(self, end: End) -> None:
        self._ended = end
        self._scope.cancel()

    async def run(self) -> End:
        with self._scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._pass, self._client, self._server, self._proxy.to_server)
                tasks.start_soon(self._pass, self._server, self._client, self._proxy.to_client)
        return self._ended

    async def _pass(self, source: SocketStream, target: SocketStream, direction: Direction) -> None:
        passed = 0
        try:
            while True:
                await self._proxy.wait_flowing()
                data = await source.receive(CHUNK)
                while data:
                    await self._proxy.wait_flowing()
                    await anyio.sleep(direction.delay)
                    size = direction.piece
                    if direction.cut_after is not None:
                        size = min(size, direction.cut_after - passed)
                    if size <= 0:
                        self.end(End.CLOSED)
                        return
                    await target.send(data[:size])
                    passed += len(data[:size])
                    data = data[size:]
        except anyio.EndOfStream:
            with suppress(
                anyio.BrokenResourceError, anyio.ClosedResourceError
            ):  # a target that is gone needs no end
                await half_close(target)  # the other direction goes on
        except anyio.BrokenResourceError:
            self.end(End.RESET)


def _close_with_reset(stream: SocketStream) -> None:
    """Let the next close of ``stream`` send RST."""
    transport: asyncio.Transport | None = getattr(stream, "_transport", None)
    if transport is not None and transport.is_closing():
        return  # the client was gone first, and asyncio has closed the socket
    # A duplicate, because uvloop's socket objects refuse to set options.
    with socket.socket(fileno=os.dup(stream.extra(SocketAttribute.raw_socket).fileno())) as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    # Before 4.16, AnyIO half-closes a stream of asyncio before it closes it, and the client would see that.
    if transport is not None:
        transport.abort()


@asynccontextmanager
async def fault_proxy(upstream: str) -> AsyncGenerator[FaultProxy]:
    """Stand in front of ``upstream`` (``host:port``), on a free port, for the length of the block."""
    async with anyio.create_task_group() as tasks:
        proxy = FaultProxy(upstream, tasks)
        await proxy.listen()
        yield proxy
        tasks.cancel_scope.cancel()
