"""How fast Spark reads and writes NSQ, beside go-nsq and this package without Spark, in the same run.

NSQ_ANYIO_SPARK_MESSAGES sets how many messages each side is timed with; more of them hide the start of a job.
NSQ_ANYIO_SPARK_JOBS sets how many jobs there are, NSQ_ANYIO_SPARK_IN_FLIGHT a task's ``maxInFlight``, and
NSQ_ANYIO_SPARK_MAX_RDY the --max-rdy-count of nsqd; by default they are those that users have.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession, functions
from pyspark.sql.datasource import DataSource

from nsq_anyio.spark import NsqDataSource

from ...benchmarks.contenders import GO, OURS, Contender
from ...benchmarks.interpreter import MeasuredPython
from ...benchmarks.measure import measure
from ...benchmarks.nsqds import MEMORY_QUEUE, Nsqds, running_nsqds
from ...benchmarks.spark.bare import BareSource
from ...benchmarks.surroundings import SHARED
from ...benchmarks.workloads import Workload

MESSAGES = int(os.environ.get("NSQ_ANYIO_SPARK_MESSAGES", "500000"))
WARM_UP = 200_000
JOBS = int(os.environ.get("NSQ_ANYIO_SPARK_JOBS", "3"))
"""Of the same size. The median of all but the first counts, during which Java compiles what handles a row."""
SIZE = 100
IN_FLIGHT = os.environ.get("NSQ_ANYIO_SPARK_IN_FLIGHT")
MAX_RDY = int(os.environ.get("NSQ_ANYIO_SPARK_MAX_RDY", "2500"))

LEAST_READ = 0.5
"""Of go-nsq's rate: half of what is expected, for machines that do other work meanwhile."""
LEAST_WRITE = 0.25
"""Of the rate of publish_many: likewise."""

pytestmark = pytest.mark.timeout(300)


class Rates(list[float]):
    """The rows per second of each job."""

    @property
    def warm(self) -> float:
        """The median of all but the first."""
        return statistics.median(self[1:])

    def __str__(self) -> str:
        each = ", ".join(f"{rate:,.0f}" for rate in self)
        return f"{self.warm:,.0f} ({each})"


def test_streaming_read_keeps_up_with_go_nsq(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = Workload(name="read", title="go-nsq", timed=MESSAGES - WARM_UP, warm_up=WARM_UP, size=SIZE)
    with running_nsqds(max_rdy_count=MAX_RDY) as nsqds:
        go = _rate(work, GO, nsqds, "go")
        nsqds.create("read", "spark")
        stream = Rates()
        for _ in range(JOBS):
            nsqds.fill("read", "spark", MESSAGES, SIZE)
            stream.append(_read(spark, nsqds, tmp_path, MESSAGES))
        batch = Rates()
        for _ in range(JOBS):
            nsqds.fill("read", "spark", MESSAGES, SIZE)
            batch.append(_read_batch(spark, nsqds, tmp_path, MESSAGES))
        nsqds.check_consumed("read", "spark", 2 * JOBS * MESSAGES, 2 * JOBS * MESSAGES, answered=True)
    with capsys.disabled():
        print(f"\nstreaming read {stream} rows/s, go-nsq {go:,.0f} msg/s: {stream.warm / go:.2f}")  # noqa: T201 - for the log of CI
        print(f"batch read {batch} rows/s: {batch.warm / go:.2f}")  # noqa: T201 - likewise
    assert min(stream.warm, batch.warm) >= LEAST_READ * go


def test_write_keeps_up_with_publish_many(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    work = Workload(
        name="write",
        title="publish_many of 1,000",
        kind="publish",
        timed=MESSAGES // 2,
        warm_up=WARM_UP,
        size=SIZE,
        batch=1_000,
        concurrency=2,
    )
    ours = OURS[0]
    # Beyond it, nsqd would write to its disk.
    with running_nsqds(memory_queue=max(MEMORY_QUEUE, MESSAGES)) as nsqds:
        alone, bare, written = Rates(), Rates(), Rates()
        for _ in range(JOBS):
            alone.append(_rate(work, ours, nsqds, "alone"))
            bare.append(_write(spark, nsqds, BareSource, MESSAGES))
            written.append(_write(spark, nsqds, NsqDataSource, MESSAGES))
    with capsys.disabled():
        print(f"\nwrite {written} rows/s")  # noqa: T201 - for the log of CI
        print(f"publish_many {alone} msg/s: {written.warm / alone.warm:.2f}")  # noqa: T201 - likewise
        print(f"bare sink {bare} rows/s: {bare.warm / alone.warm:.2f} of publish_many")  # noqa: T201 - likewise
    assert written.warm >= LEAST_WRITE * alone.warm


def _rate(work: Workload, contender: Contender, nsqds: Nsqds, topic: str) -> float:
    """Return the messages per second of a client without Spark."""
    command = contender.prepare(MeasuredPython.ask(sys.executable))
    return measure(work, contender, command, nsqds, SHARED, topic)["rate"]


def _options(nsqds: Nsqds, directory: Path) -> dict[str, Any]:
    (server,) = nsqds.servers
    return {
        "nsqd": server.tcp_address,
        "nsqdHttp": server.http_url,
        "topic": "read",
        "channel": "spark",
        "spoolDir": str(directory / "spool"),
        "minPartitions": 2,
        **({} if IN_FLIGHT is None else {"maxInFlight": IN_FLIGHT}),
    }


def _read_batch(spark: SparkSession, nsqds: Nsqds, directory: Path, rows: int) -> float:
    """Read what waits by a batch job, through a spool; return the rows per second."""
    frame = spark.read.format("nsq").options(**_options(nsqds, directory)).load()
    started_at = time.perf_counter()
    frame.write.format("noop").mode("append").save()
    return rows / (time.perf_counter() - started_at)


def _read(spark: SparkSession, nsqds: Nsqds, directory: Path, rows: int) -> float:
    """Read what waits, through a spool; return the rows per second of all of Spark's batches together."""
    spark.dataSource.register(NsqDataSource)
    query = (
        spark.readStream.format("nsq")
        .options(**_options(nsqds, directory))
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(100), f"the query goes on: {query.lastProgress}"
    finally:
        query.stop()
    batches = [batch for batch in query.recentProgress if batch.numInputRows]
    assert sum(batch.numInputRows for batch in batches) == rows
    return rows / sum(batch.durationMs["triggerExecution"] for batch in batches) * 1e3


def _write(spark: SparkSession, nsqds: Nsqds, sink: type[DataSource], rows: int) -> float:
    """Write rows of two partitions; return the rows per second.

    All have the same body, as publish_many's: it is the writing that is measured, and not what makes rows.
    """
    spark.dataSource.register(sink)
    nsqds.create("written", "")
    frame = spark.range(rows, numPartitions=2).select(functions.lit("." * SIZE).alias("body"))
    started_at = time.perf_counter()
    frame.write.format(sink.name()).options(nsqd=nsqds.addresses[0], topic="written").mode("append").save()
    rate = rows / (time.perf_counter() - started_at)
    nsqds.check_published("written", rows)
    nsqds.delete("written")
    return rate
