"""Reads the messages that wait in one nsqd, and gives all of them back."""

from __future__ import annotations

from contextlib import AsyncExitStack
from io import IOBase

import anyio
import anyio.to_thread
import pyarrow as pa

from ..errors import ConnectionLost, NSQError
from .bounded_reader import BoundedReader, bounded_reader
from .options import ReadOptions
from .portion import MessageChunk
from .schema import arrow_schema


class PeekTooLong(NSQError):
    """The peek takes longer than nsqd allows a consumer to hold messages."""


async def peek(options: ReadOptions, nsqd: str, rows: int, file: IOBase) -> None:
    """Write messages to a file, as an Arrow stream, and give them back to nsqd.

    All are held until the last was read, and touched meanwhile, so that none is delivered twice. Only one
    chunk of bodies is in memory.

    :raises PeekTooLong: if it takes longer than nsqd's --max-msg-timeout, after which nsqd delivers held
        messages again
    :raises ConnectionFailed: if there is no connection, or one is lost
    :raises OSError: if the file cannot be written
    """
    chunks: list[MessageChunk] = []
    readers: list[BoundedReader] = []
    async with AsyncExitStack() as connections:
        writer = connections.enter_context(pa.ipc.new_stream(file, arrow_schema()))
        while rows:
            # A reader can hold no more messages than it may have in flight.
            some = min(rows, options.max_in_flight)
            reader = await connections.enter_async_context(bounded_reader(options, nsqd, some))
            taken = 0
            while chunk := await reader.take():
                chunks.append(chunk)
                readers.append(reader)
                taken += len(chunk)
                await anyio.to_thread.run_sync(
                    writer.write_batch,  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
                    chunk.record_batch(),
                )
                reader.forget_bodies(chunk)
                _check_held(readers[0], chunks[0])
            if not taken:
                break  # other consumers have taken the rest
            rows -= taken
        for reader, chunk in zip(readers, chunks, strict=True):
            _check_held(reader, chunk)
        # The end of the block gives back what is not answered.


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
