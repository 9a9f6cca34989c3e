"""Sends that end when the peer takes no bytes, on streams that tell nothing of how far a send has come."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import anyio
from anyio.abc import ByteStream

__all__ = ["TimedSends"]

_PIECE = 64 * 1024
"""Bytes that have ``timeout`` seconds to go. A send as a whole may take as long as it needs: how much is
queued says nothing of the peer."""


class TimedSends(ByteStream):
    """``stream``, which sends in pieces, each within ``timeout`` seconds."""

    def __init__(self, stream: ByteStream, timeout: float) -> None:
        self._stream = stream
        self._timeout = timeout

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """As ``stream`` does."""
        return await self._stream.receive(max_bytes)

    async def send(self, item: bytes) -> None:
        """Send all.

        :raises TimeoutError: if the peer takes no piece in time; nothing may be sent after that
        """
        for start in range(0, len(item), _PIECE):
            with anyio.fail_after(self._timeout):
                await self._stream.send(item[start : start + _PIECE])

    async def send_eof(self) -> None:
        """As ``stream`` does."""
        await self._stream.send_eof()

    async def aclose(self) -> None:
        """Close ``stream``."""
        await self._stream.aclose()

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        """Those of ``stream``."""
        stream: Any = self._stream  # AnyIO leaves the types of its mapping open
        attributes: Mapping[Any, Callable[[], Any]] = stream.extra_attributes
        return attributes
