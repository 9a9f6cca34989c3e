"""A batch read: the messages that wait in the channel when the job is planned.

An option decides when a message is finished. With ``peek``, never: every message goes back to nsqd. With
``spoolDir``, when its row is on disk; the spool is kept, because Spark does not report the end of a batch job
to its source. With ``drain``, when Spark has taken its row, whether it uses the row or not: Spark reads far
ahead, and does not push a LIMIT down to a Python source.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import AsyncExitStack
from io import IOBase

import anyio
import anyio.to_thread
import pyarrow as pa
from anyio.from_thread import start_blocking_portal
from pyspark.sql.datasource import DataSourceReader, InputPartition

from ..errors import ConnectionLost, InvalidOption, NSQError
from .bounded_reader import BoundedReader, bounded_reader
from .depth import channel_depths
from .options import ReadOptions
from .plan import plan
from .portion import MessageChunk
from .schema import arrow_schema
from .spool import Plan, Spool
from .spool_errors import as_spool_error
from .task import SpooledPartition, opened, read_spooled_partition

_EPOCH = 1
"""The only epoch of a batch read's spool."""

_PEEK_IN_MEMORY = 64 * 1024 * 1024
"""Bytes above which the rows of a peek are kept in a file and not in memory."""


class WaitingPartition(InputPartition):
    """The part of a batch read that one task reads without a spool.

    :ivar nsqd: the nsqd to read from, as ``host:port``
    :ivar rows: the most rows to read
    """

    def __init__(self, nsqd: str, rows: int) -> None:
        self.nsqd = nsqd
        self.rows = rows


class NsqBatchReader(DataSourceReader):
    """Reads the messages that wait in a channel. It is pickled for each task, so it holds no connection.

    :raises InvalidOption: for an option that has no meaning with ``peek``
    """

    def __init__(self, options: ReadOptions) -> None:
        if options.peek:
            _check_peek(options)
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Plan how many waiting messages each task reads; with ``spoolDir``, create a new spool.

        :raises ClusterFailed: if no nsqlookupd, or no nsqd, answers
        :raises SpoolError: if the spool cannot be created
        """
        options = self._options
        parts = plan(
            channel_depths(options),
            max_rows=options.max_rows,
            min_partitions=options.min_partitions,
            max_rows_per_partition=options.max_rows_per_partition,
        )
        if options.spool_dir is None:
            return [WaitingPartition(nsqd, rows) for nsqd, rows in parts]
        return _spooled(options, options.spool_dir, parts)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return one partition's rows.

        :raises ConnectionFailed: if nsqd cannot be reached
        :raises NSQError: as `fill` and `stored_rows`, with ``spoolDir``
        """
        return opened(self._rows(partition), self._options)

    def _rows(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        match partition:
            case SpooledPartition() if self._options.spool_dir is not None:
                return read_spooled_partition(self._options, self._options.spool_dir, partition)
            case WaitingPartition() if self._options.peek:
                return _peek_rows(self._options, partition)
            case WaitingPartition():
                return _drain(self._options, partition)
            case _:
                # Without partitions, Spark creates one itself.
                return iter(())


def _check_peek(options: ReadOptions) -> None:
    for name, value in (
        ("minPartitions", options.min_partitions),
        ("maxRowsPerPartition", options.max_rows_per_partition),
    ):
        if value is not None:
            # A second task would see the messages that the first one gave back.
            raise InvalidOption(f"peek=true reads each nsqd in one task: leave {name}={value} out")


def _spooled(options: ReadOptions, spool_dir: str, parts: Plan) -> list[InputPartition]:
    if not parts:
        Spool.check_place(spool_dir)
        return []
    name = str(uuid.uuid4())
    Spool.create(spool_dir, name, options.topic, options.channel).begin(_EPOCH, parts)
    return [SpooledPartition(name, _EPOCH, number, nsqd, rows) for number, (nsqd, rows) in enumerate(parts)]


def _drain(options: ReadOptions, partition: WaitingPartition) -> Iterator[pa.RecordBatch]:
    """Yield rows, and finish the messages of a batch when Spark asks for the next one.

    Spark asks for many batches ahead, so rows that it does not use, as with LIMIT, are finished too.
    """
    # The event loop runs in its own thread, to answer heartbeats while Spark processes the rows.
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(bounded_reader(options, partition.nsqd, partition.rows)) as reader,
    ):
        while chunk := portal.call(reader.take):
            try:
                yield chunk.record_batch()
            except GeneratorExit:
                return  # Spark wants no more: unfinished messages go back to nsqd
            portal.call(reader.finish, chunk)


def _peek_rows(options: ReadOptions, partition: WaitingPartition) -> Iterator[pa.RecordBatch]:
    """Yield the rows of messages that nsqd already has back."""
    with tempfile.SpooledTemporaryFile(_PEEK_IN_MEMORY) as file:
        with as_spool_error(tempfile.gettempdir()):
            anyio.run(peek, options, partition.nsqd, partition.rows, file)
        file.seek(0)
        with pa.ipc.open_stream(file) as batches:
            yield from batches


class PeekTooLong(NSQError):
    """The peek takes longer than nsqd allows a consumer to hold messages."""


async def peek(options: ReadOptions, nsqd: str, rows: int, file: IOBase) -> None:
    """Write messages to a file, as an Arrow stream, and give them back to nsqd.

    All messages are held, and touched, until the last one is read, so that none is delivered twice. Only the
    bodies of one chunk are in memory.

    :raises PeekTooLong: if it takes longer than nsqd's --max-msg-timeout, after which nsqd delivers held
        messages again
    :raises ConnectionFailed: if nsqd cannot be reached, or a connection is lost
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
        # The end of the block gives back unanswered messages.


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
