"""Turns messages into rows."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ..consumer import Message

__all__ = ["SCHEMA", "arrow_schema", "record_batch", "warm_up"]

SCHEMA = (
    "body BINARY, id STRING, timestamp TIMESTAMP, attempts INT, topic STRING, channel STRING, nsqd STRING"
)
"""The columns in Spark's notation; ``timestamp`` is when nsqd received the message."""

_TIMESTAMP = pa.timestamp("us", tz="UTC")
_FIELDS: list[pa.Field[Any]] = [
    pa.field("body", pa.binary()),
    pa.field("id", pa.string()),
    pa.field("timestamp", _TIMESTAMP),
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


def record_batch(messages: Sequence[Message]) -> pa.RecordBatch:
    """Return messages of one consumer from one nsqd as rows, in order."""
    count = len(messages)
    if not count:
        return pa.RecordBatch.from_pylist([], schema=_ARROW_SCHEMA)
    first = messages[0]
    columns: list[pa.Array[Any]] = [
        _binary([message.body for message in messages]),
        # The cast checks that all are UTF-8.
        _binary([message.wire_id for message in messages]).cast(pa.string()),
        # nsqd counts nanoseconds, Spark microseconds.
        _numbers(array("q", [message.timestamp // 1000 for message in messages]), _TIMESTAMP),
        _numbers(array("i", [message.attempts for message in messages]), pa.int32()),
        pa.repeat(first.topic, count),
        pa.repeat(first.channel, count),
        pa.repeat(first.nsqd, count),
    ]
    return pa.record_batch(columns, schema=_ARROW_SCHEMA)


# Passing ready-made buffers to Arrow takes half the time of converting each value.


def _binary(values: Sequence[bytes]) -> pa.Array[Any]:
    offsets = array("i", itertools.accumulate(map(len, values), initial=0))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def _numbers(values: array[int], type_: pa.DataType) -> pa.Array[Any]:
    return pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(values)])
