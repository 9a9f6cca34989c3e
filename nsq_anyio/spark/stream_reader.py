"""A streaming read: what Spark calls, in the order in which it calls.

``latestOffset`` plans a batch and makes its place in the spool, and Spark logs what it returns.
``partitions`` follows from that log alone, so that a restarted query has the same partitions, and looks
whether the spool still has what was made for them; ``read`` fills each one's part of the spool and replays
it, on an executor; ``commit`` deletes a batch that the sink has, when the next one is planned.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

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
from .depth import DepthClient
from .lease import Lease
from .options import ReadOptions
from .plan import Depth, plan, within_bytes
from .query_history import QueryHistory
from .spool import FORMAT, Plan, Spool
from .spooled_partition import SpooledPartition, read_spooled_partition

__all__ = ["NsqStreamReader"]

_log = logging.getLogger("nsq_anyio.spark")


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
        if options.drain:
            raise InvalidOption(
                "drain=true is for batch reads: a stream finishes what its spool has, so leave it out"
            )
        if options.max_rows is not None:
            raise InvalidOption(
                f"maxRows={options.max_rows} is for batch reads: use maxRowsPerBatch for a stream"
            )
        self._options = options
        self._spool_dir = options.spool_dir
        self._new_spool = str(uuid.uuid4())
        self._claim = Claim(options.topic, options.channel)
        self._depth_client = DepthClient(options)
        self._history = QueryHistory()
        self._lease = Lease()
        self._latest: list[Depth] = []
        self._idle_since: float | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name, as the next ones
        """Where a new query begins: a spool of its own."""
        return _Offset(self._new_spool, 0, []).as_dict()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """At most ``maxRowsPerBatch``."""
        return ReadMaxRows(self._options.max_rows_per_batch)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Plan the next batch by what waits now, and make its place; ``start`` itself when nothing waits.

        When nothing waited the last time either, it asks no sooner than ``pollInterval`` after that.

        :raises ClusterFailed: if no nsqlookupd, or no nsqd, answers
        :raises SpoolError: if the spool of the query is missing or another's, or cannot be written
        :raises InvalidOption: for a limit that NSQ cannot keep
        """
        begin = _Offset.of(start)
        if begin.epoch:
            self._history.count_batch(self._open(begin.spool), begin.epoch)
        self._wait_if_idle()
        self._latest = self._depth_client.ask()
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
        self._open(begin.spool).begin(begin.epoch + 1, parts)
        self._history.planned(begin.epoch + 1)
        return _Offset(begin.spool, begin.epoch + 1, parts).as_dict()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """For the query's progress, what was known when the last batch was planned.

        ``depth``: what waited at each nsqd. ``away``: how many partitions of this run have ended without the
        nsqd, where there are such.
        """
        if not self._latest:
            return None
        told: dict[str, Any] = {"depth": {depth.nsqd: depth.rows for depth in self._latest}}
        if self._history.away:
            told["away"] = dict(self._history.away)
        return told

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read as much as waits now, and then end, however much is published meanwhile.

        :raises ClusterFailed: if no nsqlookupd, or no nsqd, answers
        """
        self._history.set_target(self._depth_client.ask())

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
        """Fill the partition, or what is missing of it, and return its rows.

        :raises NSQError: as `fill` and `stored_rows`
        """
        assert isinstance(partition, SpooledPartition)  # noqa: S101 - they are made above
        return read_spooled_partition(self._options, self._spool_dir, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Delete from the spool what the sink has.

        :raises SpoolError: if it cannot be taken out
        """
        offset = _Offset.of(end)
        spool = Spool.at(self._spool_dir, offset.spool)
        self._history.count_batch(spool, offset.epoch)
        spool.commit(offset.epoch)

    def stop(self) -> None:
        """Close the connections; nobody uses the spool or reads the channel any more."""
        self._depth_client.close()
        self._claim.release()
        self._lease.release()

    def _open(self, spool: str) -> Spool:
        opened = Spool.open(self._spool_dir, spool, self._options.topic, self._options.channel)
        self._lease.hold(opened.path)
        return opened

    def _claim_channel(self, depths: Sequence[Depth]) -> None:
        # Not before the first plan: where `prepareForTriggerAvailableNow` of one source fails, Spark stops
        # none of them, and the claims of the others would outlive the query.
        if not self._options.share_channel:
            self._claim.take(depth.nsqd for depth in depths)

    def _wait_if_idle(self) -> None:
        """Spark asks an idle query that has no trigger again after some milliseconds."""
        if self._idle_since is not None and not self._history.has_target:
            time.sleep(max(0.0, self._idle_since + self._options.poll_interval - time.monotonic()))

    def _nsqds(self, batch: Plan) -> tuple[str, ...]:
        """All that the query reads, as far as they are known."""
        known = self._options.nsqds
        if not known and not self._latest:
            # A batch that was planned before the query started again; its nsqds may have moved.
            try:
                self._latest = self._depth_client.ask()
            except HTTPError as error:
                _log.warning("it is not known which nsqds there are: %s", error)
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
