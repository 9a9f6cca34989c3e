"""A streaming read: the methods that Spark calls, in this order.

``latestOffset`` plans a batch and creates its directories in the spool; Spark logs the offset that it
returns. ``partitions`` depends only on that log, so that a restarted query has the same partitions; it checks
that their directories still exist. ``read`` runs on an executor: it fills a partition in the spool, then
reads its rows back. ``commit`` deletes a batch that the sink has; Spark calls it when the next batch is
planned.
"""

# ruff: noqa: N802 - the names are Spark's

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from ..errors import HTTPError, InvalidOption
from .claim import Claim
from .lease import Lease
from .options import ReadOptions
from .plan import Depth, plan, within_bytes
from .query_progress import Progress, QueryHistory
from .spool import FORMAT, Plan, Spool
from .task import SpooledPartition, opened, read_spooled_partition

if TYPE_CHECKING:
    from .depth import DepthClient


_log = logging.getLogger("nsq_anyio.spark")


@dataclass(frozen=True, slots=True)
class _Offset:
    """The end of a batch.

    :ivar spool: the name of the query's spool
    :ivar epoch: the number of the batch, from 1; 0 before the first batch
    :ivar plan: the plan of that batch
    :ivar format: the format of the batch in the spool; 1 if an earlier version has planned it
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


class NsqStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a channel as a stream. It is pickled for each task, so it holds no connection.

    :raises InvalidOption: without ``spoolDir``, or with an option of batch reads
    """

    def __init__(self, options: ReadOptions) -> None:
        if options.spool_dir is None:
            raise InvalidOption(
                "no spoolDir: NSQ forgets a message once it is finished, and Spark must be able to read a "
                "batch again, so a stream keeps it in a spool; set spoolDir to the absolute path of a "
                "directory that the driver and all executors share, or to a URL of S3, GCS, Azure or HDFS"
            )
        if options.peek:
            raise InvalidOption("peek=true is for batch reads: use spark.read, or leave it out")
        if options.drain:
            raise InvalidOption(
                "drain=true is for batch reads: a stream finishes the messages in its spool, so leave it out"
            )
        if options.max_rows is not None:
            raise InvalidOption(
                f"maxRows={options.max_rows} is for batch reads: use maxRowsPerBatch for a stream"
            )
        self._options = options
        self._spool_dir = options.spool_dir
        self._new_spool = str(uuid.uuid4())
        self._claim = Claim(options.topic, options.channel)
        self._depth_client: DepthClient | None = None
        self._history = QueryHistory()
        self._progress = Progress(options, self._history)
        self._lease = Lease()
        self._latest: list[Depth] = []
        self._idle_since: float | None = None

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset of a new query, with the name of a new spool."""
        return _Offset(self._new_spool, 0, []).as_dict()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit of ``maxRowsPerBatch``."""
        return ReadMaxRows(self._options.max_rows_per_batch)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Plan the next batch by the current depths, and create its directories in the spool.

        Without messages it returns ``start``, and then asks again no sooner than after ``pollInterval``.

        :raises ClusterFailed: if no nsqlookupd, or no nsqd, answers
        :raises SpoolError: if the query's spool is missing, is another query's, or cannot be written, or if
            another driver runs the query, too
        :raises InvalidOption: for a kind of limit that is not supported, or a channel that another stream
            reads
        """
        begin = _Offset.of(start)
        # Once is enough while no messages come: in an object store, each look is a request.
        if begin.epoch and self._idle_since is None:
            self._history.count_batch(self._open(begin.spool), begin.epoch)
        elif self._idle_since is None:
            Spool.check_place(self._spool_dir)
        self._wait_if_idle()
        self._latest = self._ask()
        self._progress.note_depths(self._latest)
        self._claim_channel(self._latest)
        waiting = self._history.cap_to_target(self._latest)
        parts = plan(
            waiting,
            max_rows=self._max_rows(limit, waiting),
            min_partitions=self._options.min_partitions,
            max_rows_per_partition=self._options.max_rows_per_partition,
        )
        if self._options.max_bytes_per_batch is not None:
            parts = within_bytes(parts, self._options.max_bytes_per_batch, self._history.sizes(waiting))
        self._idle_since = None if parts else time.monotonic()
        if not parts:
            return start
        if not begin.epoch:
            Spool.create(self._spool_dir, begin.spool, self._options.topic, self._options.channel)
        self._open(begin.spool).begin(begin.epoch + 1, parts, self._lease.rival)
        self._history.planned(begin.epoch + 1)
        return _Offset(begin.spool, begin.epoch + 1, parts).as_dict()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return the numbers for the query's progress, as of the plan of the last batch.

        docs/spark.md explains each number.
        """
        return self._progress.shown()

    def prepareForTriggerAvailableNow(self) -> None:
        """Let the query end when it has read the messages that wait now, whatever is published meanwhile.

        :raises ClusterFailed: if no nsqlookupd, or no nsqd, answers
        """
        self._history.set_target(self._ask())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the partitions of the batch that ends at ``end``.

        :raises SpoolError: if their directories in the spool are missing, or belong to another query
        """
        if start == end:
            return []
        batch = _Offset.of(end)
        spool = self._open(batch.spool)
        if batch.format == 1:
            spool.begin_format_1(batch.epoch, batch.plan)
        else:
            spool.check(batch.epoch, batch.plan)
        self._history.begun(batch.epoch, batch.plan)
        max_bytes = self._options.max_bytes_per_batch
        others = self._nsqds(batch.plan)
        return [
            SpooledPartition(
                batch.spool,
                batch.epoch,
                number,
                nsqd,
                rows,
                max_bytes=None if max_bytes is None else max(1, max_bytes // len(batch.plan)),
                others=others,
            )
            for number, (nsqd, rows) in enumerate(batch.plan)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition, and add the missing ones to the spool.

        :raises NSQError: as `fill` and `stored_rows`
        """
        assert isinstance(partition, SpooledPartition)  # noqa: S101 - they are made above
        rows = read_spooled_partition(self._options, self._spool_dir, partition)
        return opened(rows, self._options)

    def commit(self, end: dict[str, Any]) -> None:
        """Delete from the spool the batches that the sink has.

        :raises SpoolError: if a batch cannot be deleted
        """
        offset = _Offset.of(end)
        spool = Spool.at(self._spool_dir, offset.spool)
        self._history.count_batch(spool, offset.epoch)
        spool.commit(offset.epoch)
        self._history.committed(offset.epoch)

    def stop(self) -> None:
        """Close the connections, and release the spool and the channel."""
        if self._depth_client is not None:
            self._depth_client.close()
        self._claim.release()
        self._lease.release()

    def _ask(self) -> list[Depth]:
        if self._depth_client is None:
            from .depth import DepthClient  # noqa: PLC0415 - tasks need neither it nor httpx

            self._depth_client = DepthClient(self._options)
        return self._depth_client.ask()

    def _open(self, spool: str) -> Spool:
        opened = Spool.open(self._spool_dir, spool, self._options.topic, self._options.channel)
        self._lease.hold(opened.path)
        return opened

    def _claim_channel(self, depths: Sequence[Depth]) -> None:
        # Not before the first plan: if `prepareForTriggerAvailableNow` of one source fails, Spark stops none
        # of them, and the claims of the others would outlive the query.
        if not self._options.share_channel:
            self._claim.take(depth.nsqd for depth in depths)

    def _wait_if_idle(self) -> None:
        """Wait for ``pollInterval``: without a trigger, Spark asks again after some milliseconds."""
        if self._idle_since is not None and not self._history.has_target:
            time.sleep(max(0.0, self._idle_since + self._options.poll_interval - time.monotonic()))

    def _nsqds(self, batch: Plan) -> tuple[str, ...]:
        """Return all known nsqds that the query reads."""
        known = self._options.nsqds
        if not known and not self._latest:
            # The batch was planned before the query was restarted, and its nsqds may have moved.
            try:
                self._latest = self._ask()
            except HTTPError as error:
                _log.warning("cannot find the nsqds: %s", error)
        found = [*(nsqd for nsqd, _ in batch), *known, *(depth.nsqd for depth in self._latest)]
        return tuple(dict.fromkeys(found))

    def _max_rows(self, limit: ReadLimit, waiting: list[Depth]) -> int | None:
        match limit:
            case ReadMaxRows(max_rows=rows):
                return rows
            case ReadAllAvailable():
                return None
            case ReadMinRows(min_rows=rows):
                enough = self._history.has_target or sum(depth.rows for depth in waiting) >= rows
                return self._options.max_rows_per_batch if enough else 0
            case _:
                raise InvalidOption(f"read limit {limit!r} is not valid: NSQ counts rows, so use ReadMaxRows")


class RefusedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises an error in the first method that Spark calls.

    PySpark 4.3.0 hides an error that ``DataSource.streamReader`` itself raises behind an UnboundLocalError,
    because it stops a reader that it never got.
    """

    def __init__(self, error: InvalidOption) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:
        self._refuse()

    def getDefaultReadLimit(self) -> ReadLimit:
        self._refuse()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002
        self._refuse()

    def prepareForTriggerAvailableNow(self) -> None:
        self._refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:  # noqa: ARG002
        self._refuse()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        self._refuse()

    def stop(self) -> None:
        """Do nothing: there is nothing to release."""

    def _refuse(self) -> NoReturn:
        raise self._error
