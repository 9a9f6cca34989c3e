"""The reader task: bytes to messages and answers. It never waits for users."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
from anyio.abc import ByteStream

from ..protocol.frames import Frame, FrameDecoder
from .receiver import Receiver

__all__ = ["CHUNK_SIZE", "read"]

CHUNK_SIZE = 256 * 1024
"""Bytes asked of the transport at once; large, because each chunk costs one turn of the event loop."""

SourceT = TypeVar("SourceT")
MessageT = TypeVar("MessageT")


async def read(
    stream: ByteStream,
    decoder: FrameDecoder[SourceT, MessageT],
    receiver: Receiver[SourceT, MessageT],
    *,
    received: bytes,
    arrived: Callable[[float], None],
    handle_frames: Callable[[list[Frame]], None],
) -> None:
    """Route what is received until the stream ends.

    :param received: what was received already
    :param arrived: told the time of each arrival, on AnyIO's clock
    :param handle_frames: given the frames of each chunk that are no messages
    :raises anyio.EndOfStream: when nsqd closed the connection
    :raises ProtocolError: when the bytes are no NSQ frames
    """
    data = received or await stream.receive(CHUNK_SIZE)
    while True:
        now = anyio.current_time()
        arrived(now)
        messages, frames = decoder.feed(data, receiver.arrival(now))
        if messages:
            receiver.received(messages, now)
        if frames:
            handle_frames(frames)
        data = await stream.receive(CHUNK_SIZE)
