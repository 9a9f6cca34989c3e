"""A small HTTP/1.1 server over AnyIO streams, for the HTTP side of the embedded daemons.

h11 knows the bytes; this file moves them, bounds them, and survives every peer. No input and no
vanishing peer ends it; only cancellation or closing the listener does.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus

import anyio
import h11
from anyio.abc import ByteStream, Listener

from ..transport.tls import start_tls
from .http_messages import Handler, Refusal, Request, Response, error_response, parse_target
from .listener import PEER_GONE, linger, serve_connections

__all__ = ["serve_http"]

_logger = logging.getLogger(__name__)

MAX_HEADER_SIZE = 64 * 1024
"""Of the request line and all headers; a longer one is answered with 431."""

_RECEIVE_SIZE = 64 * 1024


async def serve_http(
    listener: Listener[ByteStream],
    handler: Handler,
    *,
    max_body_size: int,
    too_large_codes: Mapping[str, str] | None = None,
    request_timeout: float = 30.0,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Answer requests until cancelled or until ``listener`` is closed; the caller closes it.

    What ``handler`` raises becomes the answer: `Refusal` its status and code, anything else 500
    ``INTERNAL_ERROR`` and a logged traceback.

    :param max_body_size: bytes; a longer body is answered with 413 and the connection closed
    :param too_large_codes: the code of that answer by path; others have ``BODY_TOO_BIG``
    :param request_timeout: seconds from the first byte of a request to its last, and for the peer to take
        the answer; idle connections stay open as long as the peer wants. It bounds the TLS handshake as well
    :param tls: for HTTPS; None is plain HTTP
    """
    limits = _Limits(max_body_size, request_timeout, too_large_codes or {})

    async def serve(stream: ByteStream) -> None:
        async with stream:
            secured = stream if tls is None else await _start_tls(stream, tls, request_timeout)
            if secured is not None:
                await _Connection(secured, handler, limits).run()

    await serve_connections(listener, serve)


async def _start_tls(stream: ByteStream, tls: ssl.SSLContext, timeout: float) -> ByteStream | None:
    try:
        with anyio.fail_after(timeout):
            return await start_tls(stream, tls, server_side=True)
    except TimeoutError:
        _logger.debug("a peer did not finish its TLS handshake in %s s", timeout)
    except (anyio.EndOfStream, *PEER_GONE) as error:  # ssl.SSLError is an OSError
        _logger.debug("a peer failed in its TLS handshake: %r", error)
    return None


@dataclass(frozen=True, slots=True)
class _Limits:
    max_body_size: int
    request_timeout: float
    too_large_codes: Mapping[str, str] = field(default_factory=dict[str, str])


class _Connection:
    """One connection: requests in turn, each answered before the next is read."""

    def __init__(self, stream: ByteStream, handler: Handler, limits: _Limits) -> None:
        self._stream = stream
        self._handler = handler
        self._limits = limits
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEADER_SIZE)
        self._method = ""

    async def run(self) -> None:
        try:
            while await self._wait_for_request() and await self._exchange():
                self._http.start_next_cycle()
        except TimeoutError:
            _logger.debug("a peer did not take its HTTP response in %s s", self._limits.request_timeout)
        except PEER_GONE as error:
            _logger.debug("a peer vanished from its HTTP connection: %r", error)

    async def _wait_for_request(self) -> bool:
        """Wait, however long, for the first byte; False when the peer closes instead."""
        if self._http.trailing_data[0]:
            return True
        await self._receive()
        return bool(self._http.trailing_data[0])

    async def _exchange(self) -> bool:
        """Read one request and answer it; False when the connection has to end."""
        complete = False
        try:
            with anyio.fail_after(self._limits.request_timeout):
                request = await self._read_request()
            complete = True
        except TimeoutError:
            response = error_response(HTTPStatus.REQUEST_TIMEOUT, "REQUEST_TIMEOUT")
        except h11.RemoteProtocolError as error:
            response = error_response(error.error_status_hint, "BAD_REQUEST")
        except Refusal as refusal:
            response = error_response(refusal.status, refusal.code)
        else:
            response = await self._answer(request)
        with anyio.fail_after(self._limits.request_timeout):
            await self._send_response(response, close=not complete)
        if not complete:
            await linger(self._stream)
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    async def _read_request(self) -> Request:
        head = await self._next_event()
        if not isinstance(head, h11.Request):
            raise h11.RemoteProtocolError(f"expected a request, got {type(head).__name__}")
        self._method = head.method.decode("ascii")
        headers = {name.decode("ascii"): value.decode("latin-1") for name, value in head.headers}
        path, query = parse_target(head.target.decode("ascii"))
        # h11 has checked that the length is a number.
        self._check_body_size(int(headers.get("content-length", "0")), path)
        body = bytearray()
        while isinstance(event := await self._next_event(), h11.Data):
            body += event.data
            self._check_body_size(len(body), path)
        return Request(self._method, path, query, headers, bytes(body))

    def _check_body_size(self, size: int, path: str) -> None:
        if size > self._limits.max_body_size:
            code = self._limits.too_large_codes.get(path, "BODY_TOO_BIG")
            raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, code)

    async def _next_event(self) -> h11.Event | type[h11.NEED_DATA | h11.PAUSED]:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                await self._send(h11.InformationalResponse(status_code=100, headers=[], reason="Continue"))
            await self._receive()
        return event

    async def _receive(self) -> None:
        try:
            data = await self._stream.receive(_RECEIVE_SIZE)
        except anyio.EndOfStream:
            data = b""
        self._http.receive_data(data)

    async def _answer(self, request: Request) -> Response:
        try:
            return await self._handler(request)
        except Refusal as refusal:
            return error_response(refusal.status, refusal.code)
        except Exception:
            # Like nsqd, which keeps serving when a handler panics.
            _logger.exception("the handler of %s %s failed", request.method, request.path)
            return error_response(HTTPStatus.INTERNAL_SERVER_ERROR, "INTERNAL_ERROR")

    async def _send_response(self, response: Response, *, close: bool) -> None:
        headers = [
            *response.headers,
            ("Date", formatdate(usegmt=True)),
            ("Content-Length", str(len(response.body))),
        ]
        if close:
            headers.append(("Connection", "close"))
        reason = HTTPStatus(response.status).phrase
        head = h11.Response(status_code=response.status, headers=headers, reason=reason)
        # The answer to HEAD has the length of a body and none of its bytes.
        body = b"" if self._method == "HEAD" else response.body
        await self._send(head, h11.Data(data=body), h11.EndOfMessage())

    async def _send(self, *events: h11.Event) -> None:
        await self._stream.send(b"".join([self._http.send(event) or b"" for event in events]))
