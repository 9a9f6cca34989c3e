"""``headers=true``: envelopes are opened in every kind of read, and the spool keeps messages as they came."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from nsq_anyio.envelope import encode
from nsq_anyio.spark import NsqDataSource

from ..nsqds import Topic
from .query import Query

pytestmark = pytest.mark.timeout(300)

DAMAGED = encode(b"x", {"name": "value"})[:12]
BODIES = [encode(b"payload", {"tenant": "a", "trace": "1"}), b"plain", DAMAGED]
ROWS = {(b"payload", (("tenant", "a"), ("trace", "1"))), (b"plain", ()), (DAMAGED, None)}


def seen(frame: DataFrame) -> set[tuple[bytes, Any]]:
    return {
        (bytes(row.body), None if row.headers is None else tuple(row.headers.items()))
        for row in frame.select("body", "headers").collect()
    }


@pytest.mark.parametrize("way", ["peek", "drain", "spoolDir"])
def test_a_batch_read_opens_envelopes(
    way: str, spark: SparkSession, real_topic: Topic, tmp_path: Path
) -> None:
    real_topic.publish(BODIES)
    spark.dataSource.register(NsqDataSource)
    chosen = {way: str(tmp_path) if way == "spoolDir" else "true"}
    read = {**real_topic.options, **chosen, "headers": "true", "maxWait": "10"}
    frame = spark.read.format("nsq").options(**read).load()
    assert frame.schema.simpleString().startswith("struct<body:binary,headers:map<string,string>,id:string,")
    assert seen(frame) == ROWS


def test_a_stream_opens_them_and_its_spool_does_not(
    spark: SparkSession, real_topic: Topic, tmp_path: Path
) -> None:
    real_topic.publish(BODIES)
    # One task has all messages, however slow the machine is, and finishes them in time.
    patient = {"minPartitions": 1, "maxWait": 10, "msgTimeout": 60}
    query = Query.of(real_topic, tmp_path, headers="true", **patient)
    found: set[tuple[bytes, Any]] = set()

    def fail(frame: DataFrame, _batch: int) -> None:
        found.update(seen(frame))
        raise OSError("the sink is full")

    with pytest.raises(PySparkException, match="the sink is full"):
        query.run(spark, sink=fail)
    assert found == ROWS
    # The same rows once more, from the spool, and now by a query that does not ask for headers.
    bodies: set[bytes] = set()

    def keep(frame: DataFrame, _batch: int) -> None:
        bodies.update(bytes(row.body) for row in frame.select("body").collect())

    Query.of(real_topic, tmp_path, **patient).run(spark, sink=keep)
    assert bodies == set(BODIES)


def test_a_schema_without_headers_is_refused(spark: SparkSession, real_topic: Topic) -> None:
    spark.dataSource.register(NsqDataSource)
    reader = spark.read.format("nsq").options(**real_topic.options, peek="true", headers="true")
    with pytest.raises(PySparkException, match="body BINARY, headers MAP<STRING,STRING>, id STRING"):
        reader.schema("body BINARY").load().collect()
