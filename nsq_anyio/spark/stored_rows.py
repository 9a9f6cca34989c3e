"""Reads the rows of a partition back from the spool, for Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from .bounded_reader import CHUNK_BYTES
from .chunks import Partition

_ROWS = 10_000


def stored_rows(partition: Partition) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an ended partition, the same at each call, in batches of a good size for Spark.

    Small chunks are joined; a large one is a batch of its own, since the JVM has whole batches in its memory.

    :raises SpoolError: if a chunk is missing or damaged, or cannot be read
    """
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in partition.read(ended=True):
        if waiting and (rows >= _ROWS or size + batch.nbytes > CHUNK_BYTES):
            yield from _joined(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
    if waiting:
        yield from _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return pa.Table.from_batches(batches).combine_chunks().to_batches()
