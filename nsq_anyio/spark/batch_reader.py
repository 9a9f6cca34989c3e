"""A batch read: what waits in the channel when the job is planned, once.

How sure it is depends on the options. ``peek`` gives every message back. With ``spoolDir`` a message is
finished when its row is on disk, and the spool is kept, since nobody tells when the job has ended. With
neither it is finished when Spark has taken its row: what the job then does with the row is not waited for.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import AsyncExitStack

import anyio
import pyarrow as pa
from anyio.from_thread import start_blocking_portal
from pyspark.sql.datasource import DataSourceReader, InputPartition

from ..consumer import Message
from ..errors import InvalidOption
from .backlog import backlog
from .depth import depths
from .options import ReadOptions
from .plan import plan
from .schema import record_batch
from .spool import Plan, Spool
from .stream_reader import SpooledPartition, read_spooled

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
            depths(options),
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
        :raises NSQError: as `fill` and `replay`, with ``spoolDir``
        """
        match partition:
            case SpooledPartition() if self._options.spool_dir is not None:
                return read_spooled(self._options, self._options.spool_dir, partition)
            case WaitingPartition() if self._options.peek:
                return _look(self._options, partition)
            case WaitingPartition():
                return _drain(self._options, partition)
            case _:
                # Where nothing is planned, Spark has a partition of its own read.
                return iter(())


def _check_peek(options: ReadOptions) -> None:
    if options.spool_dir is not None:
        raise InvalidOption("peek=true keeps nothing: leave spoolDir out")
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
    return [
        SpooledPartition(name, _EPOCH, number, nsqd, rows, max_bytes=None)
        for number, (nsqd, rows) in enumerate(parts)
    ]


def _drain(options: ReadOptions, partition: WaitingPartition) -> Iterator[pa.RecordBatch]:
    """Return rows, and finish those of a batch when the next one is asked for."""
    # The loop runs in a thread of its own: it answers heartbeats while Spark works on the rows.
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(backlog(options, partition.nsqd, partition.rows)) as waiting,
    ):
        while chunk := portal.call(waiting.take):
            try:
                yield record_batch(chunk)
            except GeneratorExit:
                return  # Spark has enough, as with LIMIT: these and what is in flight go back
            portal.call(waiting.finish, chunk)


def _look(options: ReadOptions, partition: WaitingPartition) -> Iterator[pa.RecordBatch]:
    """Return rows whose messages are back in nsqd already."""
    for chunk in anyio.run(_peek, options, partition.nsqd, partition.rows):
        yield record_batch(chunk)


async def _peek(options: ReadOptions, nsqd: str, rows: int) -> list[list[Message]]:
    """Hold all that is looked at, so that none comes twice; then give it back."""
    chunks: list[list[Message]] = []
    async with AsyncExitStack() as connections:
        while rows:
            # Each connection holds what nsqd has in flight to it at most.
            some = min(rows, options.max_in_flight)
            waiting = await connections.enter_async_context(backlog(options, nsqd, some))
            taken = 0
            while chunk := await waiting.take():
                chunks.append(chunk)
                taken += len(chunk)
            if not taken:
                break  # others have taken the rest
            rows -= taken
        for chunk in chunks:
            for message in chunk:
                message.requeue(0, backoff=False)
    return chunks
