"""An ASGI server over AnyIO streams, on asyncio and on Trio.

Not supported: lifespan (enter the application before it is served), websockets and server push.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

import anyio
from anyio.abc import ByteStream, Listener, SocketStream

from .asgi import ASGIApp, Event, Scope
from .http_messages import BodyTooLarge, PeerVanished, Request, RequestError
from .http_reader import RECEIVE_SIZE, RequestReader
from .http_server import IDLE_TIMEOUT, Connection, Patience, encode_head
from .listener import PEER_GONE, Remote, remote_address, serve_connections
from .places import Place, Places, most_places

_logger = logging.getLogger(__name__)

_WITHOUT_BODY = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})
_OWN_HEADERS = frozenset({b"connection", b"content-length", b"transfer-encoding"})


class Disconnected(OSError):
    """The client is gone: raised by ``send``, and handled by the server if the application does not."""


async def serve_asgi(
    listener: Listener[SocketStream],
    app: ASGIApp,
    *,
    request_timeout: float = 30.0,
    idle_timeout: float = IDLE_TIMEOUT,
    max_body_size: int = 1024 * 1024,
) -> None:
    """Answer requests until cancelled or until ``listener`` is closed; the caller closes it.

    :param request_timeout: the seconds that a peer has to send a request, from its first byte to its last,
        and to take each part of the response
    :param idle_timeout: the seconds after which a connection is closed on which no request begins
    :param max_body_size: the most bytes of a request's body; more are refused with 413
    """

    patience = Patience(request_timeout, idle_timeout)
    places = Places(most_places())

    async def serve(stream: SocketStream) -> None:
        async with stream:
            remote = remote_address(stream)
            with places.taken("" if remote is None else remote.host) as place:
                if place is not None:
                    await _Connection(stream, app, patience, place, max_body_size, remote).run()

    await serve_connections(listener, serve)


class _Connection(Connection):
    """A connection whose requests an application answers."""

    def __init__(
        self,
        stream: ByteStream,
        app: ASGIApp,
        patience: Patience,
        place: Place,
        max_body_size: int,
        remote: Remote | None,
    ) -> None:
        super().__init__(stream, patience, place)
        self._app = app
        self._max_body_size = max_body_size
        self._client = (remote.host, remote.port) if remote is not None and remote.host else None

    async def respond(self, reader: RequestReader, request: Request) -> bool:
        if (request.content_length or 0) > self._max_body_size:
            raise BodyTooLarge
        exchange = _Exchange(self, reader, request, self._max_body_size)
        try:
            await self._app(self._scope(reader, request), exchange.receive, exchange.send)
        except Disconnected:
            raise PeerVanished("the client left before the end of its response") from None
        except Exception:
            _logger.exception("the application failed at %s %s", request.method, request.target.path)
        if exchange.error is not None and not exchange.has_started:
            raise exchange.error
        if not exchange.has_started:
            raise RequestError(HTTPStatus.INTERNAL_SERVER_ERROR)
        if not exchange.is_complete:
            # Only a closed connection tells the client that its response is cut.
            raise PeerVanished("the application left its response incomplete")
        return exchange.keep_alive

    def _scope(self, reader: RequestReader, request: Request) -> Scope:
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.0" if reader.is_http_1_0 else "1.1",
            # ASGI wants it in upper case, but HTTP's methods are case-sensitive: a proxy that forbids DELETE
            # may pass delete.
            "method": request.method,
            "scheme": "http",
            "path": request.target.path,
            "raw_path": reader.raw_target.partition(b"?")[0],
            "query_string": request.target.query.encode("latin-1", "replace"),
            "root_path": "",
            "headers": list(reader.fields),
            "client": self._client,
            "server": None,
        }

    def rest(self, is_streaming: bool) -> None:
        """Note that a part of a response was sent: between the parts of a stream, the connection is idle."""
        self._place.is_idle = is_streaming

    async def wait_for_close(self) -> None:
        """Return when the peer closes; keep bytes that arrive earlier for the next request, up to a bound."""
        while len(self._unread) < RECEIVE_SIZE:
            try:
                self._unread += await self._stream.receive(RECEIVE_SIZE)
            except (anyio.EndOfStream, *PEER_GONE):
                return
        await anyio.sleep_forever()


class _Exchange:
    """One request and its response, as the application sees them.

    :ivar has_started: whether a part of the response was sent
    :ivar is_complete: whether all of it was sent
    :ivar keep_alive: whether another request may follow
    :ivar error: why the body could not be read; None if it could
    """

    def __init__(
        self, connection: _Connection, reader: RequestReader, request: Request, max_body_size: int
    ) -> None:
        self.has_started = False
        self.is_complete = False
        self.keep_alive = False
        self.error: RequestError | None = None
        self._connection = connection
        self._reader = reader
        self._request = request
        self._left = max_body_size
        self._is_body_read = False
        self._is_chunked = False
        self._start: Event | None = None
        self._waiting: set[anyio.CancelScope] = set()

    async def receive(self) -> Event:
        """The application's ``receive``: the body piece by piece, then the disconnect."""
        if not self._is_body_read and not self.is_complete:
            try:
                piece = await self._request.read_piece()
                self._left -= len(piece)
                if self._left < 0:
                    raise BodyTooLarge
            except RequestError as error:
                self.error = error
                self._is_body_read = True
                return {"type": "http.disconnect"}
            self._is_body_read = not piece
            return {"type": "http.request", "body": piece, "more_body": bool(piece)}
        if self.error is None and not self.is_complete:
            with anyio.CancelScope() as scope:
                self._waiting.add(scope)  # until the response is complete
                await self._connection.wait_for_close()
            self._waiting.discard(scope)
        return {"type": "http.disconnect"}

    async def send(self, event: Event) -> None:
        """The application's ``send``.

        :raises Disconnected: if the client is gone, or does not take the response in time
        :raises RuntimeError: if the event is not due
        """
        kind = event["type"]
        if kind == "http.response.start" and self._start is None:
            self._start = event
        elif kind == "http.response.body" and self._start is not None and not self.is_complete:
            try:
                await self._send_body(self._start, event.get("body", b""), event.get("more_body", False))
            except (TimeoutError, PeerVanished, *PEER_GONE) as error:
                raise Disconnected(repr(error)) from error
        else:
            raise RuntimeError(f"{kind} is not due: send one start, then the body to its end")

    async def _send_body(self, start: Event, body: bytes, more: bool) -> None:
        data = b""
        if not self.has_started:
            data = await self._head(start, len(body), more)
            self.has_started = True
        if self._request.method != "HEAD" and start["status"] not in _WITHOUT_BODY:
            data += self._framed(bytes(body), more)
        if data:
            await self._connection.send(data)
        self._connection.rest(more)
        if not more:
            self.is_complete = True
            for scope in self._waiting:
                scope.cancel()

    async def _head(self, start: Event, length: int, more: bool) -> bytes:
        # An application that streams its response may still read the request, so it is not skipped.
        is_over = self._is_body_read or not more or self._request.content_length == 0
        self.keep_alive = is_over and self.error is None and await self._reader.finish()
        given: Iterable[tuple[Any, Any]] = start.get("headers", ())
        headers = [(bytes(name).lower(), bytes(value)) for name, value in given]
        lengths = [value for name, value in headers if name == b"content-length"]
        headers = [(name, value) for name, value in headers if name not in _OWN_HEADERS]
        status = start["status"]
        if self._request.method == "HEAD" or status in _WITHOUT_BODY:
            headers += [(b"content-length", value) for value in lengths if status not in _WITHOUT_BODY]
        elif not more:
            headers.append((b"content-length", str(length).encode()))
        elif self._reader.is_http_1_0:
            self.keep_alive = False  # the end of the connection is the end of the body
        else:
            self._is_chunked = True
            headers.append((b"transfer-encoding", b"chunked"))
        return encode_head(status, headers, is_http_1_0=self._reader.is_http_1_0, keep_alive=self.keep_alive)

    def _framed(self, body: bytes, more: bool) -> bytes:
        if not self._is_chunked:
            return body
        chunk = b"%x\r\n%s\r\n" % (len(body), body) if body else b""
        return chunk if more else chunk + b"0\r\n\r\n"
