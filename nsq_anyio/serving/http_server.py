"""A small HTTP/1 server over AnyIO streams.

It bounds all that a peer can send. No input and no vanishing peer ends the server; only cancellation
does, or closing the listener. Where HTTP leaves a choice, it behaves like Go's server.
"""

from __future__ import annotations

import logging
import ssl
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import Any

import anyio
import h11
from anyio.abc import ByteStream, Listener

from ..transport.tls import start_tls
from .http_messages import Handler, PeerVanished, Request, RequestError, Response, phrase
from .http_reader import RequestReader
from .listener import PEER_GONE, lingering_close, remote_address, serve_connections
from .places import Place, Places, most_places

_logger = logging.getLogger(__name__)

IDLE_TIMEOUT = 120.0
"""Seconds. Go's clients and common proxies close an idle connection sooner, so none of their requests
arrives on a connection that the server is just closing."""

_TEXT_HEADER = ("Content-Type", "text/plain; charset=utf-8")


async def serve_http(
    listener: Listener[ByteStream],
    handler: Handler,
    *,
    request_timeout: float = 30.0,
    idle_timeout: float = IDLE_TIMEOUT,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Answer requests until cancelled or until ``listener`` is closed; the caller closes it.

    The parameters are those of `http_service`.
    """
    service = http_service(handler, request_timeout=request_timeout, idle_timeout=idle_timeout, tls=tls)
    await serve_connections(listener, service)


def http_service(
    handler: Handler,
    *,
    request_timeout: float = 30.0,
    idle_timeout: float = IDLE_TIMEOUT,
    tls: ssl.SSLContext | None = None,
) -> Callable[[ByteStream], Awaitable[None]]:
    """Return a function that answers the requests of one connection, whatever the peer does.

    If ``handler`` raises a `RequestError`, the response has its status. For other exceptions it is 500, and
    the traceback is logged. A body is read only as far as ``handler`` asks, so ``handler`` bounds its size.

    :param request_timeout: the seconds that a peer has to send a request, from its first byte to its last, to
        take the response, and to finish the TLS handshake
    :param idle_timeout: the seconds after which a connection is closed on which no request begins
    :param tls: for HTTPS; None is plain HTTP
    """
    patience = Patience(request_timeout, idle_timeout)
    places = Places(most_places())

    async def serve(stream: ByteStream) -> None:
        async with stream:
            remote = remote_address(stream)
            with places.taken("" if remote is None else remote.host) as place:
                if place is None:
                    return
                secured = stream if tls is None else await _start_tls(stream, tls, patience, place)
                if secured is not None:
                    await _HandlerConnection(secured, handler, patience, place).run()

    return serve


@dataclass(frozen=True, slots=True)
class Patience:
    """Bounds how long the connections of one server wait for their peers.

    :ivar request_timeout: as for `http_service`
    :ivar idle_timeout: as for `http_service`
    """

    request_timeout: float
    idle_timeout: float


async def _start_tls(
    stream: ByteStream, tls: ssl.SSLContext, patience: Patience, place: Place
) -> ByteStream | None:
    try:
        with place.idle(), anyio.fail_after(patience.request_timeout):
            return await start_tls(stream, tls, server_side=True)
    except TimeoutError:
        _logger.debug("a peer did not finish its TLS handshake in %s s", patience.request_timeout)
    except (anyio.EndOfStream, *PEER_GONE) as error:  # ssl.SSLError is an OSError
        _logger.debug("a peer failed in its TLS handshake: %r", error)
    return None


class Connection(ABC):
    """One connection: each request is answered before the next one is read."""

    def __init__(self, stream: ByteStream, patience: Patience, place: Place) -> None:
        self._stream = stream
        self._patience = patience
        self._place = place
        self._unread = b""

    async def run(self) -> None:
        """Answer requests until one side ends the connection."""
        try:
            while await self._exchange():
                pass
        except TimeoutError:
            _logger.debug("a peer did not read its HTTP response in %s s", self._patience.request_timeout)
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
        with self._place.idle(), anyio.fail_after(self._patience.request_timeout):
            await self._stream.send(data)

    async def _exchange(self) -> bool:
        """Read one request and answer it; return False if the connection has to end."""
        reader = RequestReader(self._stream, self._unread, self._patience.request_timeout, self._place)
        self._unread = b""
        request: Request | None = None
        try:
            if not await reader.begins(self._patience.idle_timeout):
                return False
            request = await reader.read_head()
            keep_alive = await self.respond(reader, request)
        except RequestError as error:
            response, keep_alive = error_response(error.status), False
            method = "" if request is None else request.method
            await self.send(encode_response(response, method, is_http_1_0=reader.is_http_1_0))
        if keep_alive:
            self._unread = reader.unread + self._unread
        else:
            with self._place.idle():
                await lingering_close(self._stream)
        return keep_alive


class _HandlerConnection(Connection):
    """A connection whose requests a `Handler` answers."""

    def __init__(self, stream: ByteStream, handler: Handler, patience: Patience, place: Place) -> None:
        super().__init__(stream, patience, place)
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
