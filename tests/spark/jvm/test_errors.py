"""What goes wrong is named where users of Spark see it, and nothing is lost by it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession

from nsq_anyio.spark import NsqDataSource

from ..conftest import TRIES
from ..nsqds import Topic
from ..rows import on_disk
from .faults import Fault
from .query import Query

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        pytest.param({"maxInFlight": "many"}, ["maxInFlight", "many"], id="malformed"),
        pytest.param({"maxWait": "-1"}, ["maxWait", "-1"], id="out-of-range"),
        pytest.param({"maxInFlite": "5"}, ["maxinflite", "maxInFlight"], id="unknown"),
        pytest.param({"topic": "no topic"}, ["topic", "no topic"], id="bad-name"),
        pytest.param({"compression": "gzip"}, ["compression", "gzip", "snappy"], id="no-such-choice"),
    ],
)
def test_malformed_option_is_named(
    options: dict[str, str], named: list[str], spark: SparkSession, real_topic: Topic
) -> None:
    spark.dataSource.register(NsqDataSource)
    with pytest.raises(PySparkException) as caught:
        spark.read.format("nsq").options(**real_topic.options | options).load().collect()
    for word in named:
        assert word in str(caught.value)


def test_stream_without_a_spool_says_why_it_needs_one(spark: SparkSession, real_topic: Topic) -> None:
    spark.dataSource.register(NsqDataSource)
    with pytest.raises((PySparkException, StreamingQueryException), match="no spoolDir: ") as caught:
        frame = spark.readStream.format("nsq").options(**real_topic.options).load()
        frame.writeStream.format("noop").trigger(availableNow=True).start().awaitTermination(30)
    assert "UnboundLocalError" not in str(caught.value), "PySpark hides what is raised too early"


def test_unreachable_nsqd_is_named_by_a_batch_read(spark: SparkSession, unreachable: str) -> None:
    spark.dataSource.register(NsqDataSource)
    servers = {"nsqd": unreachable, "nsqdHttp": f"http://{unreachable}"}
    options = {**servers, "topic": "t", "channel": "c", "drain": "true"}
    with pytest.raises(PySparkException, match=unreachable):
        spark.read.format("nsq").options(**options).load().collect()


def test_unreachable_nsqd_is_named_by_a_task(
    spark: SparkSession, real_topic: Topic, unreachable: str, tmp_path: Path
) -> None:
    """Its HTTP side answers, so that rows are planned; a task cannot read them, and must not find none."""
    real_topic.publish_numbers(10)
    spark.dataSource.register(NsqDataSource)
    options = real_topic.options | {"nsqd": unreachable, "connectTimeout": "0.5", "drain": "true"}
    with pytest.raises(PySparkException, match=unreachable):
        spark.read.format("nsq").options(**options).load().collect()
    query = Query.of(real_topic, tmp_path, nsqd=unreachable, connectTimeout=0.5)
    with pytest.raises(StreamingQueryException, match=unreachable):
        query.run(spark)
    assert real_topic.state().left == 10


def test_full_disk_under_the_spool_is_named_and_nothing_is_lost(
    spark: SparkSession, real_topic: Topic, tmp_path: Path
) -> None:
    real_topic.publish_numbers(1_000)
    query = Query.of(real_topic, tmp_path, minPartitions=1)
    # Spark tries the task again, and each attempt finds the disk full.
    faults = query.faults(*[Fault("read", "disk")] * TRIES)
    with pytest.raises(StreamingQueryException) as caught:
        query.run(spark, faults)
    assert faults.happened() == TRIES
    assert str(query.spool) in str(caught.value)
    files = [path for path in on_disk(query.spool).rglob("*") if path.is_file()]
    assert not [path for path in files if path.stat().st_size >= 2_000]
    ledger = query.run_out(spark)
    ledger.check(range(1_000))
