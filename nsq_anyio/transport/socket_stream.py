"""A byte stream directly on a non-blocking socket.

AnyIO's own stream sends only from a task. This stream also sends at once, from a plain function. When few
messages are in flight, each costs a round trip, and a third of it was the wait for the writer task (RDY 1,
both backends). A plain function can also send the last bytes when no task can run any more.
"""

from __future__ import annotations

import errno
import math
import os
import select
import socket
import struct
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import ByteStream, SocketAttribute, SocketStream
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from .asyncio_backend import AsyncioReadable
from .event_loop import continues_in_callbacks, on_asyncio
from .layer import Layer

if TYPE_CHECKING:
    from .trio_backend import TrioReadable


_LIKELY_MORE = 32 * 1024
"""After this many bytes, more have likely arrived: an immediate attempt is cheaper than a wait."""

_INT = struct.Struct("i")


class DirectSocketStream(ByteStream):
    """A connected socket; one task may receive while another sends.

    :param write_timeout: seconds after which a send fails if the peer accepts no bytes
    """

    def __init__(
        self, sock: socket.SocketType, attributes: Mapping[Any, Callable[[], Any]], write_timeout: float
    ) -> None:
        self._socket = sock
        self._attributes = attributes
        self._write_timeout = write_timeout
        self._closed = False
        self._likely_more = False
        self._readable = readable(sock)
        self._poll: Callable[[int], list[tuple[int, int]]] | None = None

    @classmethod
    async def taking_over(cls, stream: SocketStream, write_timeout: float = math.inf) -> DirectSocketStream:
        """Take over the connection of a stream that has received nothing yet, and close that stream.

        :raises OSError: if the peer has vanished, or there is no free file descriptor; then the stream is
            closed
        """
        copies: list[socket.SocketType] = []
        try:
            try:
                # The event loop closes the stream's descriptor; the connection stays open in a copy of it.
                attributes = _copy(stream, copies)
            finally:
                await anyio.aclose_forcefully(stream)
        except BaseException:
            for sock in copies:
                sock.close()
            raise
        return cls(copies[0], attributes, write_timeout)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Wait for bytes, and return 1 to ``max_bytes`` of them.

        :raises anyio.EndOfStream: if the peer sends no more
        :raises anyio.BrokenResourceError: if the connection broke
        :raises anyio.ClosedResourceError: if the stream was closed on this side
        """
        if self._closed:
            raise anyio.ClosedResourceError
        try:
            if self._likely_more:
                data = await self._receive_more(max_bytes)
            else:
                data = await self._readable.receive(max_bytes)
        except OSError as error:
            raise self._broken() from error
        if not data:
            raise anyio.EndOfStream
        self._likely_more = len(data) >= _LIKELY_MORE
        return data

    async def _receive_more(self, max_bytes: int) -> bytes:
        await checkpoint()
        try:
            return self._socket.recv(max_bytes)
        except BlockingIOError:
            self._likely_more = False
            return await self._readable.receive(max_bytes)

    def receive_soon(self, max_bytes: int, seconds: float, received: list[bytes]) -> float:
        """Receive within ``seconds``, without the event loop, while a task waits in `receive`.

        :param received: the bytes are appended to it, in one piece. The end of the stream and errors are left
            to `receive`
        :return: the seconds of the last yield of this core to other processes
        """
        if self._closed or self._readable.holds_bytes:
            return 0.0
        if self._poll is None:
            poller = select.poll()
            poller.register(self._socket, select.POLLIN | getattr(select, "POLLRDHUP", 0))
            self._poll = poller.poll
        poll = self._poll
        yielded, now = 0.0, perf_counter()
        until, is_over = now + seconds, False
        while not (events := poll(0)):
            if is_over:
                break
            os.sched_yield()  # on a single core, this lets nsqd run
            before, now = now, perf_counter()
            yielded, is_over = now - before, now > until
        if events and events[0][1] == select.POLLIN:
            try:
                received.extend(map(self._socket.recv, (max_bytes,)))  # all in C: no signal handler runs
            except OSError as error:  # such as a reset that has come since
                if error.errno is None:
                    raise  # from a signal handler: errors of the system have an errno
        return yielded

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
                await anyio.wait_writable(self._socket)
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
        """End the outgoing side from a plain function. Raises as `send_eof` does."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise self._broken() from error

    async def aclose(self) -> None:
        """Close the socket; tasks that wait on it get `anyio.ClosedResourceError`."""
        if not self._closed:
            self._closed = True
            if isinstance(self._readable, AsyncioReadable):
                self._readable.close()
            anyio.notify_closing(self._socket)
            self._socket.close()
        await checkpoint()

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        """The attributes of AnyIO's socket stream when the connection was made."""
        return self._attributes

    def _broken(self) -> Exception:
        return anyio.ClosedResourceError() if self._closed else anyio.BrokenResourceError()


def readable(sock: socket.SocketType) -> AsyncioReadable | TrioReadable | AnyioReadable:
    """Return the fastest receiver of a socket on this loop."""
    if on_asyncio():
        return AsyncioReadable(sock) if continues_in_callbacks() else AnyioReadable(sock)
    from .trio_backend import TrioReadable  # noqa: PLC0415 - an extra

    return TrioReadable(sock)


def _copy(stream: SocketStream, copies: list[socket.SocketType]) -> dict[SocketAttribute, Callable[[], Any]]:
    """Return the stream's attributes, and append a copy of its socket to ``copies``.

    A signal handler may raise right after the system call, and a returned copy would stay open for ever.
    """
    try:
        read = stream.extra_attributes
        values = {attribute: value() for attribute, value in read.items()}
        original = values[SocketAttribute.raw_socket]
    except AttributeError:  # AnyIO uses the socket, which is None in a transport that uvloop has closed
        raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)) from None
    descriptors = map(socket.dup, (original.fileno(),))
    kind = (original.family,), (original.type,), (original.proto,)
    copies.extend(map(socket.SocketType, *kind, descriptors))  # all in C, where no signal handler runs
    copies[0].setblocking(False)
    values[SocketAttribute.raw_socket] = copies[0]
    return {attribute: _constantly(value) for attribute, value in values.items()}


def _constantly(value: object) -> Callable[[], object]:
    return lambda: value


if sys.platform == "linux":
    import fcntl
    import termios

    def unacknowledged(sock: socket.SocketType) -> int:
        """Return the number of bytes that the system holds for the peer; 0 where it is not known."""
        (count,) = _INT.unpack(fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(_INT.size)))
        return int(count)

else:

    def unacknowledged(sock: socket.SocketType) -> int:  # noqa: ARG001
        """Return the number of bytes that the system holds for the peer; 0 where it is not known."""
        return 0


class AnyioReadable:
    """Waits for a socket on any event loop, and receives from it. `anyio.notify_closing` ends the wait."""

    holds_bytes = False
    """Never: the task that waits receives them itself."""

    def __init__(self, sock: socket.SocketType) -> None:
        self._socket = sock

    async def receive(self, max_bytes: int) -> bytes:
        """Wait for bytes and return them; b"" at the end of the stream.

        :raises OSError: if the connection broke
        :raises anyio.ClosedResourceError: if the socket was closed meanwhile
        :raises anyio.BusyResourceError: if another task is already waiting
        """
        while True:
            await anyio.wait_readable(self._socket)
            try:
                return self._socket.recv(max_bytes)
            except BlockingIOError:
                continue  # it was not readable after all


def last_send(stream: ByteStream) -> Callable[[bytes, list[int]], None] | None:
    """Return the ``send_now`` of ``stream``; None unless a `DirectSocketStream` is below all layers.

    Use it only at the end of a connection: with TLS or compression, nothing can follow an incomplete send.
    """
    if isinstance(stream, DirectSocketStream | Layer) and _socket_below(stream):
        return stream.send_now
    return None


def end_now(stream: ByteStream) -> None:
    """End the outgoing side of the socket below all layers; do nothing without a socket or if it is closed.

    nsqd handles all commands before the end of the stream, whichever layer ends.
    """
    if (sock := _socket_below(stream)) is not None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            sock.send_eof_now()


def _socket_below(stream: ByteStream) -> DirectSocketStream | None:
    while isinstance(stream, Layer):
        stream = stream.below
    return stream if isinstance(stream, DirectSocketStream) else None
