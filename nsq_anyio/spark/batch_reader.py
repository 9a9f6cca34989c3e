"""A batch read: what waits in the channel when the job is planned, once.

How sure it is, an option says. ``peek`` gives every message back. With ``spoolDir`` a message is finished
when its row is on disk, and the spool is kept, since nobody tells when the job has ended. With ``drain`` it
is finished when Spark has taken its row. Spark reads far ahead of what it uses, and tells no source in Python
of a LIMIT: it is not known what the job does with the row, or whether it does anything.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import anyio
import pyarrow as pa
from anyio.from_thread import start_blocking_portal
from pyspark.sql.datasource import DataSourceReader, InputPartition

from ..errors import InvalidOption
from .bounded_reader import bounded_reader
from .depth import channel_depths
from .options import ReadOptions
from .peek import peek
from .plan import plan
from .schema import record_batch
from .spool import Plan, Spool
from .spooled_partition import SpooledPartition, read_spooled_partition

__all__ = ["NsqBatchReader", "WaitingPartition"]

_EPOCH = 1
"""The only one of a spool that a batch read has filled."""


class WaitingPartition(InputPartition):
    """What one task reads where there is no spool.

    :ivar nsqd: to read, as ``host:port``
    :ivar rows: to read at most
    """

    def __init__(self, nsqd: str, rows: int) -> None:
        self.nsqd = nsqd
        self.rows = rows


class NsqBatchReader(DataSourceReader):
    """Reads what waits in a channel. It is pickled for each task, so it holds no connection.

    :raises InvalidOption: for an option that means nothing together with ``peek``
    """

    def __init__(self, options: ReadOptions) -> None:
        if options.peek:
            _check_peek(options)
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Plan who reads how much of what waits now; with ``spoolDir`` a new spool is made.

        :raises ClusterFailed: if no nsqlookupd, or no nsqd, answers
        :raises SpoolError: if the spool cannot be made
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
        match partition:
            case SpooledPartition() if self._options.spool_dir is not None:
                return read_spooled_partition(self._options, self._options.spool_dir, partition)
            case WaitingPartition() if self._options.peek:
                return _look(self._options, partition)
            case WaitingPartition():
                return _drain(self._options, partition)
            case _:
                # Where nothing is planned, Spark has a partition of its own read.
                return iter(())


def _check_peek(options: ReadOptions) -> None:
    for name, value in (
        ("minPartitions", options.min_partitions),
        ("maxRowsPerPartition", options.max_rows_per_partition),
    ):
        if value is not None:
            # What one task has put back, another one would see again.
            raise InvalidOption(f"peek=true looks at each nsqd in one task: leave {name}={value} out")


def _spooled(options: ReadOptions, spool_dir: str, parts: Plan) -> list[InputPartition]:
    if not parts:
        return []
    name = str(uuid.uuid4())
    Spool.create(spool_dir, name, options.topic, options.channel).begin(_EPOCH, parts)
    return [SpooledPartition(name, _EPOCH, number, nsqd, rows) for number, (nsqd, rows) in enumerate(parts)]


def _drain(options: ReadOptions, partition: WaitingPartition) -> Iterator[pa.RecordBatch]:
    """Return rows, and finish those of a batch when the next one is asked for.

    Spark asks for many batches ahead: what it then does not use, as with LIMIT, is finished too.
    """
    # The loop runs in a thread of its own: it answers heartbeats while Spark works on the rows.
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(bounded_reader(options, partition.nsqd, partition.rows)) as reader,
    ):
        while chunk := portal.call(reader.take):
            try:
                yield record_batch(chunk)
            except GeneratorExit:
                return  # nobody asks for more: these and what is in flight go back
            portal.call(reader.finish, chunk)


def _look(options: ReadOptions, partition: WaitingPartition) -> Iterator[pa.RecordBatch]:
    """Return rows whose messages are back in nsqd already."""
    for chunk in anyio.run(peek, options, partition.nsqd, partition.rows):
        yield record_batch(chunk)
