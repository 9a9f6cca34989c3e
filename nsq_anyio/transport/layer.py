"""Streams over another stream: the base of TLS and compression, timed sends, and the half-close.

TLS and compression have modules of their own because they take long to import, and few connections need them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import anyio
from anyio.abc import ByteStream

_PIECE = 64 * 1024
"""The size of a piece in bytes. The timeout is for each piece, because a send can have any size."""


class Layer(ByteStream):
    """A stream over another one."""

    @property
    @abstractmethod
    def below(self) -> ByteStream:
        """The inner stream."""

    @abstractmethod
    def send_now(self, item: bytes, sent: list[int]) -> None:
        """Send all of ``item`` without waiting; the inner stream must have `send_now`, too.

        If the system does not accept all of it, nothing more can be sent. So use it only for the last bytes
        of a connection.

        :param sent: the length of ``item`` is appended to it
        :raises anyio.BrokenResourceError: if the peer has vanished, an earlier send was incomplete, or the
            system did not accept all
        :raises anyio.ClosedResourceError: if the stream was closed on this side
        """


def send_all_now(stream: Any, data: bytes) -> None:
    """Send ``data`` over a stream that has `send_now`; for layers that cannot resume an incomplete send.

    :raises anyio.BrokenResourceError: if the system did not accept all of it, or the connection broke
    :raises anyio.ClosedResourceError: if the stream was closed on this side
    """
    taken: list[int] = []
    stream.send_now(data, taken)
    if sum(taken) < len(data):
        raise anyio.BrokenResourceError("the system did not accept all bytes at once")


class TimedSends(ByteStream):
    """A stream that sends over ``stream`` in pieces, each within ``timeout`` seconds.

    It detects a peer that accepts no more bytes where the stream does not report the progress of a send.
    """

    def __init__(self, stream: ByteStream, timeout: float) -> None:
        self._stream = stream
        self._timeout = timeout

    async def receive(self, max_bytes: int = 65536) -> bytes:
        return await self._stream.receive(max_bytes)

    async def send(self, item: bytes) -> None:
        """Send all bytes of ``item``.

        :raises TimeoutError: if the peer does not accept a piece in time; send nothing after that
        """
        for start in range(0, len(item), _PIECE):
            with anyio.fail_after(self._timeout):
                await self._stream.send(item[start : start + _PIECE])

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        await self._stream.aclose()

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return attributes_of(self._stream)


def attributes_of(stream: Any) -> Mapping[Any, Callable[[], Any]]:
    """Return the ``extra_attributes`` of a stream, with types that AnyIO omits."""
    attributes: Mapping[Any, Callable[[], Any]] = stream.extra_attributes
    return attributes


async def half_close(stream: ByteStream) -> None:
    """Tell the peer that nothing more will be sent; what it sends can still be received.

    :raises anyio.BrokenResourceError: if the peer has vanished, or the stream cannot half-close
    :raises anyio.ClosedResourceError: if the stream was closed on this side
    """
    try:
        await stream.send_eof()
    except (OSError, RuntimeError) as error:
        # On Trio, AnyIO raises the system's errors; on uvloop, a RuntimeError if the transport is closed
        # already. A stream of a user's dialer, such as AnyIO's own TLS, may raise NotImplementedError (a
        # RuntimeError).
        raise anyio.BrokenResourceError from error
