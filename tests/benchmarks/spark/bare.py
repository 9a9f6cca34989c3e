"""A source and a sink that do next to nothing: what they cost is Spark's own, and nsqd's."""

# ruff: noqa: N802 - the names are Spark's

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import cast

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

_ROWS = 2_000
"""Of an MPUB, as the sink of this package has by default."""

_OK = struct.pack(">ii2s", 6, 0, b"OK")


class BareSource(DataSource):
    """``format("bare")``: it reads one batch of one row, and no more; it writes to ``nsqd`` and ``topic``."""

    @classmethod
    def name(cls) -> str:
        return "bare"

    def schema(self) -> str:
        return "body BINARY"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        del schema
        return _Reader()

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        del schema, overwrite
        host, _, port = self.options["nsqd"].rpartition(":")
        return _Writer(host, int(port), self.options["topic"])


class _Reader(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:
        return {"rows": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        del start, limit
        return {"rows": 1}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [InputPartition(0)] if start != end else []

    def read(self, partition: InputPartition) -> Iterator[tuple[bytes]]:
        del partition
        return iter([(b"x",)])

    def commit(self, end: dict[str, int]) -> None:
        del end


class _Writer(DataSourceArrowWriter):
    """Publishes rows of one body as what was encoded before, and waits for all answers at the end."""

    def __init__(self, host: str, port: int, topic: str) -> None:
        self._address = host, port
        self._topic = topic

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override] # as Spark's own
        waiting = 0
        with socket.create_connection(self._address) as nsqd, nsqd.makefile("rb") as answers:
            nsqd.sendall(b"  V2")
            for batch in iterator:
                body = str(cast("pa.StringArray", batch.column("body"))[0])
                for first in range(0, batch.num_rows, _ROWS):
                    nsqd.sendall(_mpub(self._topic, min(_ROWS, batch.num_rows - first), body))
                    waiting += 1
            for _ in range(waiting):
                answer = answers.read(len(_OK))
                if answer != _OK:
                    raise ConnectionError(f"nsqd answered {answer!r}")
        return WriterCommitMessage()


@lru_cache(maxsize=8)
def _mpub(topic: str, rows: int, body: str) -> bytes:
    content = struct.pack(">I", rows) + (struct.pack(">I", len(body)) + body.encode()) * rows
    return b"MPUB %b\n" % topic.encode() + struct.pack(">I", len(content)) + content
