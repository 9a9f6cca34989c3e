"""``replay``: publish an archive to a topic again, oldest first, at a bounded rate."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name in programs for Spark
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ...errors import InvalidOption
from ...options.checks import check_integer
from ..options import write_options
from ..source import NsqDataSource
from .archive import Format, check_format, read_archive
from .query import (
    OnProgress,
    Option,
    PipelineFailed,
    Progress,
    Summary,
    comma_separated,
    option_texts,
    spark_errors_explained,
)

_EPOCH = datetime.fromtimestamp(0, UTC)
_MICROSECOND = timedelta(microseconds=1)
_HOUR = timedelta(hours=1)
_SPAN_SECONDS = 10
_MAX_SPAN_ROWS = 1_000_000
_TASK_RATE = 20_000
"""The most rows per second for one task, well below what a task can do."""
_MAX_TASKS = 100

_ROWS_AT_ONCE = "spark.sql.parquet.columnarReaderBatchSize"
_FEW = 16
"""The rows that a task keeps in memory when it reads Parquet. Spark's 4,096 are too many for large bodies."""


RATE = "rowsPerSecond"
"""The required option with the rate of each task, in rows per second."""

_BURSTS_PER_SECOND = 10

_MAX_BURST = 10_000


@dataclass(frozen=True, slots=True)
class _Span:
    """The messages that one job publishes: those with ``since <= timestamp < until``, all in one hour."""

    hour: datetime
    since: datetime
    until: datetime

    def rows(self, archive: DataFrame) -> DataFrame:
        """Return these messages; the first two conditions let Spark skip all other directories."""
        return archive.where(
            (F.col("date") == F.lit(self.hour.date()))
            & (F.col("hour") == self.hour.hour)
            & (F.col("timestamp") >= _literal(self.since))
            & (F.col("timestamp") < _literal(self.until))
        )


def replay(
    spark: SparkSession,
    *,
    input: str,
    topic: str,
    nsqd: str | Sequence[str],
    rate: int | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    format: Format = "parquet",
    options: Mapping[str, Option] | None = None,
    on_progress: OnProgress | None = None,
    stop: threading.Event | None = None,
) -> Summary:
    """Publish the messages of an archive, in spans of time that take about ten seconds each at ``rate``.

    Spans are published oldest first, and the messages of one span in any order. If it fails, the error says
    up to which time everything was published: continue with that time as ``since``.

    :param input: the ``output`` of the archive
    :param topic: the topic to publish to
    :param nsqd: the nsqds to publish to, as ``host:port``
    :param rate: the most messages per second, over all tasks, 1 or more; default None, without a limit
    :param since: publish messages from this time on, with a time zone; default None, from the oldest
    :param until: publish messages before this time, with a time zone; default None, to the newest
    :param format: the format of the archive; default ``parquet``
    :param options: more options of ``format("nsq")`` for writing
    :param on_progress: called after each span
    :param stop: set it from another thread to end after the current span
    :raises InvalidOption: for a value out of range, or a format that is not the archive's
    :raises PipelineFailed: if there is no archive, or Spark's job fails; the text names the cause
    """
    check_format(format)
    check_integer("rate", rate, 1, special=(None,))
    for name, value in (("since", since), ("until", until)):
        if value is not None and value.tzinfo is None:
            raise InvalidOption(f"{name}={value.isoformat()} has no time zone: add one, such as +00:00 or Z")
    sink = option_texts({"topic": topic, "nsqd": comma_separated(nsqd)}, options)
    write_options(sink)
    spark.dataSource.register(NsqDataSource if rate is None else PacedNsqDataSource)
    started_at = time.monotonic()
    batches = total = 0
    with _few_rows_at_once(spark):
        with spark_errors_explained():
            archive = read_archive(spark, input, format)
            hours = _hours(archive, since, until)
        waiting = sum(hours.values())
        for span in _spans(archive, hours, since, until, rate):
            if stop is not None and stop.is_set():
                break
            span_began_at = time.monotonic()
            rows = _publish(span.rows(archive), sink, rate, span)
            total += rows
            if rows:
                batches += 1
            if rows and on_progress is not None:
                seconds = time.monotonic() - span_began_at
                on_progress(
                    Progress(
                        batch=batches - 1,
                        rows=rows,
                        total=total,
                        rows_per_second=rows / seconds,
                        lag=waiting - total,
                    )
                )
    return Summary(
        batches=batches,
        rows=total,
        skipped=0,
        seconds=time.monotonic() - started_at,
        lag=waiting - total,
    )


@contextmanager
def _few_rows_at_once(spark: SparkSession) -> Generator[None]:
    before = str(spark.conf.get(_ROWS_AT_ONCE))
    spark.conf.set(_ROWS_AT_ONCE, _FEW)
    try:
        yield
    finally:
        with suppress(Py4JError, ConnectionRefusedError):  # of a JVM that has ended
            spark.conf.set(_ROWS_AT_ONCE, before)


def _hours(archive: DataFrame, since: datetime | None, until: datetime | None) -> dict[datetime, int]:
    """Count the messages of each hour, oldest first."""
    wanted = archive
    if since is not None:
        day = since.astimezone(UTC).date()
        wanted = wanted.where((F.col("date") >= F.lit(day)) & (F.col("timestamp") >= _literal(since)))
    if until is not None:
        day = until.astimezone(UTC).date()
        wanted = wanted.where((F.col("date") <= F.lit(day)) & (F.col("timestamp") < _literal(until)))
    counted = wanted.groupBy("date", "hour").count().collect()
    hours = {
        datetime(row["date"].year, row["date"].month, row["date"].day, row["hour"], tzinfo=UTC): row["count"]
        for row in counted
    }
    return dict(sorted(hours.items()))


def _spans(
    archive: DataFrame,
    hours: Mapping[datetime, int],
    since: datetime | None,
    until: datetime | None,
    rate: int | None,
) -> Iterator[_Span]:
    """Divide each hour into spans of about as many messages as are published in ten seconds.

    :raises PipelineFailed: if Spark cannot read the archive
    """
    span_rows = _MAX_SPAN_ROWS if rate is None else min(_MAX_SPAN_ROWS, rate * _SPAN_SECONDS)
    for hour, rows in hours.items():
        whole = _Span(hour, max(hour, since or hour), min(hour + _HOUR, until or hour + _HOUR))
        edges = _edges(whole.rows(archive), math.ceil(rows / span_rows))
        for begin, end in pairwise([whole.since, *edges, whole.until]):
            yield _Span(hour, begin, end)


def _edges(rows: DataFrame, count: int) -> list[datetime]:
    """Return the times between ``count`` spans of the rows; fewer if many rows have the same time."""
    if count == 1:
        return []
    shares = [number / count for number in range(1, count)]
    with spark_errors_explained():
        (row,) = rows.agg(F.percentile_approx(F.unix_micros("timestamp"), shares)).collect()
    # Just after the last message of a span, because the end of a span is exclusive.
    return [_EPOCH + (time + 1) * _MICROSECOND for time in sorted(set(row[0]))]


def _publish(rows: DataFrame, sink: Mapping[str, str], rate: int | None, span: _Span) -> int:
    """Publish the rows, and return their number."""
    counted = Observation()
    messages = rows.select("body").observe(counted, F.count(F.lit(1)).alias("rows"))
    if rate is None:
        writer = messages.write.format("nsq")
    else:
        # The number of tasks follows from the rate, so that the rate does not depend on the cores.
        tasks = min(_MAX_TASKS, math.ceil(rate / _TASK_RATE))
        paced = messages.repartition(tasks).write.format(PacedNsqDataSource.name())
        writer = paced.option(RATE, str(rate / tasks))
    try:
        with spark_errors_explained():
            writer.options(**sink).mode("append").save()
    except PipelineFailed as error:
        raise PipelineFailed(
            f"{error}; everything before {span.since.isoformat()} is published, and some of what "
            "follows: continue with that time as since"
        ) from error.__cause__
    return int(counted.get["rows"])


def _literal(time: datetime) -> Column:
    return F.timestamp_micros(F.lit((time - _EPOCH) // _MICROSECOND))


class PacedNsqDataSource(NsqDataSource):
    """Writes like `NsqDataSource`, but no task exceeds `RATE`; it does not read.

    The rate is limited right before the connection. If it were limited earlier, the buffers between Spark and
    the Python worker would let rows through in bursts of many seconds.
    """

    @classmethod
    def name(cls) -> str:
        return "nsq-paced"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        options = dict(self.options)
        rate = float(options.pop(RATE.lower()))
        return _PacedWriter(NsqDataSource(options).writer(schema, overwrite), rate)


class _PacedWriter(DataSourceArrowWriter):
    def __init__(self, writer: DataSourceArrowWriter, rate: float) -> None:
        self._writer = writer
        self._rate = rate

    def write(
        self,
        iterator: Iterator[pa.RecordBatch],  # type: ignore[override] # as Spark's own
    ) -> WriterCommitMessage:
        return self._writer.write(paced(iterator, self._rate))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._writer.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._writer.abort(messages)


def paced(batches: Iterator[pa.RecordBatch], rate: float) -> Iterator[pa.RecordBatch]:
    """Split batches into parts of a tenth of a second or less, and keep the rate, also after the last one."""
    burst = min(_MAX_BURST, math.ceil(rate / _BURSTS_PER_SECOND))
    for batch in batches:
        for start in range(0, batch.num_rows, burst):
            part = batch.slice(start, burst)
            began_at = time.monotonic()
            yield part
            time.sleep(max(0.0, began_at + part.num_rows / rate - time.monotonic()))
