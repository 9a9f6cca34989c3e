"""A source that does nothing: what it costs is Spark's own."""

# ruff: noqa: N802 - the names are Spark's

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

__all__ = ["BareSource"]


class BareSource(DataSource):
    """``format("bare")``: one batch of one row, and no more."""

    @classmethod
    def name(cls) -> str:
        return "bare"

    def schema(self) -> str:
        return "body BINARY"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        del schema
        return _Reader()


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
