"""A byte stream whose bytes are compressed on their way over another one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anyio
from anyio.abc import ByteStream
from anyio.lowlevel import checkpoint

from ..protocol.compression import Codec

__all__ = ["CompressedStream"]

_MIN_READ = 65536


class CompressedStream(ByteStream):
    """``stream``, compressed in both directions by ``codec``. One task may send while another receives.

    When the inner stream ends, this one ends, even within a compressed chunk: what came before has been
    returned, and NSQ frames tell their own length, so that a cut one is noticed.

    :param received: bytes that were received from ``stream`` already
    """

    def __init__(self, stream: ByteStream, codec: Codec, received: bytes = b"") -> None:
        self._stream = stream
        self._codec = codec
        self._drained = not received  # whether the codec needs more input before it has output
        self._send_ended = False
        self._closed = False
        codec.feed(received)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Receive 1 to ``max_bytes`` decompressed bytes. Nothing is lost when it is cancelled.

        :raises ProtocolError: if the peer sent what cannot be decompressed
        :raises anyio.EndOfStream: if the peer sends no more
        :raises anyio.BrokenResourceError: if the peer has vanished
        :raises anyio.ClosedResourceError: if the stream was closed on this side
        """
        if max_bytes < 1:
            raise ValueError(f"max_bytes={max_bytes} is not valid: use 1 or more")
        while True:
            if self._drained:
                self._codec.feed(await self._stream.receive(max(max_bytes, _MIN_READ)))
                self._drained = False
            else:
                await checkpoint()  # before any output is taken, which a cancellation would lose
                if self._closed:
                    raise anyio.ClosedResourceError
            if data := self._codec.decompress(max_bytes):
                return data
            if self._codec.ended:
                raise anyio.EndOfStream
            self._drained = True

    async def send(self, item: bytes) -> None:
        """Compress ``item`` and send it.

        A send that was cancelled or failed is the last one: the peer misses bytes that all later ones build
        on, and might take for data what it decompresses after the gap.

        :raises anyio.BrokenResourceError: if the peer has vanished, or an earlier send was cut
        :raises anyio.ClosedResourceError: if the stream was closed on this side
        """
        self._check_open()
        await self._send(self._codec.compress(item))

    def send_now(self, item: bytes, sent: list[int]) -> None:
        """Compress all and send it without waiting, over a stream that has `send_now` as well.

        Where the system does not take all, nothing more can be sent, as after a cut `send`. So this is for
        the last words before the end.

        :param sent: gets the length of ``item``
        :raises anyio.BrokenResourceError: as `send` does, or if the system did not take all
        :raises anyio.ClosedResourceError: if the stream was closed on this side
        """
        self._check_open()
        stream: Any = self._stream
        data = self._codec.compress(item)
        taken: list[int] = []
        self._send_ended = True
        stream.send_now(data, taken)
        if sum(taken) < len(data):
            raise anyio.BrokenResourceError("the system did not take all at once")
        self._send_ended = False
        sent.append(len(item))

    async def send_eof(self) -> None:
        """Tell the peer that nothing more will be sent.

        :raises anyio.BrokenResourceError: if the peer has vanished, or an earlier send was cut
        :raises anyio.ClosedResourceError: if the stream was closed on this side
        """
        self._check_open()
        end = self._codec.finish()
        if not end:
            await self._stream.send_eof()
        else:
            # The peer may close as soon as it has read this. To send more, such as the end of a transport,
            # would race with that: a connection that gets bytes after it was closed is reset.
            await self._send(end)
        self._send_ended = True

    @property
    def below(self) -> ByteStream:
        """The inner stream."""
        return self._stream

    async def aclose(self) -> None:
        """Close the inner stream."""
        self._closed = True
        await self._stream.aclose()

    def _check_open(self) -> None:
        if self._closed:
            raise anyio.ClosedResourceError
        if self._send_ended:
            raise anyio.BrokenResourceError

    async def _send(self, data: bytes) -> None:
        self._send_ended = True
        await self._stream.send(data)
        self._send_ended = False

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        """Those of the inner stream."""
        stream: Any = self._stream  # AnyIO leaves the types of its mapping open
        attributes: Mapping[Any, Callable[[], Any]] = stream.extra_attributes
        return attributes
