"""A batch read: the messages that wait in the channel when the job is planned.

An option decides when a message is finished. With ``peek`` it never is: every message goes back. With
``spoolDir`` it is finished when its row is on disk; the spool is kept, because Spark does not report the end
of a batch job to its source. With ``drain`` it is finished when Spark has taken its row, used or not: Spark
reads far ahead, and does not push a LIMIT down to a source in Python.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator

import anyio
import pyarrow as pa
from anyio.from_thread import start_blocking_portal
from pyspark.sql.datasource import DataSourceReader, InputPartition

from ..errors import InvalidOption
from .bounded_reader import bounded_reader
from .depth import channel_depths
from .opened_rows import opened
from .options import ReadOptions
from .peek import peek
from .plan import plan
from .spool import Plan, Spool
from .spool_errors import as_spool_error
from .spooled_partition import SpooledPartition, read_spooled_partition

_EPOCH = 1
"""The only epoch of a batch read's spool."""

_PEEK_IN_MEMORY = 64 * 1024 * 1024
"""Bytes above which the rows of a peek are kept in a file and not in memory."""


class WaitingPartition(InputPartition):
    """What one task reads without a spool.

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
                return _look(self._options, partition)
            case WaitingPartition():
                return _drain(self._options, partition)
            case _:
                # Given no partitions, Spark reads one of its own.
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


def _look(options: ReadOptions, partition: WaitingPartition) -> Iterator[pa.RecordBatch]:
    """Yield rows whose messages are already back in nsqd."""
    with tempfile.SpooledTemporaryFile(_PEEK_IN_MEMORY) as file:
        with as_spool_error(tempfile.gettempdir()):
            anyio.run(peek, options, partition.nsqd, partition.rows, file)
        file.seek(0)
        with pa.ipc.open_stream(file) as batches:
            yield from batches
