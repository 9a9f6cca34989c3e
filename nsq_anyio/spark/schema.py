"""The columns of a read, for Spark and for Arrow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

__all__ = ["SCHEMA", "TIMESTAMP", "arrow_schema", "warm_up"]

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


def warm_up() -> None:
    """Make Arrow import what it needs for rows, before there is a connection to serve.

    When Arrow first converts a Python value it imports pandas, which takes seconds on a busy machine.
    """
    pa.repeat("", 1)
