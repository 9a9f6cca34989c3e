"""The shared parts of pipelines: their source, the progress of a query, and the cause of a failure."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ...errors import InvalidOption, NSQError
from ...options.checks import check_seconds
from ..depth import channel_depths
from ..options import read_options
from ..source import NsqDataSource
from ..stream_reader import NsqStreamReader

Trigger: TypeAlias = Literal["available-now"] | float
"""The schedule of batches. ``available-now`` reads the messages that wait at the start, and ends. A number is
the seconds from the start of one batch to the start of the next, until the pipeline is stopped."""

Option: TypeAlias = str | int | float | bool

_log = logging.getLogger("nsq_anyio.spark")


# The line after the indented lines: the error that Python raised in a worker, or in the reader's process.
_PYTHON_ERROR = re.compile(
    r"Traceback \(most recent call last\):\n(?:[ \t]+.*\n)+(?:[\w]+\.)*(\w+(?:: .+)?)$", re.MULTILINE
)

# PySpark 4.3.0 itself raises this when a source has raised while making its reader.
_HIDES_THE_CAUSE = "UnboundLocalError: cannot access local variable 'reader'"

# The error that Java raised, and its causes.
_JAVA_ERROR = re.compile(r"^(?::|Caused by:) (?:[\w$]+\.)*([\w$]+(?:: .+)?)$", re.MULTILINE)

SKIPPED = "skipped"
"""The name of the observation, and of its column, that counts the messages that a pipeline cannot use."""

_POLL_INTERVAL = 0.2


class Source:
    """A channel of NSQ, with the options of ``format("nsq")``, checked before Spark plans anything."""

    def __init__(
        self,
        *,
        topic: str,
        channel: str,
        nsqlookupd: str | Sequence[str] | None,
        nsqd: str | Sequence[str] | None,
        spool_dir: str,
        options: Mapping[str, Option] | None,
    ) -> None:
        self._texts = option_texts(
            {
                "topic": topic,
                "channel": channel,
                "nsqlookupd": comma_separated(nsqlookupd),
                "nsqd": comma_separated(nsqd),
                "spoolDir": spool_dir,
            },
            options,
        )
        self._options = read_options(self._texts)
        NsqStreamReader(self._options)  # refuses the options of batch reads

    def load(self, spark: SparkSession) -> DataFrame:
        """Return the stream of the channel's messages.

        :raises PipelineFailed: if Spark refuses the source
        """
        spark.dataSource.register(NsqDataSource)
        with spark_errors_explained():
            return spark.readStream.format("nsq").options(**self._texts).load()

    def lag(self) -> int | None:
        """Return the number of messages that wait in the channel; None if no server answers."""
        try:
            return sum(depth.rows for depth in channel_depths(self._options))
        except NSQError as error:
            # The lag is only for display: a lasting failure ends the query itself.
            _log.warning("cannot determine the lag: %s", error)
            return None


def comma_separated(addresses: str | Sequence[str] | None) -> str | None:
    """Join addresses for the options of ``format("nsq")``; None if there are none."""
    return addresses if isinstance(addresses, str) else ",".join(addresses or ()) or None


def option_texts(given: Mapping[str, Option | None], more: Mapping[str, Option] | None) -> dict[str, str]:
    """Return the options that are set as strings, which is how Spark passes them on.

    :raises InvalidOption: for an option that is in both, in any case
    """
    texts = {key: _text(value) for key, value in given.items() if value is not None}
    known = {key.lower(): key for key in given}
    for key, value in (more or {}).items():
        if key.lower() in known:
            raise InvalidOption(
                f"option {key}={value!r} is not valid here: {known[key.lower()]} has its own argument"
            )
        texts[key] = _text(value)
    return texts


def _text(value: Option) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def run(
    writer: DataStreamWriter,
    source: Source,
    *,
    checkpoint: str,
    trigger: Trigger,
    on_progress: OnProgress | None,
    stop: threading.Event | None,
) -> Summary:
    """Start the query and follow it to its end.

    :raises InvalidOption: for a trigger that is not valid
    :raises PipelineFailed: if the query fails
    """
    writer = writer.option("checkpointLocation", checkpoint)
    if trigger == "available-now":
        writer = writer.trigger(availableNow=True)
    elif isinstance(trigger, str):
        raise InvalidOption(f"trigger={trigger!r} is not valid: use 'available-now' or seconds")
    else:
        check_seconds("trigger", trigger, 0)
        writer = writer.trigger(processingTime=f"{round(trigger * 1000)} milliseconds")
    source.lag()  # logs that a channel is new, before the query creates it in another process
    with spark_errors_explained():
        query = writer.start()
    return follow(query, lag=source.lag, on_progress=on_progress, stop=stop)


class PipelineFailed(NSQError):
    """A pipeline's job failed in Spark; the text is the cause, and ``__cause__`` is Spark's whole error."""


@contextmanager
def spark_errors_explained() -> Generator[None]:
    """Turn Spark's errors in the block into their causes.

    :raises PipelineFailed: for any error of Spark, also if its JVM has ended
    """
    try:
        yield
    except ConnectionRefusedError as error:
        raise PipelineFailed(
            "Spark's JVM has ended: its log may say why; if its memory was too small, set spark.driver.memory"
        ) from error
    except (PySparkException, Py4JError) as error:
        raise failed(error) from error


def failed(error: BaseException) -> PipelineFailed:
    """Return the `PipelineFailed` for an error of Spark."""
    texts = list(_texts(error))
    for pattern in (_PYTHON_ERROR, _JAVA_ERROR):
        for text in texts:
            # Python prints the cause of an error before it, Java after it.
            raised = [cause for cause in pattern.findall(text) if not cause.startswith(_HIDES_THE_CAUSE)]
            if raised:
                return PipelineFailed(raised[-1])
    lines = filter(None, map(str.strip, texts[-1].splitlines()))
    return PipelineFailed(next(lines, type(error).__name__))


def _texts(error: BaseException | None) -> Iterator[str]:
    """Yield the text of the error and of each of its causes; Spark has its own attribute for causes."""
    while error is not None:
        yield str(error)
        error = error.__cause__ or getattr(error, "_cause", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The progress of a pipeline.

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
    :ivar skipped: the rows among them that the pipeline could not use
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
        """Count the new reports, and return the progress of batches with rows, still without the lag."""
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
    """Wait until the query ends, and stop it in any case.

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
