"""The columns of a read, for Spark and for Arrow."""

from __future__ import annotations

from array import array
from typing import Any

import pyarrow as pa

__all__ = ["SCHEMA", "TIMESTAMP", "arrow_schema", "no_rows", "repeated"]

SCHEMA = (
    "body BINARY, id STRING, timestamp TIMESTAMP, attempts INT, topic STRING, channel STRING, nsqd STRING"
)
"""The columns in Spark's notation; ``timestamp`` is when nsqd received the message."""

TIMESTAMP = pa.timestamp("us", tz="UTC")
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


def arrow_schema() -> pa.Schema:
    """Return the same columns as an Arrow schema."""
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
