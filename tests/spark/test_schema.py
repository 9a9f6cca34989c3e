"""Messages become rows with the columns that Spark was told of."""

from __future__ import annotations

from datetime import UTC, datetime

import anyio
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from nsq_anyio.spark.bounded_reader import bounded_reader
from nsq_anyio.spark.schema import SCHEMA, arrow_schema, record_batch

from .nsqds import Topic
from .reading import options_of


def test_arrow_has_the_columns_that_spark_was_told_of() -> None:
    told = [tuple(column.split()) for column in SCHEMA.split(", ")]
    found: StructType = from_arrow_schema(arrow_schema())
    assert [(field.name, field.dataType.simpleString().upper()) for field in found.fields] == told


def test_nothing_is_no_rows() -> None:
    batch = record_batch([])
    assert batch.num_rows == 0
    assert batch.schema == arrow_schema()


def test_rows_are_what_nsqd_delivered(topic: Topic) -> None:
    bodies = [b"\x00\xff", b"text", "\u2603".encode()]
    began_at = datetime.now(UTC)
    topic.publish(bodies)

    async def take() -> tuple[pa.RecordBatch, list[tuple[str, int, int]]]:
        async with bounded_reader(options_of(topic), topic.nsqd.tcp_address, 100) as reader:
            chunk = await reader.take()
            rows = record_batch(chunk)
            return rows, [(message.id, message.timestamp, message.attempts) for message in chunk]

    batch, expected = anyio.run(take)
    assert batch.schema == arrow_schema()
    assert [(row["id"], row["attempts"]) for row in batch.to_pylist()] == [
        (id_, attempts) for id_, _, attempts in expected
    ]
    for row, (_, timestamp, _) in zip(batch.to_pylist(), expected, strict=True):
        assert row["timestamp"].timestamp() == pytest.approx(timestamp / 1e9, abs=1e-5)
        assert began_at <= row["timestamp"] <= datetime.now(UTC)
        assert (row["topic"], row["channel"], row["nsqd"]) == (
            topic.name,
            topic.channel,
            topic.nsqd.tcp_address,
        )
    assert sorted(row["body"] for row in batch.to_pylist()) == sorted(bodies)
