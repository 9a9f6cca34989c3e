"""A byte stream directly on a non-blocking socket.

AnyIO's own stream can send only from a task. This one can also send at once, from a plain function. When few
messages are in flight, each costs a round trip, and a third of it was the wait for the writer task (RDY 1,
both backends).
"""

from __future__ import annotations

import errno
import math
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
from anyio.abc import ByteStream, SocketAttribute, SocketStream
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from .asyncio_readable import AsyncioReadable
from .unacknowledged import unacknowledged

__all__ = ["DirectSocketStream"]

_LIKELY_MORE = 32 * 1024
"""After receiving this many bytes, more have likely arrived: to try at once is cheaper than to wait first."""


class DirectSocketStream(ByteStream):
    """A connected socket; one task may receive while another sends.

    :param write_timeout: seconds after which a send fails if the peer accepts no bytes
    """

    def __init__(
        self, sock: socket.socket, attributes: Mapping[Any, Callable[[], Any]], write_timeout: float
    ) -> None:
        self._socket = sock
        self._attributes = attributes
        self._write_timeout = write_timeout
        self._closed = False
        self._likely_more = False
        self._readable = AsyncioReadable.where_possible(sock)

    @classmethod
    async def taking_over(cls, stream: SocketStream, write_timeout: float = math.inf) -> DirectSocketStream:
        """Take over the connection of a stream that has received nothing yet, and close that stream.

        :raises OSError: if the peer has vanished, or there is no free file descriptor; then the stream is
            closed
        """
        try:
            # The event loop closes the stream's descriptor; the connection stays open in a copy of it.
            sock, attributes = _copy(stream)
        except BaseException:
            await anyio.aclose_forcefully(stream)
            raise
        try:
            await anyio.aclose_forcefully(stream)
        except BaseException:
            sock.close()
            raise
        return cls(sock, attributes, write_timeout)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Wait for bytes, and return 1 to ``max_bytes`` of them.

        :raises anyio.EndOfStream: if the peer sends no more
        :raises anyio.BrokenResourceError: if the connection broke
        :raises anyio.ClosedResourceError: if the stream was closed on this side
        """
        if self._closed:
            raise anyio.ClosedResourceError
        try:
            data = await self._receive(max_bytes)
        except OSError as error:
            raise self._broken() from error
        if not data:
            raise anyio.EndOfStream
        self._likely_more = len(data) >= _LIKELY_MORE
        return data

    async def _receive(self, max_bytes: int) -> bytes:
        if self._likely_more:
            await checkpoint()
            try:
                return self._socket.recv(max_bytes)
            except BlockingIOError:
                self._likely_more = False
        if self._readable is not None:
            return await self._readable.receive(max_bytes)
        while True:
            await self._wait(anyio.wait_readable)
            try:
                return self._socket.recv(max_bytes)
            except BlockingIOError:
                continue

    async def send(self, item: bytes) -> None:
        """Send all bytes of ``item``.

        :raises TimeoutError: if the peer accepts no bytes for ``write_timeout`` seconds
        :raises anyio.BrokenResourceError: if the connection broke
        :raises anyio.ClosedResourceError: if the stream was closed on this side
        """
        await checkpoint_if_cancelled()
        rest = memoryview(item)
        while rest:
            sent: list[int] = []
            self.send_now(rest, sent)
            rest = rest[sum(sent) :]
            if rest:
                await self._wait_writable()

    async def _wait_writable(self) -> None:
        left = unacknowledged(self._socket)
        while True:
            with anyio.move_on_after(self._write_timeout):
                await self._wait(anyio.wait_writable)
                return
            # The system waits until a third of its buffer is free, which may be megabytes. On a slow network
            # the peer may have taken many bytes meanwhile.
            if self._closed:
                raise anyio.ClosedResourceError
            before, left = left, unacknowledged(self._socket)
            if left >= before:
                raise TimeoutError

    def send_now(self, item: bytes | memoryview, sent: list[int]) -> None:
        """Send as much as the system accepts without waiting.

        :param sent: the number of sent bytes is appended to it. A signal handler may raise right after the
            system call, and a returned number would be lost
        :raises anyio.BrokenResourceError: if the connection broke
        :raises anyio.ClosedResourceError: if the stream was closed on this side
        """
        try:
            sent.extend(map(self._socket.send, (item,)))  # all in C, where no signal handler runs
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno is None:
                raise  # from a signal handler, such as a TimeoutError: errors of the system have an errno
            raise self._broken() from error

    async def send_eof(self) -> None:
        """End the outgoing side.

        :raises anyio.BrokenResourceError: if the connection broke
        :raises anyio.ClosedResourceError: if the stream was closed on this side
        """
        await checkpoint_if_cancelled()
        self.send_eof_now()

    def send_eof_now(self) -> None:
        """`send_eof`, from a plain function."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise self._broken() from error

    async def aclose(self) -> None:
        """Close the socket; tasks that wait on it get `anyio.ClosedResourceError`."""
        if not self._closed:
            self._closed = True
            if self._readable is not None:
                self._readable.close()
            anyio.notify_closing(self._socket)
            self._socket.close()
        await checkpoint()

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        """The attributes of AnyIO's socket stream, as they were when the connection was made."""
        return self._attributes

    async def _wait(self, ready: Callable[[socket.socket], Awaitable[None]]) -> None:
        if self._closed:
            raise anyio.ClosedResourceError
        await ready(self._socket)

    def _broken(self) -> Exception:
        return anyio.ClosedResourceError() if self._closed else anyio.BrokenResourceError()


def _copy(stream: SocketStream) -> tuple[socket.socket, dict[Any, Callable[[], Any]]]:
    try:
        read = stream.extra_attributes
        values = {attribute: value() for attribute, value in read.items()}
        original = values[SocketAttribute.raw_socket]
    except AttributeError:  # AnyIO uses the socket, which is None in a transport that uvloop has closed
        raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)) from None
    sock = original.dup()
    sock.setblocking(False)
    values[SocketAttribute.raw_socket] = sock
    return sock, {attribute: _constantly(value) for attribute, value in values.items()}


def _constantly(value: object) -> Callable[[], object]:
    return lambda: value
