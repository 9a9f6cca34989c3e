"""Connections to one HTTP server, each kept for the next request."""

from __future__ import annotations

import math
import ssl
from typing import TYPE_CHECKING, TypeAlias

import anyio
import httpcore
from anyio.abc import ByteStream
from anyio.streams.tls import TLSAttribute

from ...address import Address
from ...errors import DialFailed
from ...transport.dial import dial
from ...transport.tls import start_tls
from .exchange import Exchange, NoAnswer
from .http1 import HTTP1Connection

if TYPE_CHECKING:
    from .http2 import HTTP2Connection

_Connection: TypeAlias = "HTTP1Connection | HTTP2Connection"


class ConnectionPool:
    """A pool of connections to one server; any number of tasks may share it.

    httpcore's own pool examines every connection for every request: with 100 connections that takes far
    longer than the request.

    :param tls: the context for https; HTTP/2 is used if the context offers it and the server accepts it
    :param connect_timeout: seconds to connect, including the TLS handshake
    """

    def __init__(
        self, origin: httpcore.Origin, tls: ssl.SSLContext | None, *, connect_timeout: float
    ) -> None:
        self._origin = origin
        self._address = Address(origin.host.decode("ascii"), origin.port)
        self._tls = tls
        self._connect_timeout = connect_timeout
        self._idle: list[_Connection] = []
        self._shared: HTTP2Connection | None = None

    async def carry(self, exchange: Exchange, timeout: float) -> None:
        """Send the request and record the answer's status, then read and discard the answer's body.

        A server may close an idle connection. If a kept connection ends without a single byte of an answer,
        the request is sent once more, on a new one.

        :param timeout: seconds for the exchange; if they pass while the body is read, the status still counts
        :raises NoAnswer: if the server could not be reached, or sent no status
        """
        with anyio.move_on_after(timeout):
            kept = await self._kept()
            if kept is not None:
                try:
                    await self._carry_on(kept, exchange)
                except NoAnswer as error:
                    if not error.unheard:
                        raise
                else:
                    return
            await self._carry_on(await self._connect(), exchange)

    async def aclose(self) -> None:
        """Close all connections; no request may be under way."""
        connections = [*self._idle, *([] if self._shared is None else [self._shared])]
        self._idle.clear()
        self._shared = None
        for connection in connections:
            await connection.aclose()

    async def _kept(self) -> _Connection | None:
        """Return a kept connection that can be used; None if there is none."""
        shared = self._shared
        if shared is not None:
            if shared.can_carry_more():
                return shared
            self._shared = None
            if shared.is_idle:
                await shared.aclose()
            # Otherwise requests are still under way on it, and the last one closes it.
        while self._idle:
            connection = self._idle.pop()
            if connection.can_carry_more():
                return connection
            await connection.aclose()
        return None

    async def _carry_on(self, connection: _Connection, exchange: Exchange) -> None:
        """Use a connection, then keep it or close it."""
        try:
            await connection.carry(exchange)
        finally:
            if isinstance(connection, HTTP1Connection):
                if connection.is_idle:
                    self._idle.append(connection)
                else:
                    await connection.aclose()
            elif connection is not self._shared and connection.is_idle:
                await connection.aclose()

    async def _connect(self) -> _Connection:
        try:
            with anyio.fail_after(self._connect_timeout):
                stream = await self._open()
        except TimeoutError:
            raise NoAnswer(f"no connection within {self._connect_timeout:g} s") from None
        if stream.extra(TLSAttribute.alpn_protocol, None) != "h2":  # noqa: S610 - AnyIO's
            return HTTP1Connection(stream)
        from .http2 import HTTP2Connection

        connection = HTTP2Connection(self._origin, stream)
        if self._shared is None:
            self._shared = connection
        return connection

    async def _open(self) -> ByteStream:
        try:
            stream = await dial(self._address, timeout=math.inf)
        except DialFailed as error:
            raise NoAnswer(error.reason) from error
        if self._tls is None:
            return stream
        try:
            return await start_tls(stream, self._tls, server_hostname=self._address.host)
        except BaseException as error:
            await anyio.aclose_forcefully(stream)
            if isinstance(error, ssl.SSLError):
                raise NoAnswer(str(error)) from error
            if isinstance(error, anyio.EndOfStream | anyio.BrokenResourceError):
                raise NoAnswer("the server hung up during the TLS handshake") from error
            raise
