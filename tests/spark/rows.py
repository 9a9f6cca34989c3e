"""Rows as messages become them, without an nsqd."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import cast

import pyarrow as pa

from nsq_anyio.spark.chunks import Partition
from nsq_anyio.spark.schema import arrow_schema
from nsq_anyio.storage.place import Place

_numbers = count(1)


def rows_of(found: Sequence[bytes]) -> pa.RecordBatch:
    """A chunk of messages with these bodies, each with an id of its own."""
    rows = [
        {
            "body": body,
            "id": f"{next(_numbers):016x}",
            "timestamp": datetime.now(UTC),
            "attempts": 1,
            "topic": "clicks",
            "channel": "spark",
            "nsqd": "127.0.0.1:4150",
        }
        for body in found
    ]
    return pa.RecordBatch.from_pylist(rows, schema=arrow_schema())


def bodies(batches: Iterable[pa.RecordBatch]) -> list[bytes]:
    """The bodies, in order."""
    return [body for batch in batches for body in cast("list[bytes]", batch.column("body").to_pylist())]


def ids(batches: Iterable[pa.RecordBatch]) -> list[str]:
    """The ids, in order."""
    return [id_ for batch in batches for id_ in cast("list[str]", batch.column("id").to_pylist())]


def spooled(partition: Partition) -> list[bytes]:
    """The bodies that a partition has."""
    return bodies(partition.read())


def on_disk(place: Place) -> Path:
    """The path of something that is on a file system."""
    assert isinstance(place, Path)
    return place
