"""The columns of a read."""

from __future__ import annotations

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from nsq_anyio.spark.schema import SCHEMA, arrow_schema


def test_arrow_has_the_columns_that_spark_was_told_of() -> None:
    told = [tuple(column.split()) for column in SCHEMA.split(", ")]
    found: StructType = from_arrow_schema(arrow_schema())
    assert [(field.name, field.dataType.simpleString().upper()) for field in found.fields] == told
