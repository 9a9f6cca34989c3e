"""An HTTP/2 connection, by httpcore; the package h2 must be installed."""

from __future__ import annotations

import ssl
from typing import Any, Self

import anyio
import h2.exceptions
import httpcore
from anyio.abc import ByteStream

from .exchange import KEEP_ALIVE, Exchange, NoAnswer

_BROKEN = (
    httpcore.ConnectionNotAvailable,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    h2.exceptions.ProtocolError,
)


class HTTP2Connection:
    """Carries any number of exchanges at the same time."""

    def __init__(self, origin: httpcore.Origin, stream: ByteStream) -> None:
        self._origin = origin
        self._http = httpcore.AsyncHTTP2Connection(origin, _Stream(stream), keepalive_expiry=KEEP_ALIVE)
        self._is_clean = True

    @property
    def is_idle(self) -> bool:
        """Whether no exchange is under way."""
        return self._http.is_idle()

    def can_carry_more(self) -> bool:
        """Return whether the connection is open, with no abandoned answer still arriving."""
        return self._is_clean and self._http.is_available() and not self._http.has_expired()

    async def carry(self, exchange: Exchange) -> None:
        try:
            response = await self._http.handle_async_request(self._request(exchange))
        except _BROKEN as error:
            raise NoAnswer(str(error) or type(error).__name__, unheard=True) from error
        exchange.answer_headers = dict(response.headers)
        exchange.status = response.status
        is_whole = False
        try:
            async for _ in response.aiter_stream():
                pass
            is_whole = True
        except _BROKEN:
            pass
        finally:
            self._is_clean = self._is_clean and is_whole
            await response.aclose()

    async def aclose(self) -> None:
        """Close the connection at once, without waiting for the server."""
        with anyio.CancelScope(shield=True):
            await self._http.aclose()

    def _request(self, exchange: Exchange) -> httpcore.Request:
        origin = self._origin
        url = httpcore.URL(scheme=origin.scheme, host=origin.host, port=origin.port, target=exchange.target)
        headers, body = exchange.headers.pairs, exchange.body
        if body is None:
            # Without Content-Length, httpcore sends no body.
            return httpcore.Request(exchange.method, url, headers=headers, content=_Body(b""))
        headers = [*headers, (b"Content-Length", b"%d" % len(body))]
        return httpcore.Request(exchange.method, url, headers=headers, content=_Body(body))


class _Body:
    """The body of a request. httpcore would turn bytes into a generator, left open if sending fails."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._left: list[bytes] = []

    def __aiter__(self) -> Self:
        self._left = [self._body]
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()


class _Stream(httpcore.AsyncNetworkStream):
    """Adapts an AnyIO stream to httpcore."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Return the bytes that have arrived; none at the end."""
        del timeout  # the whole exchange has a deadline
        try:
            return await self._stream.receive(max_bytes)
        except anyio.EndOfStream:
            return b""
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise httpcore.ReadError(str(error.__cause__ or "the connection broke")) from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all bytes."""
        del timeout
        try:
            await self._stream.send(buffer)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise httpcore.WriteError(str(error.__cause__ or "the connection broke")) from error

    async def aclose(self) -> None:
        await anyio.aclose_forcefully(self._stream)

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        """Raise `NotImplementedError`: a stream that carries HTTP/2 has TLS already."""
        raise NotImplementedError

    def get_extra_info(self, info: str) -> Any:
        """Return None: httpcore asks only for its log."""
        del info
