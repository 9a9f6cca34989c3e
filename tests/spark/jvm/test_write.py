"""Writes: every row becomes a message, and a wrong row is named before anything of it is published."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from nsq_anyio.spark import NsqDataSource

from ..conftest import new_name
from ..nsqds import Topic
from .query import Query

pytestmark = pytest.mark.timeout(300)


def test_every_partition_publishes_its_rows(spark: SparkSession, topic: Topic) -> None:
    _write(spark.range(5_000, numPartitions=4).selectExpr("CAST(id AS STRING) AS body"), topic)
    assert sorted(map(int, topic.take(5_000))) == list(range(5_000))
    assert topic.state().left == 0


def test_binary_and_empty_bodies_arrive_as_they_are(spark: SparkSession, topic: Topic) -> None:
    bodies = [b"\x00\xff\n", "snowman \u2603".encode(), b"x" * 100_000]
    _write(_frame(spark, "body BINARY", [(body,) for body in bodies]), topic)
    assert sorted(topic.take(3)) == sorted(bodies)


def test_rows_choose_their_topics(spark: SparkSession, topic: Topic) -> None:
    other = topic.nsqd.topic(new_name())
    rows = [(str(number), (topic if number % 3 else other).name) for number in range(300)]
    options = {"nsqd": topic.nsqd.tcp_address}
    _save(_frame(spark, "body STRING, topic STRING", rows), options)
    assert sorted(map(int, other.take(100))) == list(range(0, 300, 3))
    assert len(topic.take(200)) == 200


def test_rows_are_deferred(spark: SparkSession, topic: Topic) -> None:
    rows = [("now", None), ("later", 1.5)]
    begun_at = time.monotonic()
    _write(_frame(spark, "body STRING, defer DOUBLE", rows), topic)
    assert topic.take(2) == [b"now", b"later"]
    assert time.monotonic() - begun_at >= 1.5


def test_stream_is_written(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    topic.publish_numbers(1_500)
    target = topic.nsqd.topic(new_name())
    query = Query.of(topic, tmp_path)
    spark.dataSource.register(NsqDataSource)
    running = (
        spark.readStream.format("nsq")
        .options(**query.options)
        .load()
        .select("body")
        .writeStream.format("nsq")
        .options(nsqd=target.nsqd.tcp_address, topic=target.name, checkpointLocation=query.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert running.awaitTermination(50), running.lastProgress
    finally:
        running.stop()
    assert sorted(map(int, target.take(1_500))) == list(range(1_500))
    assert (topic.state().left, target.state().left) == (0, 0)


@pytest.mark.parametrize(
    ("schema", "row", "named"),
    [
        pytest.param("body STRING", (None,), ["column body", "row 1 ", "null"], id="null-body"),
        pytest.param("body BINARY", (b"",), ["column body", "row 1 ", "empty"], id="empty-body"),
        pytest.param(
            "body STRING",
            ("x" * 1_048_577,),
            ["column body", "row 1 ", "1048577", "1048576"],
            id="oversized-body",
        ),
        pytest.param("text STRING", ("x",), ["column body", "text"], id="missing-column"),
        pytest.param("body INT", (1,), ["column body", "int", "binary", "string"], id="wrong-type"),
        pytest.param(
            "body STRING, topic STRING",
            ("x", "no topic"),
            ["column topic", "row 1 ", "no topic"],
            id="bad-topic",
        ),
        pytest.param(
            "body STRING, defer DOUBLE", ("x", -1.0), ["column defer", "row 1 ", "-1.0"], id="bad-defer"
        ),
    ],
)
def test_wrong_row_is_named_and_nothing_is_published(
    schema: str, row: tuple[Any, ...], named: list[str], spark: SparkSession, real_topic: Topic
) -> None:
    options = {"nsqd": real_topic.nsqd.tcp_address}
    if "topic" not in schema:
        options["topic"] = real_topic.name
    with pytest.raises(PySparkException) as caught:
        _save(_frame(spark, schema, [row]), options)
    for word in named:
        assert word in str(caught.value)
    assert real_topic.state().left == 0


def test_write_names_the_nsqd_that_it_cannot_reach(spark: SparkSession, unreachable: str) -> None:
    with pytest.raises(PySparkException, match=unreachable):
        _save(
            _frame(spark, "body STRING", [("x",)]), {"nsqd": unreachable, "topic": "t", "connectTimeout": "1"}
        )


def _frame(spark: SparkSession, schema: str, rows: Sequence[tuple[Any, ...]]) -> DataFrame:
    return spark.createDataFrame(rows, schema)


def _write(frame: DataFrame, topic: Topic) -> None:
    _save(frame, {"nsqd": topic.nsqd.tcp_address, "topic": topic.name})


def _save(frame: DataFrame, options: dict[str, str]) -> None:
    frame.sparkSession.dataSource.register(NsqDataSource)
    frame.write.format("nsq").options(**options).mode("append").save()
