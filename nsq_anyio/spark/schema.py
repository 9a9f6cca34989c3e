"""The columns of a read, for Spark and for Arrow."""

from __future__ import annotations

from array import array
from typing import Any

import pyarrow as pa

__all__ = ["TIMESTAMP", "arrow_schema", "columns", "no_rows", "repeated"]

TIMESTAMP = pa.timestamp("us", tz="UTC")
_COLUMNS = {
    "body": "binary",
    "id": "string",
    "timestamp": "timestamp",
    "attempts": "int",
    "topic": "string",
    "channel": "string",
    "nsqd": "string",
}
_FIELDS: list[pa.Field[Any]] = [
    pa.field("body", pa.binary()),
    pa.field("id", pa.string()),
    pa.field("timestamp", TIMESTAMP),
    pa.field("attempts", pa.int32()),
    pa.field("topic", pa.string()),
    pa.field("channel", pa.string()),
    pa.field("nsqd", pa.string()),
]
_ARROW_SCHEMA = pa.schema(_FIELDS)


def columns(*, headers: bool = False) -> dict[str, str]:
    """Return the types of the columns by their names, in Spark's notation.

    :param headers: whether bodies are opened, so that a column ``headers`` follows ``body``
    """
    return {"body": _COLUMNS["body"], "headers": "map<string,string>", **_COLUMNS} if headers else _COLUMNS


def arrow_schema() -> pa.Schema:
    """Return the columns of messages as they came, without ``headers``, as an Arrow schema."""
    return _ARROW_SCHEMA


# When Arrow first converts a Python value it imports pandas, which takes a task a second. So the columns of a
# read are made of buffers.


def no_rows() -> pa.RecordBatch:
    """Return these columns without a row."""
    columns: list[pa.Array[Any]] = [pa.nulls(0, field.type) for field in _FIELDS]
    return pa.record_batch(columns, schema=_ARROW_SCHEMA)


def repeated(text: str, count: int) -> pa.Array[Any]:
    """Return a column of strings that has the same text in each row.

    :param text: not empty
    """
    content = text.encode()
    ends = array("i", range(0, len(content) * count + 1, len(content)))
    return pa.Array.from_buffers(
        pa.string(), count, [None, pa.py_buffer(ends), pa.py_buffer(content * count)]
    )
