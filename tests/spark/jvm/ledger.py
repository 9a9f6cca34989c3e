"""Counts what a sink has against what was published: nothing lost, and no message under two ids."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, order=True)
class Row:
    """A row that a sink was given; `number` is its body."""

    number: int
    id: str
    nsqd: str
    attempts: int
    timestamp: Any


@dataclass(frozen=True, slots=True)
class LedgerSink:
    """A sink for ``foreachBatch`` that keeps every run of every batch, in a file of its own.

    :ivar directory: of the files, which exists
    """

    directory: str

    def __call__(self, rows: DataFrame, batch: int) -> None:
        """Store the batch as one: it is there whole, or not at all."""
        self.store(rows.toArrow(), batch)

    def store(self, table: pa.Table, batch: int) -> None:
        run = len(self._runs(batch))
        path = Path(self.directory, f"batch-{batch:04}-run-{run}.parquet")
        temporary = path.with_suffix(".temporary")
        with temporary.open("wb") as file:
            with pq.ParquetWriter(file, table.schema) as writer:
                writer.write_table(table)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)

    def _runs(self, batch: int) -> list[Path]:
        return sorted(Path(self.directory).glob(f"batch-{batch:04}-run-*.parquet"))


class Ledger:
    """What a `LedgerSink` has stored."""

    def __init__(self, directory: Path) -> None:
        self.batches: dict[int, list[list[Row]]] = {}
        for path in sorted(directory.glob("batch-*.parquet")):
            batch = int(path.stem.split("-")[1])
            self.batches.setdefault(batch, []).append(_rows(path))

    @property
    def rows(self) -> list[Row]:
        """Every row of the last run of each batch: what a sink that overwrites a batch would have."""
        return [row for runs in self.batches.values() for row in runs[-1]]

    @property
    def duplicates(self) -> int:
        """Rows whose message another batch, or the same one, has as well."""
        return len(self.rows) - len({row.number for row in self.rows})

    @property
    def reruns(self) -> int:
        """Batches that Spark has run again."""
        return sum(len(runs) > 1 for runs in self.batches.values())

    def check(self, numbers: range) -> None:
        """Nothing is lost or invented, duplicates have equal ids, no batch is empty, reruns are the same."""
        counted = Counter(row.number for row in self.rows)
        lost = sorted(set(numbers) - counted.keys())
        assert not lost, f"{len(lost)} of {len(numbers)} lost, such as {lost[:10]}; {self}"
        invented = sorted(counted.keys() - set(numbers))
        assert not invented, f"{len(invented)} never published, such as {invented[:10]}"
        identities: dict[int, set[tuple[str, str, Any]]] = {}
        for row in self.rows:
            identities.setdefault(row.number, set()).add((row.nsqd, row.id, row.timestamp))
        forged = {number: found for number, found in identities.items() if len(found) > 1}
        assert not forged, f"{len(forged)} duplicates with other ids, such as {next(iter(forged.items()))}"
        for batch, runs in self.batches.items():
            # The first batch of a new query Spark runs in any case, whatever the source says.
            assert batch == 0 or all(runs), f"batch {batch} was empty"
            first = sorted(runs[0])
            for number, run in enumerate(runs[1:], 1):
                assert sorted(run) == first, f"run {number} of batch {batch} had other rows than its first"

    def __str__(self) -> str:
        return (
            f"{len(self.batches)} batches, {self.reruns} of them run again, "
            f"{len(self.rows)} rows, {self.duplicates} duplicates"
        )


def _rows(path: Path) -> list[Row]:
    with pq.ParquetFile(path) as file:
        table = file.read()  # pyright: ignore[reportUnknownMemberType] - stubs say "list" for a list of names
    return [
        Row(int(row["body"]), row["id"], row["nsqd"], row["attempts"], row["timestamp"])
        for row in table.to_pylist()
    ]
