"""The columns of a read, for Spark and for Arrow."""

from __future__ import annotations

import functools
from array import array
from typing import Any

import pyarrow as pa

TIMESTAMP = pa.timestamp("us", tz="UTC")
_COLUMNS: dict[str, tuple[str, pa.DataType]] = {
    "body": ("binary", pa.binary()),
    "id": ("string", pa.string()),
    "timestamp": ("timestamp", TIMESTAMP),
    "attempts": ("int", pa.int32()),
    "topic": ("string", pa.string()),
    "channel": ("string", pa.string()),
    "nsqd": ("string", pa.string()),
}
"""The type of each column in Spark's notation, and in Arrow."""

_FIELDS: list[pa.Field[Any]] = [pa.field(name, in_arrow) for name, (_, in_arrow) in _COLUMNS.items()]
_ARROW_SCHEMA = pa.schema(_FIELDS)


def columns(*, headers: bool = False) -> dict[str, str]:
    """Return the types of the columns by their names, in Spark's notation.

    :param headers: whether bodies are opened, so that a column ``headers`` follows ``body``
    """
    in_spark = {name: in_spark for name, (in_spark, _) in _COLUMNS.items()}
    return {"body": in_spark["body"], "headers": "map<string,string>", **in_spark} if headers else in_spark


def arrow_schema() -> pa.Schema:
    """Return the Arrow schema of messages as received, without ``headers``."""
    return _ARROW_SCHEMA


# Arrow imports pandas when it first converts a Python value, which costs a task a second. So the columns of a
# read are made from buffers.


def no_rows() -> pa.RecordBatch:
    """Return an empty batch with this schema."""
    columns: list[pa.Array[Any]] = [pa.nulls(0, field.type) for field in _FIELDS]
    return pa.record_batch(columns, schema=_ARROW_SCHEMA)


@functools.lru_cache(maxsize=16)
def repeated(text: str, count: int) -> pa.Array[Any]:
    """Return a column of strings that has the same text in each row.

    Full chunks have the same number of rows, so the most recent columns are cached.

    :param text: not empty
    """
    content = text.encode()
    ends = array("i", range(0, len(content) * count + 1, len(content)))
    return pa.Array.from_buffers(
        pa.string(), count, [None, pa.py_buffer(ends), pa.py_buffer(content * count)]
    )
