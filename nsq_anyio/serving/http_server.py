"""A small HTTP/1 server over AnyIO streams.

It bounds all that a peer can send. No input and no vanishing peer ends it; only cancellation or closing the
listener does. Where HTTP leaves a choice, it behaves like Go's server.
"""

from __future__ import annotations

import logging
import ssl
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from email.utils import formatdate
from http import HTTPStatus
from typing import Any

import anyio
import h11
from anyio.abc import ByteStream, Listener

from ..transport.tls import start_tls
from .http_messages import Handler, PeerVanished, Request, RequestError, Response, phrase
from .http_reader import RECEIVE_SIZE, RequestReader
from .listener import PEER_GONE, lingering_close, serve_connections

__all__ = ["Connection", "encode_head", "encode_response", "error_response", "http_service", "serve_http"]

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
                await _HandlerConnection(secured, handler, request_timeout).run()

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


class Connection(ABC):
    """One connection: each request is answered before the next one is read.

    :param request_timeout: as for `http_service`
    """

    def __init__(self, stream: ByteStream, request_timeout: float) -> None:
        self._stream = stream
        self._request_timeout = request_timeout
        self._unread = b""

    async def run(self) -> None:
        """Answer requests until one side ends the connection."""
        try:
            while await self._wait_for_request() and await self._exchange():
                pass
        except TimeoutError:
            _logger.debug("a peer did not read its HTTP response in %s s", self._request_timeout)
        except (PeerVanished, *PEER_GONE) as error:
            _logger.debug("a peer vanished from its HTTP connection: %r", error)

    @abstractmethod
    async def respond(self, reader: RequestReader, request: Request) -> bool:
        """Send the response to a request, and return whether another request may follow it.

        :raises RequestError: if the request is not valid, before anything was sent
        """

    async def send(self, data: bytes) -> None:
        """Send a part of a response.

        :raises TimeoutError: if the peer does not take it in time
        """
        with anyio.fail_after(self._request_timeout):
            await self._stream.send(data)

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
        self._unread = b""
        method = ""
        try:
            request = await reader.read_head()
            method = request.method
            keep_alive = await self.respond(reader, request)
        except RequestError as error:
            response, keep_alive = error_response(error.status), False
            await self.send(encode_response(response, method, is_http_1_0=reader.is_http_1_0))
        if keep_alive:
            self._unread = reader.unread + self._unread
        else:
            await lingering_close(self._stream)
        return keep_alive


class _HandlerConnection(Connection):
    """A connection whose requests a `Handler` answers."""

    def __init__(self, stream: ByteStream, handler: Handler, request_timeout: float) -> None:
        super().__init__(stream, request_timeout)
        self._handler = handler

    async def respond(self, reader: RequestReader, request: Request) -> bool:
        response = await self._answer(request)
        keep_alive = await reader.finish()
        is_http_1_0 = reader.is_http_1_0
        await self.send(
            encode_response(response, request.method, is_http_1_0=is_http_1_0, keep_alive=keep_alive)
        )
        return keep_alive

    async def _answer(self, request: Request) -> Response:
        try:
            return await self._handler(request)
        except (RequestError, PeerVanished):
            raise
        except Exception:
            # Go's server, too, survives a handler that panics.
            _logger.exception("the handler of %s %s failed", request.method, request.target.path)
            return error_response(HTTPStatus.INTERNAL_SERVER_ERROR)


def error_response(status: HTTPStatus) -> Response:
    """Return the response to a request that is not valid, or whose handler failed."""
    if status is HTTPStatus.EXPECTATION_FAILED:
        return Response(status)
    return Response(status, f"{status.value} {phrase(status)}".encode(), (_TEXT_HEADER,))


def encode_response(response: Response, method: str, *, is_http_1_0: bool, keep_alive: bool = False) -> bytes:
    """Return a whole response as it is sent.

    :param method: of the request; the response to HEAD has the Content-Length of a body, but no body
    """
    headers = (*response.headers, ("Content-Length", str(len(response.body))))
    head = encode_head(response.status, headers, is_http_1_0=is_http_1_0, keep_alive=keep_alive)
    return head if method == "HEAD" else head + response.body


def encode_head(
    status: int, headers: Iterable[tuple[Any, Any]], *, is_http_1_0: bool, keep_alive: bool
) -> bytes:
    """Return the head of a response, with the headers ``Date`` and ``Connection``.

    :param headers: names and values, all as str or all as bytes
    :raises h11.LocalProtocolError: if a header cannot be sent
    """
    sent = [*headers]
    if not any(name in (b"date", "date", "Date") for name, _ in sent):
        sent.append(("Date", formatdate(usegmt=True)))
    if is_http_1_0 and keep_alive:
        sent.append(("Connection", "keep-alive"))
    elif not is_http_1_0 and not keep_alive:
        sent.append(("Connection", "close"))
    # h11 only checks the headers: it could not write the head of an HTTP/1.0 connection that stays open.
    checked = h11.Response(status_code=status, headers=sent)
    lines = [b"HTTP/1.%d %d %s" % (not is_http_1_0, status, phrase(status).encode("ascii"))]
    lines += [name + b": " + value for name, value in checked.headers.raw_items()]
    return b"\r\n".join([*lines, b"", b""])
