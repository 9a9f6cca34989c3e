"""A connection that speaks HTTP/1.1."""

from __future__ import annotations

import select
import socket
import ssl
import sys

import anyio
import h11
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSAttribute

from .exchange import KEEP_ALIVE, Exchange, NoAnswer

__all__ = ["HTTP1Connection"]

_MAX_HEAD = 1024 * 1024
"""The most bytes of an answer's head, or of a line that frames its body."""

_TAKEN_AT_ONCE = 16 * 1024
"""The most bytes that fit the socket's buffer before the server has read any."""


class HTTP1Connection:
    """Carries one exchange after the other.

    It uses h11 directly, because h11's clients do not reveal unexpected bytes after an answer. A connection
    with such bytes cannot be reused: they would be taken for the answer to the next request.
    """

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._h11 = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD)
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
            and anyio.current_time() < self._kept_until
            and not _is_readable(self._stream.extra(SocketAttribute.raw_socket))  # noqa: S610 - AnyIO's
            and not _has_decrypted(self._stream.extra(TLSAttribute.ssl_object, None))  # noqa: S610
        )

    async def carry(self, exchange: Exchange) -> None:
        """Send the request, record the answer's status, and read and discard its body.

        An error in the body is ignored: the status alone decides.

        :raises NoAnswer: if no status arrived
        """
        self._is_kept = self._is_sent = self._has_received = False
        data = self._request(exchange)
        if len(data) <= _TAKEN_AT_ONCE:
            await self._send(data)
            await self._receive_answer(exchange)
        else:
            await self._receive_answer_while_sending(data, exchange)

    async def aclose(self) -> None:
        """Close the connection at once, without waiting for the server."""
        await anyio.aclose_forcefully(self._stream)

    def _request(self, exchange: Exchange) -> bytes:
        head = h11.Request(method=exchange.method, target=exchange.target, headers=list(exchange.headers))
        events: list[h11.Event] = [head, h11.Data(data=exchange.body), h11.EndOfMessage()]
        return b"".join(self._h11.send(event) or b"" for event in events)

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
        event = await self._next_event()
        while isinstance(event, h11.InformationalResponse):
            event = await self._next_event()
        if not isinstance(event, h11.Response):
            raise self._no_answer("the server closed the connection without an answer")
        exchange.answer_headers = event.headers.raw_items()
        exchange.status = event.status_code
        try:
            while not isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
                event = await self._next_event()
        except NoAnswer:
            return
        self._keep_if_clean()

    def _keep_if_clean(self) -> None:
        state = self._h11
        is_done = state.our_state is h11.DONE and state.their_state is h11.DONE
        if self._is_sent and is_done and state.trailing_data == (b"", False):
            state.start_next_cycle()
            self._is_kept = True
            self._kept_until = anyio.current_time() + KEEP_ALIVE

    async def _next_event(self) -> h11.Event:
        while True:
            try:
                event = self._h11.next_event()
            except h11.RemoteProtocolError as error:
                raise self._no_answer(str(error)) from error
            if not isinstance(event, type):
                return event
            # h11.PAUSED comes only after an answer, where no event is requested.
            self._h11.receive_data(await self._receive())

    async def _receive(self) -> bytes:
        """Receive the next bytes; return none at the end."""
        try:
            data = await self._stream.receive()
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
