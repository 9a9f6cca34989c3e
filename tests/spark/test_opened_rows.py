"""Envelopes are opened when rows are handed to Spark, and none makes a query fail."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from nsq_anyio.envelope import MAGIC, encode
from nsq_anyio.spark.options import ReadOptions
from nsq_anyio.spark.schema import columns
from nsq_anyio.spark.task import opened

from .rows import rows_of

WITH_HEADERS = ReadOptions(topic="t", channel="c", nsqds=("127.0.0.1:4150",), headers=True)

TRACE = encode(b"payload", {"traceparent": "00-1", "Text": "über\nzwei Zeilen", "empty": ""})
OPENED = [("traceparent", "00-1"), ("text", "über\nzwei Zeilen"), ("empty", "")]


def rows(bodies: Sequence[bytes]) -> list[tuple[bytes, Any]]:
    (batch,) = opened(iter([rows_of(bodies)]), WITH_HEADERS)
    batch.validate(full=True)
    return [(row["body"], row["headers"]) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("body", "payload", "headers"),
    [
        pytest.param(TRACE, b"payload", OPENED, id="an envelope"),
        pytest.param(encode(MAGIC, {}), MAGIC, [], id="an envelope without headers"),
        pytest.param(encode(b"", {"a": "b"}), b"", [("a", "b")], id="an empty payload"),
        pytest.param(b"plain", b"plain", [], id="no envelope"),
        pytest.param(b"\xff\x00", b"\xff\x00", [], id="binary"),
        pytest.param(MAGIC[:4], MAGIC[:4], [], id="a part of the magic"),
        pytest.param(MAGIC, MAGIC, None, id="cut off"),
        pytest.param(TRACE[:20], TRACE[:20], None, id="cut off within a header"),
        pytest.param(MAGIC + b"\x02\x00\x00x", MAGIC + b"\x02\x00\x00x", None, id="a later version"),
    ],
)
def test_what_a_row_shows(body: bytes, payload: bytes, headers: object) -> None:
    assert rows([body]) == [(payload, headers)]
    # Beside other bodies, and not only alone.
    assert rows([b"x", body, TRACE]) == [(b"x", []), (payload, headers), (b"payload", OPENED)]


def test_plain_bodies_have_empty_headers() -> None:
    assert rows([b"1", b"2"]) == [(b"1", []), (b"2", [])]


def test_the_columns_are_those_that_spark_was_told_of() -> None:
    for bodies in ([b"x"], [TRACE]):
        (batch,) = opened(iter([rows_of(bodies)]), WITH_HEADERS)
        found: StructType = from_arrow_schema(batch.schema)
        told = [(field.name, field.dataType.simpleString()) for field in found.fields]
        assert told == list(columns(headers=True).items())


def test_the_other_columns_stay() -> None:
    batch = rows_of([TRACE, b"x"])
    (found,) = opened(iter([batch]), WITH_HEADERS)
    for name in columns():
        assert name == "body" or found.column(name).to_pylist() == batch.column(name).to_pylist()


def test_the_rows_of_a_reader_that_is_not_asked_stay_unread() -> None:
    """A read with drain finishes a message only when Spark asks for the next rows."""
    asked: list[int] = []

    def batches() -> Iterable[pa.RecordBatch]:
        for number in range(2):
            asked.append(number)
            yield rows_of([b"x"])

    reading = opened(iter(batches()), WITH_HEADERS)
    assert asked == []
    next(reading)
    assert asked == [0]
