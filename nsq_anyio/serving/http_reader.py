"""The reader of one HTTP request: first its head, then as much of its body as the handler wants.

h11 parses the head. Input on which its patterns would take quadratic time is refused before that. The body is
parsed here: h11 makes an event of every chunk, and its pattern for chunk extensions takes quadratic time.
"""

from __future__ import annotations

import re
from http import HTTPStatus

import anyio
import h11
from anyio.abc import ByteStream

from .http_messages import BodyError, PeerVanished, Request, RequestError, Target, joined_headers
from .listener import PEER_GONE
from .places import Place

MAX_HEAD_SIZE = 64 * 1024
"""The most bytes of a request line with all headers; more are refused with 431."""

MAX_HEADERS = 200
"""The most headers of a request; more are refused with 431."""

RECEIVE_SIZE = 64 * 1024

_MAX_DISCARDED = 256 * 1024
"""The most bytes of an unread body to skip so that the connection can stay open; as in Go's server."""

_MAX_CHUNK_LINE = 4096
"""The most bytes that are kept of a line between chunks until its end arrives."""

_HEAD_END = re.compile(rb"\n\r?\n")
_NOT_IN_HEAD = re.compile(rb"[\0\v\f]|\r(?!\n)")
_CHUNK_LINE = re.compile(rb"([0-9a-fA-F]{1,16})[ \t]*(?:;[^\r\n]*)?")
_ESCAPES = {code: f"%{code:02X}" for code in range(0x80, 0x100)}


class RequestReader:
    """Reads one request.

    :param unread: bytes of this request that were already received
    :param timeout: the seconds from the first byte of the request to its last
    :param place: the place of the connection, which is idle while it waits for bytes
    :ivar is_http_1_0: whether the peer speaks HTTP/1.0
    :ivar keep_alive: whether the peer wants the connection to stay open
    :ivar fields: the headers in order, the names in lower case
    :ivar raw_target: the target of the request line
    """

    def __init__(self, stream: ByteStream, unread: bytes, timeout: float, place: Place) -> None:
        self.is_http_1_0: bool = False
        self.keep_alive: bool = False
        self.fields: tuple[tuple[bytes, bytes], ...] = ()
        self.raw_target: bytes = b""
        self._stream = stream
        self._unread = unread
        self._timeout = timeout
        self._place = place
        self._deadline = 0.0
        self._expects_continue = False
        self._left: int | None = 0
        self._chunks = _Chunks()
        self._failed = False

    @property
    def unread(self) -> bytes:
        """The bytes received after this request, once all of it was read."""
        return self._unread

    async def begins(self, idle_timeout: float) -> bool:
        """Wait for the first byte; return False if none comes within ``idle_timeout`` seconds, or at all."""
        if not self._unread:
            self._deadline = anyio.current_time() + idle_timeout
            try:
                self._unread = await self._receive()
            except RequestError:
                return False
        self._deadline = anyio.current_time() + self._timeout
        return bool(self._unread)

    async def read_head(self) -> Request:
        """Read up to the body.

        :raises RequestError: if the request is not valid, is too long, or does not arrive in time
        """
        http = h11.Connection(h11.SERVER)
        http.receive_data(_escaped(await self._receive_head()))
        try:
            head = http.next_event()
        except h11.RemoteProtocolError as error:
            raise RequestError(HTTPStatus(error.error_status_hint)) from None
        if not isinstance(head, h11.Request):
            raise RequestError(HTTPStatus.BAD_REQUEST)
        if not head.http_version.startswith(b"1."):
            raise RequestError(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
        self.is_http_1_0 = head.http_version == b"1.0"
        self.fields, self.raw_target = tuple(head.headers), head.target
        headers = joined_headers(self.fields)
        wishes = _tokens(headers.get("connection", ""))
        self.keep_alive = "keep-alive" in wishes if self.is_http_1_0 else "close" not in wishes
        length = None if "transfer-encoding" in headers else int(headers.get("content-length", "0"))
        self._left = length
        expected = headers.get("expect", "")
        if expected and "100-continue" not in _tokens(expected):
            raise RequestError(HTTPStatus.EXPECTATION_FAILED)
        self._expects_continue = bool(expected) and not self.is_http_1_0 and length != 0
        method, text = head.method.decode("ascii"), head.target.decode("ascii")
        # CONNECT names a host, and no handler serves one.
        target = Target("") if method == "CONNECT" and not text.startswith("/") else Target.parse(text)
        return Request(method, target, headers, content_length=length, next_piece=self._next_piece)

    async def finish(self) -> bool:
        """Skip the unread rest of the body; return False if the connection has to end instead."""
        if self._failed or not self.keep_alive or self._expects_continue:
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

    async def _receive_head(self) -> bytes:
        head, searched = bytearray(self._unread), 0
        while (end := _HEAD_END.search(head, searched)) is None and len(head) <= MAX_HEAD_SIZE:
            searched = max(0, len(head) - 2)
            # A space begins nsqd's protocol, and a control character TLS: such clients wait for an answer.
            if head[0] <= ord(" ") or not (received := await self._receive()):
                raise RequestError(HTTPStatus.BAD_REQUEST)
            head += received
        size = len(head) if end is None else end.end()
        if size > MAX_HEAD_SIZE or head.count(b"\n", 0, size) > MAX_HEADERS + 2:
            raise RequestError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        if _NOT_IN_HEAD.search(head, 0, size):
            raise RequestError(HTTPStatus.BAD_REQUEST)
        self._unread = bytes(head[size:])
        return bytes(head[:size])

    async def _next_piece(self) -> bytes:
        if self._expects_continue and self._left != 0:
            self._expects_continue = False
            await self._send(b"HTTP/1.1 100 Continue\r\n\r\n")
        try:
            while self._left != 0:
                if not self._unread:
                    self._unread = await self._receive()
                    if not self._unread:
                        raise BodyError
                if self._left is None:
                    piece, self._unread = self._chunks.decode(self._unread)
                    if self._chunks.have_ended:
                        self._left = 0
                else:
                    piece, self._unread = self._unread[: self._left], self._unread[self._left :]
                    self._left -= len(piece)
                if piece:
                    return piece
        except RequestError:
            self._failed = True
            raise
        return b""

    async def _receive(self) -> bytes:
        """Receive bytes; return b"" if the peer sends no more."""
        with self._place.idle(), anyio.move_on_after(self._deadline - anyio.current_time()):
            try:
                return await self._stream.receive(RECEIVE_SIZE)
            except anyio.EndOfStream:
                return b""
            except PEER_GONE as error:
                raise PeerVanished(repr(error)) from None
        raise RequestError(HTTPStatus.REQUEST_TIMEOUT)

    async def _send(self, data: bytes) -> None:
        try:
            with self._place.idle(), anyio.fail_after(self._deadline - anyio.current_time()):
                await self._stream.send(data)
        except PEER_GONE as error:  # TimeoutError is one of them
            raise PeerVanished(repr(error)) from None


class _Chunks:
    """Decodes a chunked body.

    :ivar have_ended: whether the last chunk and its trailers, which are ignored, were decoded
    """

    def __init__(self) -> None:
        self.have_ended: bool = False
        self._size = 0
        self._left = 0
        self._line = b""
        self._is_last = False

    def decode(self, data: bytes) -> tuple[bytes, bytes]:
        """Return what ``data`` adds to the body, and what follows the body.

        :raises BodyError: if the chunks are malformed
        """
        data, self._line = self._line + data, b""
        pieces: list[bytes] = []
        at = 0
        while not self.have_ended:
            if self._left:
                pieces.append(data[at : at + self._left])
                at += len(pieces[-1])
                self._left -= len(pieces[-1])
            end = data.find(b"\r\n", at)
            if self._left or end < 0:
                break
            self._take_line(data[at:end])
            at = end + 2
        if not self.have_ended:
            self._line, at = data[at:], len(data)
            if len(self._line) > _MAX_CHUNK_LINE:
                raise BodyError
        return b"".join(pieces), data[at:]

    def _take_line(self, line: bytes) -> None:
        if self._is_last:
            self.have_ended = not line
        elif self._size:  # the end of a chunk's data
            self._size = 0
            if line:
                raise BodyError
        elif match := _CHUNK_LINE.fullmatch(line):
            self._size = self._left = int(match[1], 16)
            self._is_last = not self._size
        else:
            raise BodyError


def _escaped(head: bytes) -> bytes:
    """Escape the bytes of the target that are not ASCII: Go accepts them, and h11 does not."""
    line, newline, rest = head.partition(b"\n")
    method, space, behind = line.partition(b" ")
    target, last_space, version = behind.rpartition(b" ")
    target = target.decode("latin-1").translate(_ESCAPES).encode("ascii")
    return method + space + target + last_space + version + newline + rest


def _tokens(value: str) -> set[str]:
    return {token.strip().lower() for token in value.split(",")}
