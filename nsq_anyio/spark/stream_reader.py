"""A streaming read: what Spark calls, in the order in which it calls.

``latestOffset`` plans a batch and makes its place in the spool, and Spark logs what it returns.
``partitions`` follows from that log alone, so that a restarted query has the same partitions, and looks
whether the spool still has what was made for them; ``read`` fills each one's part of the spool and replays
it, on an executor; ``commit`` deletes a batch that the sink has, when the next one is planned.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from ..errors import InvalidOption
from .depth import depths
from .fill import fill
from .lease import Lease
from .options import ReadOptions
from .plan import Depth, plan
from .replay import replay
from .spool import FORMAT, Plan, Spool

__all__ = ["NsqStreamReader", "SpooledPartition", "read_spooled"]


@dataclass(frozen=True, slots=True)
class _Offset:
    """The end of a batch.

    :ivar spool: the query's spool
    :ivar epoch: which batch, from 1 on; 0 before the first
    :ivar plan: of that batch
    :ivar format: of the batch in the spool; 1 for one that an earlier version has planned
    """

    spool: str
    epoch: int
    plan: Plan
    format: int = FORMAT

    @classmethod
    def of(cls, offset: dict[str, Any]) -> _Offset:
        plan = [(nsqd, rows) for nsqd, rows in offset["plan"]]
        return cls(offset["spool"], offset["epoch"], plan, offset.get("format", 1))

    def as_dict(self) -> dict[str, Any]:
        plan = [list(part) for part in self.plan]
        return {"format": self.format, "spool": self.spool, "epoch": self.epoch, "plan": plan}


class SpooledPartition(InputPartition):
    """What one task reads.

    :ivar spool: the spool's name in ``spoolDir``
    :ivar epoch: the batch
    :ivar number: of the partition within it
    :ivar nsqd: to read, as ``host:port``
    :ivar rows: to read at most
    :ivar max_bytes: of bodies to read at most, but for the last message; None for no bound
    """

    def __init__(
        self, spool: str, epoch: int, number: int, nsqd: str, rows: int, max_bytes: int | None
    ) -> None:
        self.spool = spool
        self.epoch = epoch
        self.number = number
        self.nsqd = nsqd
        self.rows = rows
        self.max_bytes = max_bytes


class NsqStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a channel as a stream. It is pickled for each task, so it holds no connection.

    :raises InvalidOption: without ``spoolDir``, or with an option that means nothing here
    """

    def __init__(self, options: ReadOptions) -> None:
        if options.spool_dir is None:
            raise InvalidOption(
                "no spoolDir: NSQ forgets a message once it is finished, and Spark must be able to read a "
                "batch again, so a stream keeps it in between; set spoolDir to the absolute path of a "
                "directory that the driver and all executors share"
            )
        if options.peek:
            raise InvalidOption("peek=true is for batch reads: use spark.read, or leave it out")
        if options.max_rows is not None:
            raise InvalidOption(
                f"maxRows={options.max_rows} is for batch reads: use maxRowsPerBatch for a stream"
            )
        self._options = options
        self._spool_dir = options.spool_dir
        self._new = str(uuid.uuid4())
        self._lease = Lease()
        self._left: dict[str, int] | None = None
        self._latest: list[Depth] = []

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name, as the next ones
        """Where a new query begins: a spool of its own."""
        return _Offset(self._new, 0, []).as_dict()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """At most ``maxRowsPerBatch``."""
        return ReadMaxRows(self._options.max_rows_per_batch)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Plan the next batch by what waits now, and make its place; ``start`` itself when nothing waits.

        :raises ClusterFailed: if no nsqlookupd, or no nsqd, answers
        :raises SpoolError: if the spool of the query is missing or another's, or cannot be written
        :raises InvalidOption: for a limit that NSQ cannot keep
        """
        begin = _Offset.of(start)
        if begin.epoch:
            self._open(begin.spool)
        self._latest = depths(self._options)
        waiting = self._within_the_rest(self._latest)
        parts = plan(
            waiting,
            max_rows=self._max_rows(limit, waiting),
            min_partitions=self._options.min_partitions,
            max_rows_per_partition=self._options.max_rows_per_partition,
        )
        if not parts:
            return start
        if not begin.epoch:
            Spool.create(self._spool_dir, begin.spool, self._options.topic, self._options.channel)
        self._open(begin.spool).begin(begin.epoch + 1, parts)
        if self._left is not None:
            for nsqd, rows in parts:
                self._left[nsqd] -= rows
        return _Offset(begin.spool, begin.epoch + 1, parts).as_dict()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """What waited at each nsqd when the last batch was planned, for the query's progress."""
        return {"depth": {depth.nsqd: depth.rows for depth in self._latest}} if self._latest else None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read as much as waits now, and then end, however much is published meanwhile.

        :raises ClusterFailed: if no nsqlookupd, or no nsqd, answers
        """
        self._left = {depth.nsqd: depth.rows for depth in depths(self._options)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The partitions of the batch that ends at ``end``.

        :raises SpoolError: if their place in the spool is missing, or another's
        """
        if start == end:
            return []
        batch = _Offset.of(end)
        spool = self._open(batch.spool)
        if batch.format == 1:
            spool.begin_format_1(batch.epoch, batch.plan)
        else:
            spool.check(batch.epoch, batch.plan)
        max_bytes = self._options.max_bytes_per_batch
        return [
            SpooledPartition(
                batch.spool,
                batch.epoch,
                number,
                nsqd,
                rows,
                max_bytes=None if max_bytes is None else max(1, max_bytes // len(batch.plan)),
            )
            for number, (nsqd, rows) in enumerate(batch.plan)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Fill the partition, or what is missing of it, and return its rows.

        :raises NSQError: as `fill` and `replay`
        """
        assert isinstance(partition, SpooledPartition)  # noqa: S101 - they are made above
        return read_spooled(self._options, self._spool_dir, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Delete from the spool what the sink has.

        :raises SpoolError: if it cannot be taken out
        """
        offset = _Offset.of(end)
        Spool.at(self._spool_dir, offset.spool).commit(offset.epoch)

    def stop(self) -> None:
        """Nobody uses the spool any more."""
        self._lease.release()

    def _open(self, spool: str) -> Spool:
        opened = Spool.open(self._spool_dir, spool, self._options.topic, self._options.channel)
        self._lease.hold(opened.path)
        return opened

    def _within_the_rest(self, waiting: list[Depth]) -> list[Depth]:
        """What of it was there when an AvailableNow query began."""
        left = self._left
        if left is None:
            return waiting
        return [Depth(depth.nsqd, min(depth.rows, left.get(depth.nsqd, 0))) for depth in waiting]

    def _max_rows(self, limit: ReadLimit, waiting: list[Depth]) -> int | None:
        match limit:
            case ReadMaxRows(max_rows=rows):
                return rows
            case ReadAllAvailable():
                return None
            case ReadMinRows(min_rows=rows):
                enough = self._left is not None or sum(depth.rows for depth in waiting) >= rows
                return self._options.max_rows_per_batch if enough else 0
            case _:
                raise InvalidOption(f"read limit {limit!r} is not valid: NSQ counts rows, so use ReadMaxRows")


def read_spooled(
    options: ReadOptions, spool_dir: str, partition: SpooledPartition
) -> Iterator[pa.RecordBatch]:
    """Fill a partition in the spool, or what is missing of it, and return its rows.

    :raises NSQError: as `fill` and `replay`
    """
    place = Spool.at(spool_dir, partition.spool).partition(partition.epoch, partition.number)
    anyio.run(partial(fill, max_bytes=partition.max_bytes), options, partition.nsqd, partition.rows, place)
    yield from replay(place)
