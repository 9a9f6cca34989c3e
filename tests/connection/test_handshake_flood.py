"""A peer that floods the handshake with heartbeats costs no more than it sends."""

from __future__ import annotations

from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest

from nsq_anyio.address import Address
from nsq_anyio.connection import NoMessages, open_connection
from nsq_anyio.options import ConnectionOptions
from nsq_anyio.protocol.frames import FRAME_RESPONSE, HEARTBEAT, encode_frame

from .pipe import Pipe

pytestmark = pytest.mark.anyio

HEARTBEAT_FRAME = encode_frame(FRAME_RESPONSE, HEARTBEAT)


class Counted(bytes):
    """Counts the bytes that slices of it copy."""

    copied = 0

    def __getitem__(self, index: Any) -> Any:
        piece = Counted(cast("bytes", super().__getitem__(index)))
        Counted.copied += len(piece)
        return piece


class Flooding(Pipe):
    """Has one large chunk to receive, and nothing behind it."""

    def __init__(self, chunk: bytes) -> None:
        super().__init__()
        self.chunk = chunk

    async def receive(self, max_bytes: int = 65536) -> bytes:
        del max_bytes
        await anyio.lowlevel.checkpoint()
        if not self.chunk:
            await anyio.sleep_forever()
        chunk, self.chunk = self.chunk, b""
        return chunk

    async def aclose(self) -> None:
        await anyio.lowlevel.checkpoint()


async def test_each_heartbeat_is_copied_once() -> None:
    chunk = HEARTBEAT_FRAME * 10_000 + encode_frame(FRAME_RESPONSE, b'{"version": "1.3.0"}')

    async def dial(address: str) -> Flooding:
        del address
        return Flooding(Counted(chunk))

    Counted.copied = 0
    async with open_connection(Address("h", 1), ConnectionOptions(dialer=dial), NoMessages()) as connection:
        assert connection.identity.version == "1.3.0"
    assert len(chunk) <= Counted.copied < 3 * len(chunk)
