"""Fails sends when the peer takes no bytes, on streams that do not report a send's progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anyio
from anyio.abc import ByteStream

from .attributes import attributes_of

__all__ = ["TimedSends"]

_PIECE = 64 * 1024
"""The bytes of a piece, which has ``timeout`` seconds. A whole send has no limit: how much is queued says
nothing about the peer."""


class TimedSends(ByteStream):
    """A stream that sends over ``stream`` in pieces, each within ``timeout`` seconds."""

    def __init__(self, stream: ByteStream, timeout: float) -> None:
        self._stream = stream
        self._timeout = timeout

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """See ``stream`` does."""
        return await self._stream.receive(max_bytes)

    async def send(self, item: bytes) -> None:
        """Send all bytes of ``item``.

        :raises TimeoutError: if the peer does not take a piece in time; send nothing after that
        """
        for start in range(0, len(item), _PIECE):
            with anyio.fail_after(self._timeout):
                await self._stream.send(item[start : start + _PIECE])

    async def send_eof(self) -> None:
        """See ``stream`` does."""
        await self._stream.send_eof()

    async def aclose(self) -> None:
        """Close ``stream``."""
        await self._stream.aclose()

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        """The attributes of ``stream``."""
        return attributes_of(self._stream)
