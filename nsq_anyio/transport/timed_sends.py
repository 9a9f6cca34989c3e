"""Fails sends when the peer accepts no bytes, on streams that do not report a send's progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anyio
from anyio.abc import ByteStream

from .attributes import attributes_of

_PIECE = 64 * 1024
"""The size of a piece in bytes. The timeout is for each piece, not for a whole send, which can be of any
size."""


class TimedSends(ByteStream):
    """A stream that sends over ``stream`` in pieces, each within ``timeout`` seconds."""

    def __init__(self, stream: ByteStream, timeout: float) -> None:
        self._stream = stream
        self._timeout = timeout

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Receive bytes from ``stream``."""
        return await self._stream.receive(max_bytes)

    async def send(self, item: bytes) -> None:
        """Send all bytes of ``item``.

        :raises TimeoutError: if the peer does not accept a piece in time; send nothing after that
        """
        for start in range(0, len(item), _PIECE):
            with anyio.fail_after(self._timeout):
                await self._stream.send(item[start : start + _PIECE])

    async def send_eof(self) -> None:
        """End the outgoing side of ``stream``."""
        await self._stream.send_eof()

    async def aclose(self) -> None:
        """Close ``stream``."""
        await self._stream.aclose()

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        """The attributes of ``stream``."""
        return attributes_of(self._stream)
