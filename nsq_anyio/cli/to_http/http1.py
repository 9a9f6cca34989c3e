"""An HTTP/1.1 connection."""

from __future__ import annotations

import select
import socket
import ssl
import sys
from time import monotonic

import anyio
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSAttribute

from .exchange import KEEP_ALIVE, Exchange, NoAnswer
from .http1_parser import AnswerParser, BadAnswer

_RECEIVED_AT_ONCE = 16 * 1024
"""The most bytes to receive at once; few answers are longer."""

_TAKEN_AT_ONCE = 16 * 1024
"""Bytes that fit the socket's buffer even if the server reads nothing."""


class HTTP1Connection:
    """Carries one exchange after another.

    A connection is kept only if nothing follows a whole answer. Further bytes would be read as the answer to
    the next request.
    """

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._socket = stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - AnyIO's
        self._tls: ssl.SSLObject | None = stream.extra(TLSAttribute.ssl_object, None)  # noqa: S610
        self._is_sent = False
        self._has_received = False
        self._is_kept = False
        self._kept_until = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether the connection is between two exchanges."""
        return self._is_kept

    def can_carry_more(self) -> bool:
        """Return whether the connection is idle, open, and free of unexpected bytes from the server."""
        return (
            self._is_kept
            and monotonic() < self._kept_until
            and not _is_readable(self._socket)
            and not _has_decrypted(self._tls)
        )

    async def carry(self, exchange: Exchange) -> None:
        """Send the request, record the answer's status, and read and discard its body.

        An error in the body is ignored: the status alone decides.

        :raises NoAnswer: if no status arrived
        """
        self._is_kept = self._is_sent = self._has_received = False
        data = exchange.as_http1()
        if len(data) <= _TAKEN_AT_ONCE:
            await self._send(data)
            await self._receive_answer(exchange)
        else:
            await self._receive_answer_while_sending(data, exchange)

    async def aclose(self) -> None:
        """Close the connection at once, without waiting for the server."""
        await anyio.aclose_forcefully(self._stream)

    async def _send(self, data: bytes) -> None:
        try:
            await self._stream.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return  # a server that rejects a request early may have answered before it hung up
        self._is_sent = True

    async def _receive_answer_while_sending(self, data: bytes, exchange: Exchange) -> None:
        """Read while sending: a server may answer a large message early, and never read the rest."""
        failure: NoAnswer | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._send, data)
            try:
                await self._receive_answer(exchange)
            except NoAnswer as error:
                failure = error
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _receive_answer(self, exchange: Exchange) -> None:
        answer = AnswerParser()
        data = b""
        try:
            while not answer.is_complete:
                data = await self._receive()
                try:
                    if data:
                        answer.feed(data)
                    else:
                        answer.feed_end()
                finally:  # the same bytes may hold the status, and an error in the body
                    exchange.status, exchange.answer_headers = answer.status, answer.headers
        except BadAnswer as error:
            if answer.status is None:
                raise self._no_answer(str(error)) from error
        except NoAnswer:
            if answer.status is None:
                raise
        else:
            # After a full receive, AnyIO's own streams may hold further bytes, which nothing here would see.
            is_last = len(data) < _RECEIVED_AT_ONCE
            self._is_kept = self._is_sent and answer.leaves_reusable and is_last
            self._kept_until = monotonic() + KEEP_ALIVE

    async def _receive(self) -> bytes:
        """Receive the next bytes; return none at the end."""
        try:
            data = await self._stream.receive(_RECEIVED_AT_ONCE)
        except anyio.EndOfStream:
            return b""
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            # The cause may be a TLS alert, such as the one that rejects a client's certificate.
            raise self._no_answer(str(error.__cause__ or "the connection broke")) from error
        self._has_received = True
        return data

    def _no_answer(self, reason: str) -> NoAnswer:
        return NoAnswer(reason, unheard=not self._has_received)


def _is_readable(sock: socket.socket) -> bool:
    """Return whether bytes or the end of the stream have arrived."""
    if sys.platform == "win32":
        return bool(select.select([sock], [], [], 0)[0])
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def _has_decrypted(tls: ssl.SSLObject | None) -> bool:
    """Return whether TLS buffers bytes, or the end of the stream, that arrived with earlier bytes."""
    if tls is None:
        return False
    try:
        tls.read(1)
    except ssl.SSLWantReadError:
        return False
    except ssl.SSLError:
        pass
    return True
