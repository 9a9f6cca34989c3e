"""The sinks that Spark calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, CharType, DataType, NumericType, StringType, StructType, VarcharType

from ..errors import InvalidOption
from .options import WriteOptions

_TEXT = (StringType, CharType, VarcharType)


@dataclass(frozen=True, slots=True)
class Published(WriterCommitMessage):
    """The report of a task to the driver.

    :ivar rows: the number of rows that it has published
    """

    rows: int


class _Writer:
    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Published:
        """Publish the rows of one task, and return once nsqd has confirmed them."""
        from .publishing import publish_rows  # noqa: PLC0415 - reading needs none of it

        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        return Published(publish_rows(iterator, self._options, partition))


class NsqWriter(_Writer, DataSourceArrowWriter):  # type: ignore[misc] # batches, as Spark's own
    """Publishes the rows of a batch job."""


class NsqStreamWriter(_Writer, DataSourceStreamArrowWriter):  # type: ignore[misc] # as above
    """Publishes the rows of a streaming query, batch by batch."""


def check_columns(schema: StructType, options: WriteOptions) -> None:
    """Refuse rows that cannot be published, before any task starts.

    :raises InvalidOption: naming the column
    """
    names = schema.fieldNames()
    for name in ("body", "topic", "defer"):
        if names.count(name) > 1:
            raise InvalidOption(f"column {name} occurs {names.count(name)} times: keep one")
    types = {field.name: field.dataType for field in schema.fields}
    listed = ", ".join(names) or "none"
    if "body" not in types:
        raise InvalidOption(f"no column body among {listed}: rename one, as in selectExpr('value AS body')")
    _check_type(types, "body", (BinaryType, *_TEXT), "binary or string")
    _check_type(types, "defer", (NumericType,), "a number of seconds")
    if options.topic is not None:
        return
    if "topic" not in types:
        raise InvalidOption(f"no topic: set the option topic, or add a column topic to {listed}")
    _check_type(types, "topic", _TEXT, "string")


def _check_type(
    types: dict[str, DataType], name: str, allowed: tuple[type[DataType], ...], expected: str
) -> None:
    found = types.get(name)
    if found is not None and not isinstance(found, allowed):
        raise InvalidOption(f"column {name} has type {found.simpleString()}: use {expected}")
