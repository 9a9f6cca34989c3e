"""Batch reads: they drain up to a bound, or look at what is there and put it back."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from nsq_anyio.spark import NsqDataSource
from nsq_anyio.spark.spool_admin import find_spools

from ..nsqds import Topic, wait_until

pytestmark = pytest.mark.timeout(300)


def test_batch_read_drains_what_waits(spark: SparkSession, topic: Topic) -> None:
    topic.publish_numbers(1_500)
    rows = _read(spark, topic).select("body", "id").collect()
    assert sorted(int(row.body) for row in rows) == list(range(1_500))
    assert len({row.id for row in rows}) == 1_500
    assert topic.state().left == 0


def test_batch_read_takes_no_more_than_it_may(spark: SparkSession, topic: Topic) -> None:
    topic.publish_numbers(1_500)
    rows = _read(spark, topic, maxRows="600").select("body").collect()
    assert len({row.body for row in rows}) == 600
    wait_until(lambda: topic.state().in_flight == 0, "nsqd to see the end of the connection")
    state = topic.state()
    assert (state.left, state.requeued, state.timed_out) == (900, 0, 0)


def test_peek_puts_everything_back(spark: SparkSession, topic: Topic) -> None:
    topic.publish_numbers(800)
    frame = _read(spark, topic, peek="true", maxRows="500")
    assert len(frame.select("body").collect()) == 500
    wait_until(lambda: topic.state().in_flight == 0, "nsqd to take back what was looked at")
    state = topic.state()
    assert (state.left, state.deferred, state.timed_out) == (800, 0, 0)
    assert sorted(map(int, topic.take(800))) == list(range(800))


def test_batch_read_through_a_spool_keeps_it(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    topic.publish_numbers(500)
    rows = _read(spark, topic, spoolDir=str(tmp_path)).select("body").collect()
    assert len(rows) == 500
    assert list(tmp_path.rglob("*.arrow")), "NSQ has the rows no more, so that only the spool is left"
    assert topic.state().left == 0


def test_limit_does_not_take_anything_unasked(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    topic.publish_numbers(1_000)
    spark.dataSource.register(NsqDataSource)
    frame = spark.read.format("nsq").options(**topic.options, maxWait="0.5").load()
    with pytest.raises(PySparkException, match="none of peek, spoolDir and drain is set: "):
        frame.limit(5).collect()
    assert len(_read(spark, topic, peek="true").limit(5).collect()) == 5
    wait_until(lambda: topic.state().in_flight == 0, "nsqd to take back what was looked at")
    assert topic.state().left == 1_000
    assert len(_read(spark, topic, spoolDir=str(tmp_path)).limit(5).collect()) == 5
    (spool,) = find_spools(tmp_path)
    wait_until(lambda: topic.state().in_flight == 0, "nsqd to take back what was in flight")
    assert spool.rows + topic.state().left == 1_000, "what the job did not use is in the spool"


def test_read_that_has_enough_gives_back_what_it_holds(spark: SparkSession, topic: Topic) -> None:
    """LIMIT drops the task, with messages in flight."""
    topic.publish_numbers(5_000)
    assert len(_read(spark, topic, maxInFlight="100").limit(5).collect()) == 5
    wait_until(lambda: topic.state().in_flight == 0, "nsqd to take back what was in flight")
    state = topic.state()
    assert (state.depth, state.timed_out) == (state.left, 0)


def test_batch_read_of_nothing_is_empty(spark: SparkSession, topic: Topic) -> None:
    assert _read(spark, topic).collect() == []


def test_sql_reads_a_topic(spark: SparkSession, topic: Topic) -> None:
    topic.publish_numbers(10)
    _read(spark, topic).createOrReplaceTempView("numbers")
    (row,) = spark.sql("SELECT sum(CAST(CAST(body AS STRING) AS INT)) AS total FROM numbers").collect()
    assert row.total == pytest.approx(45)


def _read(spark: SparkSession, topic: Topic, **options: str) -> DataFrame:
    spark.dataSource.register(NsqDataSource)
    if not {"peek", "spoolDir"} & options.keys():
        options["drain"] = "true"
    return spark.read.format("nsq").options(**topic.options, maxWait="0.5", **options).load()
