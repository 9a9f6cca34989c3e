"""httpx's connection pools, set up for the servers of NSQ."""

from __future__ import annotations

import errno
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

import anyio
import anyio.to_thread
import httpcore
import httpx

from ..transport.connect_tcp import connect_by_name

MOST_CONNECTIONS = 100
"""httpx's own limit of open connections."""


def make_transport(
    *,
    ssl_context: ssl.SSLContext | None = None,
    socket: str | None = None,
    most_connections: int = MOST_CONNECTIONS,
) -> httpx.AsyncBaseTransport:
    """Make a pool of connections.

    :param ssl_context: for https; None trusts the system's certificate authorities
    :param socket: the path of a unix socket to connect to, whatever the URL's host
    :param most_connections: how many connections by http, and how many by https, are open at once; a further
        request waits
    """
    return _Pools(ssl_context, socket, most_connections)


class _Handshake:
    """The connection of a request until TLS is up; httpcore leaves it open if the handshake is cancelled."""

    def __init__(self) -> None:
        self._dialled: Any = None

    async def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Called by httpcore."""
        if event == "connection.connect_tcp.complete":
            self._dialled = info["return_value"]
        elif event == "connection.start_tls.complete":
            self._dialled = None

    async def abandon(self) -> None:
        """Close the connection, if TLS is not up."""
        if self._dialled is not None:
            with anyio.CancelScope(shield=True):  # closes at once, then waits for one iteration of the loop
                await self._dialled.aclose()


class _Pools(httpx.AsyncBaseTransport):
    """A pool for http, and one for https that is made on first use."""

    def __init__(self, ssl_context: ssl.SSLContext | None, socket: str | None, most_connections: int) -> None:
        self._most_connections = most_connections
        # The context is never used, since no redirect is followed. It keeps httpx from loading certificates.
        self._plain = _Pool(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), most_connections, socket)
        self._secure: httpx.AsyncHTTPTransport | None = None
        self._ssl_context = ssl_context
        self._lock = anyio.Lock()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request."""
        try:
            if request.url.scheme == "https":
                return await self._by_https(request)
            return await self._plain.handle_async_request(request)
        except AttributeError as error:
            if error.obj is not None or error.name is None:
                raise
            # AnyIO uses the socket, which is None in a transport that uvloop has closed.
            raise httpx.ConnectError(os.strerror(errno.ECONNRESET), request=request) from error

    async def _by_https(self, request: httpx.Request) -> httpx.Response:
        pool = await self._secure_pool()
        handshake = _Handshake()
        request.extensions = {**request.extensions, "trace": handshake.trace}
        try:
            return await pool.handle_async_request(request)
        except BaseException:
            await handshake.abandon()
            raise

    async def aclose(self) -> None:
        """Close all connections."""
        try:
            await self._plain.aclose()
        finally:
            if self._secure is not None:
                await self._secure.aclose()

    async def _secure_pool(self) -> httpx.AsyncHTTPTransport:
        async with self._lock:
            if self._secure is None:
                context = self._ssl_context
                if context is None:
                    # In a thread: it parses some hundred certificates, which takes tens of milliseconds.
                    context = await anyio.to_thread.run_sync(ssl.create_default_context)
                self._secure = _Pool(context, self._most_connections)
        return self._secure


class _Pool(httpx.AsyncHTTPTransport):
    """httpx's own transport, except for the look-up of host names."""

    def __init__(self, context: ssl.SSLContext, most_connections: int, socket: str | None = None) -> None:
        super().__init__(verify=context, trust_env=False)
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=context,
            max_connections=most_connections,
            max_keepalive_connections=20,  # this and the next are httpx's own limits
            keepalive_expiry=5.0,
            uds=socket,
            network_backend=_Network(),
        )


class _Network(httpcore.AsyncNetworkBackend):
    """AnyIO's connections, with the name look-up of `connect_by_name`."""

    def __init__(self) -> None:
        self._anyio = cast("httpcore.AsyncNetworkBackend", httpcore.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.AsyncNetworkStream:
        found: list[str] = []

        async def connect(address: str) -> httpcore.AsyncNetworkStream:
            found.append(address)
            return await self._anyio.connect_tcp(address, port, None, local_address, socket_options)

        try:
            with anyio.fail_after(timeout):
                return await connect_by_name(host, port, connect)
        except TimeoutError as error:
            within = f"within {timeout:g} s"
            text = f"no connection {within}: the host is down, or a firewall drops the packets"
            raise httpcore.ConnectTimeout(text if found else f"its name was not found {within}") from error
        except OSError as error:  # from the look-up
            raise httpcore.ConnectError(str(error)) from error

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Any = None
    ) -> httpcore.AsyncNetworkStream:
        return await self._anyio.connect_unix_socket(path, timeout, socket_options)


class SharedTransport(httpx.AsyncBaseTransport):
    """A transport that several clients share and none of them closes."""

    def __init__(self, transport: httpx.AsyncBaseTransport) -> None:
        self._transport = transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Pass the request on."""
        return await self._transport.handle_async_request(request)


class RequestBody(httpx.AsyncByteStream):
    """The body of one request.

    httpx's own is an async generator. A cancelled request leaves it unfinished, of which Trio warns.
    """

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._parts = iter((body,))

    def __aiter__(self) -> AsyncIterator[bytes]:
        self._parts = iter((self._body,))
        return self

    async def __anext__(self) -> bytes:
        for part in self._parts:
            return part
        raise StopAsyncIteration


async def read_body(response: httpx.Response, chunks: AsyncIterator[bytes], limit: int) -> bytes | None:
    """Return the body; None if it has more than ``limit`` bytes, after closing the connection.

    :param chunks: the chunks of ``response``, raw or decoded
    """
    body = bytearray()
    is_too_large = False
    try:
        async for chunk in chunks:
            if is_too_large:
                continue
            body += chunk
            if len(body) > limit:
                # httpx reads through a chain of async generators. An error raised here would leave them to
                # the garbage collector; the closed connection ends them from the inside.
                is_too_large = True
                await response.aclose()
    except (httpx.RequestError, OSError):
        if not is_too_large:
            raise
    return None if is_too_large else bytes(body)
