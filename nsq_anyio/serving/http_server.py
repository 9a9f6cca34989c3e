"""A small HTTP/1 server over AnyIO streams.

It bounds all that a peer can send. No input and no vanishing peer ends it; only cancellation or closing the
listener does. Where HTTP leaves a choice, it behaves like Go's server.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from http import HTTPStatus

import anyio
import h11
from anyio.abc import ByteStream, Listener

from ..transport.tls import start_tls
from .http_messages import Handler, PeerVanished, Request, RequestError, Response, phrase
from .http_reader import RECEIVE_SIZE, RequestReader
from .listener import PEER_GONE, lingering_close, serve_connections

__all__ = ["http_service", "serve_http"]

_logger = logging.getLogger(__name__)

_TEXT_HEADER = ("Content-Type", "text/plain; charset=utf-8")


async def serve_http(
    listener: Listener[ByteStream],
    handler: Handler,
    *,
    request_timeout: float = 30.0,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Answer requests until cancelled or until ``listener`` is closed; the caller closes it.

    The parameters are those of `http_service`.
    """
    await serve_connections(listener, http_service(handler, request_timeout=request_timeout, tls=tls))


def http_service(
    handler: Handler, *, request_timeout: float = 30.0, tls: ssl.SSLContext | None = None
) -> Callable[[ByteStream], Awaitable[None]]:
    """Return a function that answers the requests of one connection, whatever the peer does.

    If ``handler`` raises a `RequestError`, the response has its status. For other exceptions it is 500, and
    the traceback is logged. A body is read only as far as ``handler`` asks, so ``handler`` bounds its size.

    :param request_timeout: the seconds that a peer has to send a request, from its first byte to its last, to
        take the response, and to finish the TLS handshake. An idle connection stays open
    :param tls: for HTTPS; None is plain HTTP
    """

    async def serve(stream: ByteStream) -> None:
        async with stream:
            secured = stream if tls is None else await _start_tls(stream, tls, request_timeout)
            if secured is not None:
                await _Connection(secured, handler, request_timeout).run()

    return serve


async def _start_tls(stream: ByteStream, tls: ssl.SSLContext, timeout: float) -> ByteStream | None:
    try:
        with anyio.fail_after(timeout):
            return await start_tls(stream, tls, server_side=True)
    except TimeoutError:
        _logger.debug("a peer did not finish its TLS handshake in %s s", timeout)
    except (anyio.EndOfStream, *PEER_GONE) as error:  # ssl.SSLError is an OSError
        _logger.debug("a peer failed in its TLS handshake: %r", error)
    return None


class _Connection:
    """One connection: each request is answered before the next one is read."""

    def __init__(self, stream: ByteStream, handler: Handler, request_timeout: float) -> None:
        self._stream = stream
        self._handler = handler
        self._request_timeout = request_timeout
        self._unread = b""

    async def run(self) -> None:
        try:
            while await self._wait_for_request() and await self._exchange():
                pass
        except TimeoutError:
            _logger.debug("a peer did not read its HTTP response in %s s", self._request_timeout)
        except (PeerVanished, *PEER_GONE) as error:
            _logger.debug("a peer vanished from its HTTP connection: %r", error)

    async def _wait_for_request(self) -> bool:
        """Wait without a timeout for the first byte; return False if the peer closes instead."""
        try:
            self._unread = self._unread or await self._stream.receive(RECEIVE_SIZE)
        except anyio.EndOfStream:
            return False
        return True

    async def _exchange(self) -> bool:
        """Read one request and answer it; return False if the connection has to end."""
        deadline = anyio.current_time() + self._request_timeout
        reader = RequestReader(self._stream, self._unread, deadline)
        method = ""
        try:
            request = await reader.read_head()
            method = request.method
            response = await self._answer(request)
            keep_alive = await reader.finish()
        except RequestError as error:
            response, keep_alive = _error_response(error.status), False
        head = _encode_head(response, is_http_1_0=reader.is_http_1_0, keep_alive=keep_alive)
        # The response to HEAD has the Content-Length of a body, but no body.
        with anyio.fail_after(self._request_timeout):
            await self._stream.send(head if method == "HEAD" else head + response.body)
        if keep_alive:
            self._unread = reader.unread
        else:
            await lingering_close(self._stream)
        return keep_alive

    async def _answer(self, request: Request) -> Response:
        try:
            return await self._handler(request)
        except (RequestError, PeerVanished):
            raise
        except Exception:
            # Go's server, too, survives a handler that panics.
            _logger.exception("the handler of %s %s failed", request.method, request.target.path)
            return _error_response(HTTPStatus.INTERNAL_SERVER_ERROR)


def _error_response(status: HTTPStatus) -> Response:
    if status is HTTPStatus.EXPECTATION_FAILED:
        return Response(status)
    return Response(status, f"{status.value} {phrase(status)}".encode(), (_TEXT_HEADER,))


def _encode_head(response: Response, *, is_http_1_0: bool, keep_alive: bool) -> bytes:
    headers = [
        *response.headers,
        ("Date", formatdate(usegmt=True)),
        ("Content-Length", str(len(response.body))),
    ]
    if is_http_1_0 and keep_alive:
        headers.append(("Connection", "keep-alive"))
    elif not is_http_1_0 and not keep_alive:
        headers.append(("Connection", "close"))
    # h11 only checks the headers: it could not write the head of an HTTP/1.0 connection that stays open.
    checked = h11.Response(status_code=response.status, headers=headers)
    lines = [b"HTTP/1.%d %d %s" % (not is_http_1_0, response.status, phrase(response.status).encode("ascii"))]
    lines += [name + b": " + value for name, value in checked.headers.raw_items()]
    return b"\r\n".join([*lines, b"", b""])
