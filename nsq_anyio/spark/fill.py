"""Moves messages from nsqd to the spool, and finishes each message after storing it."""

from __future__ import annotations

import anyio
import anyio.to_thread
import pyarrow as pa
from anyio.streams.memory import MemoryObjectReceiveStream

from ..exceptions import first_error
from ..storage.place import storage_of
from .bounded_reader import BoundedReader, bounded_reader
from .chunks import Partition, Stored
from .options import ReadOptions
from .portion import MessageChunk, redelivered
from .spool_errors import NumberTaken
from .task_report import TaskReport, note_report

_LOOK_FIRST = 0.1
"""Seconds until the first look at what another attempt stores. They double up to the storage's bound."""


async def fill(
    options: ReadOptions,
    nsqd: str,
    rows: int,
    partition: Partition,
    *,
    max_bytes: int | None = None,
    silence: float = 10.0,
) -> None:
    """Fill a partition from one nsqd until it has its rows, or no more messages come; then end it.

    The rows that an earlier attempt has stored count, and a partition that has ended is left as it is. A
    message is finished when its chunk is on disk. If this ends early, for whatever reason, messages that are
    not stored are handed back. If another attempt fills the same partition, this one hands back its messages
    and waits for the other to end it.

    :param nsqd: its address, as ``host:port``
    :param rows: the most rows, 1 or more
    :param max_bytes: the most bytes of bodies; the last message may exceed it
    :param silence: the seconds without a new chunk, in addition to ``maxWait``, after which another attempt
        counts as dead
    :raises SpoolError: if the spool cannot be written, or is damaged
    :raises AttemptSuperseded: if Spark has committed the batch
    :raises ConnectionFailed: if nsqd cannot be reached
    :raises PermanentRefusal: if nsqd refuses the connection permanently
    """
    while True:
        stored = await anyio.to_thread.run_sync(partition.stored)
        if stored.ended:
            return
        try:
            await _go_on(options, nsqd, rows, partition, stored, max_bytes)
        except NumberTaken:
            await _wait_for_other(partition, options.max_wait + silence)
        else:
            return


async def _go_on(
    options: ReadOptions, nsqd: str, rows: int, partition: Partition, stored: Stored, max_bytes: int | None
) -> None:
    """Add the missing rows to a partition, and end it.

    :raises NumberTaken: if another attempt fills it as well
    """
    # Before anything is taken from nsqd: more rows do not repair a damaged partition.
    await anyio.to_thread.run_sync(_read_through, partition)
    number = stored.chunks
    rows -= stored.rows
    if max_bytes is not None:
        max_bytes -= stored.bytes
    if rows > 0 and (max_bytes is None or max_bytes > 0):
        report = TaskReport()
        async with bounded_reader(options, nsqd, rows, max_bytes=max_bytes) as reader:
            number = await _store_all(reader, partition, number, report)
        report.refused = reader.refused
        await anyio.to_thread.run_sync(note_report, partition, report)
    await anyio.to_thread.run_sync(partition.end, number)


def _read_through(partition: Partition) -> None:
    for _ in partition.read():
        pass


async def _wait_for_other(partition: Partition, patience: float) -> None:
    """Wait until the other attempt has ended the partition, or has stored nothing for ``patience``."""
    before = await anyio.to_thread.run_sync(partition.stored)
    pause, longest = _LOOK_FIRST, storage_of(partition.path).poll_interval
    give_up_at = anyio.current_time() + patience
    while not before.ended and (left := give_up_at - anyio.current_time()) > 0:
        await anyio.sleep(min(pause, left))
        now = await anyio.to_thread.run_sync(partition.stored)
        pause = min(2 * pause, longest)
        if now != before:
            before = now
            give_up_at = anyio.current_time() + patience


async def _store_all(reader: BoundedReader, partition: Partition, number: int, report: TaskReport) -> int:
    """Store all chunks, the first under ``number``; return the next free number."""

    async def store(prepared: MemoryObjectReceiveStream[tuple[MessageChunk, pa.RecordBatch]]) -> None:
        nonlocal number
        async for chunk, batch in prepared:
            began_at = anyio.current_time()
            await anyio.to_thread.run_sync(partition.store_chunk, number, batch)
            reader.finish(chunk)
            number += 1
            report.stored(anyio.current_time() - began_at, redelivered(batch))

    # The next chunk is prepared while this one is written.
    send, receive = anyio.create_memory_object_stream[tuple[MessageChunk, pa.RecordBatch]](0)
    try:
        async with receive, anyio.create_task_group() as tasks, send:
            tasks.start_soon(store, receive)
            while chunk := await reader.take():
                await send.send((chunk, chunk.record_batch()))
    except ExceptionGroup as failed:
        # One of the two tasks failed, and the other was cancelled.
        error = first_error(failed)
        raise error from error.__cause__
    return number
