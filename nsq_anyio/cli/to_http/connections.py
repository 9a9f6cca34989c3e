"""Connections to one HTTP server, each kept for the next request."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TypeAlias, cast

import anyio
import httpcore

__all__ = ["BROKEN", "Connections"]

_Connection: TypeAlias = httpcore.AsyncHTTP11Connection | httpcore.AsyncHTTP2Connection

_KEEP_ALIVE = 30.0
"""Seconds: a firewall may forget an idle connection after a minute, and tell nobody."""

BROKEN = (
    httpcore.ConnectionNotAvailable,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.TimeoutException,
    # httpcore lets through the alert with which a server refuses a client's certificate.
    OSError,
)
"""What `Connections.exchange` raises when no answer comes."""


class Connections:
    """Those to one server; any number of tasks may share them.

    httpcore speaks HTTP, but its own pool looks at every connection for every request: with 100 of them that
    takes far longer than the request.

    :param tls: for https; HTTP/2 is spoken if it offers that, and the server takes it
    :param connect_timeout: seconds to connect, with the handshake of TLS
    """

    def __init__(
        self, origin: httpcore.Origin, tls: ssl.SSLContext | None, *, connect_timeout: float
    ) -> None:
        self._origin = origin
        self._tls = tls
        self._connect_timeout = connect_timeout
        self._backend = cast("httpcore.AsyncNetworkBackend", httpcore.AnyIOBackend())
        self._idle: list[_Connection] = []
        self._shared: httpcore.AsyncHTTP2Connection | None = None

    async def exchange(self, request: httpcore.Request) -> httpcore.Response:
        """Send a request; its answer, whose body has been read and left.

        A server may close a connection while it is idle. What was sent there is sent once more.

        :raises Exception: one of `BROKEN`
        """
        kept = await self._kept()
        if kept is not None:
            try:
                return await self._exchange_on(kept, request)
            except BROKEN:
                pass  # tried once more
        return await self._exchange_on(await self._connect(), request)

    async def aclose(self) -> None:
        """Close them all, when no request is under way."""
        connections = [*self._idle, *([] if self._shared is None else [self._shared])]
        self._idle.clear()
        self._shared = None
        for connection in connections:
            await connection.aclose()

    async def _kept(self) -> _Connection | None:
        """One of before that can be used."""
        shared = self._shared
        if shared is not None:
            if shared.is_available() and not shared.has_expired():
                return shared
            self._shared = None  # requests may still be under way there: the last one closes it
        while self._idle:
            connection = self._idle.pop()
            if connection.is_available() and not connection.has_expired():
                return connection
            await connection.aclose()
        return None

    async def _exchange_on(self, connection: _Connection, request: httpcore.Request) -> httpcore.Response:
        async with self._keeping(connection):
            response = await connection.handle_async_request(request)
            try:
                # To its end: only then the connection can be used again.
                async for _ in response.aiter_stream():
                    pass
            finally:
                await response.aclose()
            return response

    @asynccontextmanager
    async def _keeping(self, connection: _Connection) -> AsyncGenerator[None]:
        """Use a connection, and then keep or close it."""
        try:
            yield
        finally:
            if connection is self._shared:
                pass
            elif isinstance(connection, httpcore.AsyncHTTP11Connection) and connection.is_idle():
                self._idle.append(connection)
            elif isinstance(connection, httpcore.AsyncHTTP11Connection) or connection.is_idle():
                with anyio.CancelScope(shield=True):  # it waits for nobody
                    await connection.aclose()

    async def _connect(self) -> _Connection:
        try:
            with anyio.fail_after(self._connect_timeout):
                stream = await self._open()
        except TimeoutError:
            raise OSError(f"no connection within {self._connect_timeout:g} s") from None
        tls: ssl.SSLObject | None = stream.get_extra_info("ssl_object")
        if tls is None or tls.selected_alpn_protocol() != "h2":
            return httpcore.AsyncHTTP11Connection(self._origin, stream, keepalive_expiry=_KEEP_ALIVE)
        connection = httpcore.AsyncHTTP2Connection(self._origin, stream, keepalive_expiry=_KEEP_ALIVE)
        if self._shared is None:
            self._shared = connection
        return connection

    async def _open(self) -> httpcore.AsyncNetworkStream:
        host = self._origin.host.decode("ascii")
        stream = await self._backend.connect_tcp(host, self._origin.port)
        if self._tls is None:
            return stream
        try:
            return await stream.start_tls(self._tls, host)
        except BaseException:
            # httpcore closes it after an error, and not when it is cancelled.
            with anyio.CancelScope(shield=True):
                await stream.aclose()
            raise
