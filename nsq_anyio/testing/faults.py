"""A TCP proxy between a client and nsqd, which disturbs connections on demand.

::

    async with nsq.testing.fault_proxy(nsqd.tcp_address) as proxy:
        proxy.to_client.delay = 0.2         # each piece arrives late
        proxy.to_client.piece = 1           # byte by byte
        proxy.to_client.cut_after = 100     # hang up on both sides after so many bytes, in mid-frame
        proxy.stalled = True                # a black hole: accept, but pass nothing
        proxy.cut()                         # hang up on both sides
        proxy.reset()                       # hang up with RST to the client
        proxy.half_open()                   # nsqd's side goes away, and the client hears nothing
        await proxy.refuse()                # nothing listens any more, until `listen`
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any

import anyio
from anyio.abc import SocketAttribute, SocketStream, TaskGroup

from ..address import Address
from ..options.checks import check_integer, check_seconds
from ..tasks import background_tasks
from ..transport.layer import half_close

CHUNK = 64 * 1024
"""The bytes that are received at once, and by default sent on at once."""

_RECEIVE_BUFFER = 64 * 1024
"""The kernel's receive buffer in bytes; the default one would grow to many megabytes while stalled."""


@dataclass(slots=True)
class Direction:
    """The faults in one direction, on all connections. Changes take effect with the next piece.

    :ivar piece: the most bytes that are sent on at once, 1 or more; default 65536
    :ivar delay: seconds before each piece is sent on, 0 or more; default 0
    :ivar cut_after: the bytes of a connection that pass before both sides are closed, 0 or more; None, the
        default, for no limit
    :raises InvalidOption: if a value is out of range, also when it is set later
    """

    piece: int = CHUNK
    delay: float = 0.0
    cut_after: int | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "piece":
            check_integer(name, value, 1)
        elif name == "delay":
            check_seconds(name, value, 0)
        else:
            check_integer(name, value, 0, special=(None,))
        object.__setattr__(self, name, value)


class _End(Enum):
    """The end of a connection, as the client sees it."""

    CLOSED = "closed"
    RESET = "reset"
    HALF_OPEN = "half open"


class FaultProxy:
    """A listener on 127.0.0.1 in front of a server; made by `fault_proxy`, and used in its event loop.

    :ivar port: where clients connect; it stays the same
    :ivar to_server: the faults on the way of the client's bytes
    :ivar to_client: the faults on the way of the server's bytes
    :ivar accepted: the number of connections accepted so far
    """

    def __init__(self, upstream: Address, tasks: TaskGroup) -> None:
        self.port: int = 0
        self.to_server: Direction = Direction()
        self.to_client: Direction = Direction()
        self.accepted: int = 0
        self._upstream = upstream
        self._tasks = tasks
        self._links: set[_Link] = set()
        self._listening = anyio.CancelScope()
        self._refusing = anyio.Event()
        self._flowing = anyio.Event()
        self._flowing.set()

    @property
    def address(self) -> str:
        """Where clients connect, ``127.0.0.1:port``."""
        return f"127.0.0.1:{self.port}"

    @property
    def stalled(self) -> bool:
        """Whether both directions are blocked. Nothing is read then, so senders get stuck."""
        return not self._flowing.is_set()

    @stalled.setter
    def stalled(self, value: bool) -> None:
        if not value:
            self._flowing.set()
        elif self._flowing.is_set():
            self._flowing = anyio.Event()

    async def _wait_flowing(self) -> None:
        await self._flowing.wait()

    async def listen(self) -> None:
        """Accept connections again, on the same port."""
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=self.port)
        raw = listener.extra(SocketAttribute.raw_socket)  # noqa: S610 - not Django's
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)  # accepted sockets inherit it
        self.port = listener.extra(SocketAttribute.local_port)  # noqa: S610
        self._listening = scope = anyio.CancelScope()
        self._refusing = closed = anyio.Event()

        async def accept() -> None:
            async with listener:
                with scope:
                    await listener.serve(self._handle, self._tasks)
            closed.set()

        self._tasks.start_soon(accept)

    async def refuse(self) -> None:
        """Close the listener, so that connections are refused; existing ones stay."""
        self._listening.cancel()
        await self._refusing.wait()

    def cut(self) -> None:
        """Close all connections, on both sides."""
        self._end(_End.CLOSED)

    def reset(self) -> None:
        """Close all connections; the client gets RST instead of the end of the stream."""
        self._end(_End.RESET)

    def half_open(self) -> None:
        """Close the server's side of all connections; the client's stays open, and silent."""
        self._end(_End.HALF_OPEN)

    def _end(self, end: _End) -> None:
        for link in self._links:
            link.end(end)

    async def _handle(self, client: SocketStream) -> None:
        self.accepted += 1
        upstream = self._upstream
        async with client:
            try:
                server = await anyio.connect_tcp(upstream.host, upstream.port)
            except OSError:
                return  # the server is gone, so the connection ends
            link = _Link(self, client, server)
            self._links.add(link)
            async with server:
                end = await link.run()
            self._links.discard(link)
            if end is _End.HALF_OPEN:
                await anyio.sleep_forever()
            elif end is _End.RESET:
                _close_with_reset(client)


class _Link:
    """One connection through the proxy."""

    def __init__(self, proxy: FaultProxy, client: SocketStream, server: SocketStream) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._scope = anyio.CancelScope()
        self._ended = _End.CLOSED

    def end(self, end: _End) -> None:
        self._ended = end
        self._scope.cancel()

    async def run(self) -> _End:
        with self._scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._pass, self._client, self._server, self._proxy.to_server)
                tasks.start_soon(self._pass, self._server, self._client, self._proxy.to_client)
        return self._ended

    async def _pass(self, source: SocketStream, target: SocketStream, direction: Direction) -> None:
        passed = 0
        try:
            while True:
                await self._proxy._wait_flowing()
                data = await source.receive(CHUNK)
                while data:
                    await self._proxy._wait_flowing()
                    await anyio.sleep(direction.delay)
                    size = direction.piece
                    if direction.cut_after is not None:
                        size = min(size, direction.cut_after - passed)
                    if size <= 0:
                        self.end(_End.CLOSED)
                        return
                    await target.send(data[:size])
                    passed += len(data[:size])
                    data = data[size:]
        except anyio.EndOfStream:
            with suppress(
                anyio.BrokenResourceError, anyio.ClosedResourceError
            ):  # a target that is gone needs no end
                await half_close(target)  # the other direction continues
        except anyio.BrokenResourceError:
            self.end(_End.RESET)


def _close_with_reset(stream: SocketStream) -> None:
    """Let the next close of ``stream`` send RST."""
    transport: asyncio.Transport | None = getattr(stream, "_transport", None)
    if transport is not None and transport.is_closing():
        return  # the client was gone first, and asyncio has closed the socket
    connected = stream.extra(SocketAttribute.raw_socket)  # noqa: S610
    # A duplicate, because uvloop's socket objects refuse to set options.
    with socket.socket(fileno=os.dup(connected.fileno())) as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    # Before 4.16, AnyIO half-closes a stream of asyncio before it closes it, and the client would see that.
    if transport is not None:
        transport.abort()


@asynccontextmanager
async def fault_proxy(upstream: str) -> AsyncGenerator[FaultProxy]:
    """Run a proxy in front of a server, on a free port of 127.0.0.1, for the length of the block.

    :param upstream: the server's TCP address, ``host:port``; it need not be reachable yet
    :raises InvalidAddress: if ``upstream`` is not ``host:port``
    """
    address = Address.parse(upstream)
    async with background_tasks() as tasks:
        proxy = FaultProxy(address, tasks)
        await proxy.listen()
        yield proxy
