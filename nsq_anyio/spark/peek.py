"""Reads the messages that wait in one nsqd, and gives all of them back."""

from __future__ import annotations

from contextlib import AsyncExitStack

import anyio

from ..errors import ConnectionLost, NSQError
from .bounded_reader import BoundedReader, bounded_reader
from .options import ReadOptions
from .portion import MessageChunk

__all__ = ["PeekTooLong", "peek"]


class PeekTooLong(NSQError):
    """The peek takes longer than nsqd allows a consumer to hold messages."""


async def peek(options: ReadOptions, nsqd: str, rows: int) -> list[MessageChunk]:
    """Return messages in chunks, after giving them back to nsqd.

    All are held until the last was read, and touched meanwhile, so that none is delivered twice.

    :raises PeekTooLong: if it takes longer than nsqd's --max-msg-timeout, after which nsqd delivers held
        messages again
    :raises ConnectionFailed: if there is no connection, or one is lost
    """
    chunks: list[MessageChunk] = []
    readers: list[BoundedReader] = []
    async with AsyncExitStack() as connections:
        while rows:
            # A reader can hold no more messages than it may have in flight.
            some = min(rows, options.max_in_flight)
            reader = await connections.enter_async_context(bounded_reader(options, nsqd, some))
            taken = 0
            while chunk := await reader.take():
                chunks.append(chunk)
                readers.append(reader)
                taken += len(chunk)
                _check_held(readers[0], chunks[0])
            if not taken:
                break  # other consumers have taken the rest
            rows -= taken
        for reader, chunk in zip(readers, chunks, strict=True):
            _check_held(reader, chunk)
        # The end of the block gives back what is not answered.
    return chunks


def _check_held(reader: BoundedReader, chunk: MessageChunk) -> None:
    if reader.holds(chunk):
        return
    if chunk.hard_deadline <= anyio.current_time():
        raise PeekTooLong(
            f"peek=true holds the messages that it reads, and nsqd {chunk.nsqd} allows that for at most "
            "its --max-msg-timeout, then delivers them again: lower maxRows, or read into a spoolDir"
        )
    raise ConnectionLost(
        chunk.nsqd, "messages that peek=true held were lost with the connection or timed out: try again"
    )
