"""A proxy between a browser and a dashboard, with the faults of networks and of reverse proxies."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Literal, TypeAlias

import anyio
from anyio.abc import SocketStream

Fault: TypeAlias = Literal["", "hole", "buffering", "502"]

_BAD_GATEWAY = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_STREAM = re.compile(rb"GET \S*/events ")
_GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


class Proxy:
    """Passes connections on to a dashboard.

    :ivar url: where browsers reach the dashboard
    :ivar streams: how many streams of events pass at the moment
    """

    def __init__(self, port: int, dashboard_port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.streams = 0
        self._dashboard_port = dashboard_port
        self._fault: Fault = ""
        self._changed = anyio.Event()
        self._open: set[_Connection] = set()

    async def set(self, fault: Fault) -> None:
        """Have a fault from now on. A gateway that answers 502 has lost its connections."""
        self._fault = fault
        self._changed.set()
        self._changed = anyio.Event()
        if fault == "502":
            for each in self._open:
                each.scope.cancel()

    async def serve(self, client: SocketStream) -> None:
        async with client:
            if self._fault == "502":
                with anyio.move_on_after(5):
                    await client.receive()
                    await client.send(_BAD_GATEWAY)
                return
            server = await anyio.connect_tcp("127.0.0.1", self._dashboard_port)
            connection = _Connection()
            self._open.add(connection)
            async with server, anyio.create_task_group() as tasks:
                connection.scope = tasks.cancel_scope
                tasks.start_soon(self._pass_requests, connection, client, server)
                await self._pass_responses(connection, server, client)
                tasks.cancel_scope.cancel()
            self._open.discard(connection)
            self.streams -= connection.is_stream

    async def _pass_requests(
        self, connection: _Connection, client: SocketStream, server: SocketStream
    ) -> None:
        try:
            async for data in client:
                self.streams -= connection.is_stream
                connection.is_stream = _STREAM.match(data) is not None
                self.streams += connection.is_stream
                await self._repaired("hole")
                await server.send(data)
        except _GONE:
            pass
        connection.scope.cancel()

    async def _pass_responses(
        self, connection: _Connection, server: SocketStream, client: SocketStream
    ) -> None:
        try:
            async for data in server:
                await self._repaired("hole")
                if connection.is_stream:  # a response is buffered until it ends, and this one does not end
                    await self._repaired("buffering")
                await client.send(data)
        except _GONE:
            pass

    async def _repaired(self, fault: Fault) -> None:
        """Wait as long as there is a fault. Like TCP, the proxy passes on later what it has held."""
        while self._fault == fault:
            await self._changed.wait()


class _Connection:
    def __init__(self) -> None:
        self.is_stream = False
        self.scope = anyio.CancelScope()


@asynccontextmanager
async def proxied(dashboard_port: int) -> AsyncGenerator[Proxy]:
    """Run a proxy for the length of the block."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        proxy = Proxy(listener.extra(anyio.abc.SocketAttribute.local_port), dashboard_port)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, proxy.serve)
            yield proxy
            tasks.cancel_scope.cancel()
