"""A byte stream that sends and receives compressed bytes over another one, for clients and servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anyio
from anyio.abc import ByteStream
from anyio.lowlevel import checkpoint

from ..protocol.compression import StreamCodec
from .layer import Layer, attributes_of, send_all_now

_MIN_READ = 65536


class CompressedStream(Layer):
    """``stream``, compressed in both directions by ``codec``. One task may send while another receives.

    The end of the inner stream ends this one, even within a compressed chunk. All data before that chunk is
    returned; the length of an NSQ frame shows whether it was cut off.

    :param received: bytes that were already received from ``stream``
    """

    def __init__(self, stream: ByteStream, codec: StreamCodec, received: bytes = b"") -> None:
        self._stream = stream
        self._codec = codec
        self._drained = not received  # whether the codec has no output without more input
        self._send_ended = False
        self._closed = False
        codec.feed(received)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Receive 1 to ``max_bytes`` decompressed bytes. Nothing is lost when it is cancelled.

        :raises ProtocolError: if the peer sent bytes that cannot be decompressed
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
                await checkpoint()  # before output is taken, because a cancellation would lose it
                if self._closed:
                    raise anyio.ClosedResourceError
            if data := self._codec.decompress(max_bytes):
                return data
            if self._codec.ended:
                raise anyio.EndOfStream
            self._drained = True

    async def send(self, item: bytes) -> None:
        """Compress ``item`` and send it.

        After a send that was cancelled or failed, nothing more can be sent: the peer lacks bytes that all
        later ones depend on, and might decompress the bytes after the gap to wrong data.

        :raises anyio.BrokenResourceError: if the peer has vanished, or an earlier send was incomplete
        :raises anyio.ClosedResourceError: if the stream was closed on this side
        """
        self._check_open()
        await self._send(self._codec.compress(item))

    def send_now(self, item: bytes, sent: list[int]) -> None:
        self._check_open()
        data = self._codec.compress(item)
        self._send_ended = True
        send_all_now(self._stream, data)
        self._send_ended = False
        sent.append(len(item))

    async def send_eof(self) -> None:
        """Tell the peer that nothing more will be sent.

        :raises anyio.BrokenResourceError: if the peer has vanished, or an earlier send was incomplete
        :raises anyio.ClosedResourceError: if the stream was closed on this side
        """
        self._check_open()
        end = self._codec.finish()
        if not end:
            await self._stream.send_eof()
        else:
            # The peer may close as soon as it has read this. Do not send more, such as the end of the inner
            # stream: bytes that reach a closed connection reset it.
            await self._send(end)
        self._send_ended = True

    @property
    def below(self) -> ByteStream:
        return self._stream

    async def aclose(self) -> None:
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
        return attributes_of(self._stream)
