"""Reads one HTTP request from a stream: first its head, then as much of its body as the handler wants.

h11 parses the bytes. Each request has its own h11 connection, because h11 keeps no HTTP/1.0 connection open.
"""

from __future__ import annotations

import re
from http import HTTPStatus

import anyio
import h11
from anyio.abc import ByteStream

from .http_messages import BodyError, PeerVanished, Request, RequestError, Target
from .listener import PEER_GONE

__all__ = ["MAX_HEADER_SIZE", "RECEIVE_SIZE", "RequestReader"]

MAX_HEADER_SIZE = 1024 * 1024 + 4096
"""The most bytes of a request line with all headers, as in Go's server; more are refused with 431."""

RECEIVE_SIZE = 64 * 1024

_MAX_DISCARDED = 256 * 1024
"""The most bytes of an unread body to skip so that the connection can stay open; as in Go's server."""

_HIGH = re.compile(rb"[\x80-\xff]")


class RequestReader:
    """Reads one request.

    :param unread: bytes of this request that were already received
    :param deadline: when the whole request must have arrived, on the clock of `anyio.current_time`
    :ivar is_http_1_0: whether the peer speaks HTTP/1.0
    :ivar keep_alive: whether the peer wants the connection to stay open
    :ivar fields: the headers in order, the names in lower case
    :ivar raw_target: the target of the request line
    """

    def __init__(self, stream: ByteStream, unread: bytes, deadline: float) -> None:
        self.is_http_1_0: bool = False
        self.keep_alive: bool = False
        self.fields: tuple[tuple[bytes, bytes], ...] = ()
        self.raw_target: bytes = b""
        self._stream = stream
        self._unread = unread
        self._deadline = deadline
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEADER_SIZE)
        self._expects_continue = False
        self._left: int | None = 0
        self._ended = False
        self._failed = False

    @property
    def unread(self) -> bytes:
        """The bytes received after this request, once all of it was read."""
        return self._http.trailing_data[0]

    async def read_head(self) -> Request:
        """Read up to the body.

        :raises RequestError: if the request is not valid, or does not arrive in time
        """
        await self._feed_request_line()
        head = await self._next_event()
        if not isinstance(head, h11.Request):
            raise RequestError(HTTPStatus.BAD_REQUEST)
        if not head.http_version.startswith(b"1."):
            raise RequestError(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
        self.is_http_1_0 = head.http_version == b"1.0"
        self.fields, self.raw_target = tuple(head.headers), head.target
        headers = {name.decode("ascii"): value.decode("latin-1") for name, value in head.headers}
        wishes = _tokens(headers.get("connection", ""))
        self.keep_alive = "keep-alive" in wishes if self.is_http_1_0 else "close" not in wishes
        length = None if "transfer-encoding" in headers else int(headers.get("content-length", "0"))
        self._left = length
        self._expects_continue = self._http.they_are_waiting_for_100_continue and length != 0
        expected = headers.get("expect", "")
        if expected and "100-continue" not in _tokens(expected):
            raise RequestError(HTTPStatus.EXPECTATION_FAILED)
        method, text = head.method.decode("ascii"), head.target.decode("ascii")
        # CONNECT names a host, and no handler serves one.
        target = Target("") if method == "CONNECT" and not text.startswith("/") else Target.parse(text)
        return Request(method, target, headers, content_length=length, next_piece=self._next_piece)

    async def finish(self) -> bool:
        """Skip the unread rest of the body; return False if the connection has to end instead."""
        if self._failed or not self.keep_alive or (self._expects_continue and not self._ended):
            return False
        if self._left is not None and self._left >= _MAX_DISCARDED:
            return False
        discarded = 0
        try:
            while piece := await self._next_piece():
                discarded += len(piece)
                if discarded > _MAX_DISCARDED:
                    return False
        except RequestError:
            return False
        return True

    async def _feed_request_line(self) -> None:
        """Pass the request line to h11, with escapes: Go takes any byte in a target, h11 only ASCII."""
        line = bytearray(self._unread)
        is_complete = b"\n" in line
        while not is_complete and len(line) <= MAX_HEADER_SIZE:
            received = await self._receive()
            line += received
            is_complete = not received or b"\n" in received
        first, newline, rest = bytes(line).partition(b"\n")
        method, space, behind = first.partition(b" ")
        target, last_space, version = behind.rpartition(b" ")
        target = _HIGH.sub(lambda match: b"%%%02X" % match[0][0], target)
        self._http.receive_data(method + space + target + last_space + version + newline + rest)

    async def _next_piece(self) -> bytes:
        if self._ended:
            return b""
        if self._http.they_are_waiting_for_100_continue and self._expects_continue:
            answer = h11.InformationalResponse(status_code=100, headers=[], reason="Continue")
            await self._send(self._http.send(answer) or b"")
        try:
            event = await self._next_event()
        except RequestError as error:
            self._failed = True
            if error.status is HTTPStatus.REQUEST_TIMEOUT:
                raise
            raise BodyError from None
        if not isinstance(event, h11.Data):
            self._ended = True
            return b""
        piece = bytes(event.data)
        if self._left is not None:
            self._left -= len(piece)
        return piece

    async def _next_event(self) -> h11.Event | type[h11.NEED_DATA | h11.PAUSED]:
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(await self._receive())
        except h11.RemoteProtocolError as error:
            raise RequestError(HTTPStatus(error.error_status_hint)) from None
        return event

    async def _receive(self) -> bytes:
        """Receive bytes; return b"" if the peer sends no more."""
        with anyio.move_on_after(self._deadline - anyio.current_time()):
            try:
                return await self._stream.receive(RECEIVE_SIZE)
            except anyio.EndOfStream:
                return b""
            except PEER_GONE as error:
                raise PeerVanished(repr(error)) from None
        self._failed = True
        raise RequestError(HTTPStatus.REQUEST_TIMEOUT)

    async def _send(self, data: bytes) -> None:
        try:
            with anyio.fail_after(self._deadline - anyio.current_time()):
                await self._stream.send(data)
        except PEER_GONE as error:  # TimeoutError is one of them
            raise PeerVanished(repr(error)) from None


def _tokens(value: str) -> set[str]:
    return {token.strip().lower() for token in value.split(",")}
