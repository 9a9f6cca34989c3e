"""Writes like ``format("nsq")``, at a limited rate."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ..source import NsqDataSource

RATE = "rowsPerSecond"
"""The required option with the rate of each task, in rows per second."""

_BURSTS_PER_SECOND = 10
_MAX_BURST = 10_000


class PacedNsqDataSource(NsqDataSource):
    """Writes like `NsqDataSource`, but no task exceeds `RATE`; it does not read.

    The rate is limited right before the connection. If it were limited earlier, the buffers between Spark and
    the Python worker would let rows through in bursts of many seconds.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "nsq-paced"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the writer of a batch job."""
        options = dict(self.options)
        rate = float(options.pop(RATE.lower()))
        return _PacedWriter(NsqDataSource(options).writer(schema, overwrite), rate)


class _PacedWriter(DataSourceArrowWriter):
    def __init__(self, writer: DataSourceArrowWriter, rate: float) -> None:
        self._writer = writer
        self._rate = rate

    def write(
        self,
        iterator: Iterator[pa.RecordBatch],  # type: ignore[override] # as Spark's own
    ) -> WriterCommitMessage:
        return self._writer.write(paced(iterator, self._rate))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._writer.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._writer.abort(messages)


def paced(batches: Iterator[pa.RecordBatch], rate: float) -> Iterator[pa.RecordBatch]:
    """Split batches into parts for a tenth of a second, and take that long for each, including the last."""
    burst = min(_MAX_BURST, math.ceil(rate / _BURSTS_PER_SECOND))
    for batch in batches:
        for start in range(0, batch.num_rows, burst):
            part = batch.slice(start, burst)
            began_at = time.monotonic()
            yield part
            time.sleep(max(0.0, began_at + part.num_rows / rate - time.monotonic()))
