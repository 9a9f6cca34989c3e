"""The columns of a read."""

from __future__ import annotations

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from nsq_anyio.spark.schema import arrow_schema, columns


def test_arrow_has_the_columns_that_spark_was_told_of() -> None:
    found: StructType = from_arrow_schema(arrow_schema())
    assert {field.name: field.dataType.simpleString() for field in found.fields} == columns()


def test_headers_follow_the_body() -> None:
    names = list(columns(headers=True))
    assert names[:2] == ["body", "headers"]
    assert ["body", *names[2:]] == list(columns())
