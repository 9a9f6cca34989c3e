"""Follows a streaming query, and reports each batch and a summary."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from .failure import failed

SKIPPED = "skipped"
"""The name of the observation, and of its column, that counts the messages that a pipeline cannot use."""

_POLL_INTERVAL = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a pipeline has done so far.

    :ivar batch: the number of the batch that has just ended
    :ivar rows: the rows in that batch
    :ivar total: the rows in this run
    :ivar rows_per_second: the rate of that batch
    :ivar lag: the rows that still wait; None if that is unknown
    """

    batch: int
    rows: int
    total: int
    rows_per_second: float
    lag: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The result of one run of a pipeline.

    :ivar batches: the number of batches with rows
    :ivar rows: the rows that were read from NSQ, or published to it
    :ivar skipped: those of them that the pipeline could not use
    :ivar seconds: the duration of the run, with Spark's own preparations
    :ivar lag: the rows that still wait; None if that is unknown
    """

    batches: int
    rows: int
    skipped: int
    seconds: float
    lag: int | None

    @property
    def rows_per_second(self) -> float:
        """The mean over the whole run."""
        return self.rows / self.seconds if self.seconds else 0.0


OnProgress: TypeAlias = Callable[[Progress], object]
"""Called after each batch, in the thread that runs the pipeline."""


class _Tally:
    """Sums up the batches. Spark keeps the last hundred reports, and adds one every ten seconds when idle."""

    def __init__(self) -> None:
        self.batches = 0
        self.rows = 0
        self.skipped = 0
        self._last: tuple[str, int] | None = None

    def take(self, query: StreamingQuery) -> list[Progress]:
        """Count the new reports, and return the progress of those with rows, still without the lag."""
        last = query.lastProgress
        if last is None or _key(last) == self._last:
            return []
        reports = query.recentProgress
        keys = [_key(report) for report in reports]
        new = reports[keys.index(self._last) + 1 :] if self._last in keys else reports
        self._last = keys[-1]
        return [self._count(report) for report in new if report.numInputRows]

    def _count(self, report: StreamingQueryProgress) -> Progress:
        rows = report.numInputRows or 0
        self.batches += 1
        self.rows += rows
        observed = report.observedMetrics.get(SKIPPED)
        if observed is not None:
            self.skipped += observed[SKIPPED]
        return Progress(
            batch=report.batchId,
            rows=rows,
            total=self.rows,
            rows_per_second=report.processedRowsPerSecond or 0.0,
            lag=None,
        )


def _key(report: StreamingQueryProgress) -> tuple[str, int]:
    return report.timestamp, report.batchId


def follow(
    query: StreamingQuery,
    *,
    lag: Callable[[], int | None],
    on_progress: OnProgress | None = None,
    stop: threading.Event | None = None,
) -> Summary:
    """Wait until the query ends; however this function ends, the query is stopped.

    :param lag: returns the rows that still wait; called after each batch, and at the end
    :param on_progress: called after each batch
    :param stop: ends the query when it is set; the next run repeats a batch that was not complete
    :raises PipelineFailed: if the query fails
    """
    tally = _Tally()
    stopping = stop or threading.Event()
    started_at = time.monotonic()

    def report() -> None:
        for progress in tally.take(query):
            if on_progress is not None:
                on_progress(replace(progress, lag=lag()))

    try:
        while query.isActive and not stopping.wait(_POLL_INTERVAL):
            report()
        report()
        error = query.exception()
    finally:
        query.stop()
    if error is not None:
        raise failed(error) from error
    return Summary(
        batches=tally.batches,
        rows=tally.rows,
        skipped=tally.skipped,
        seconds=time.monotonic() - started_at,
        lag=lag(),
    )
