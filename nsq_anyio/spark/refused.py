"""A streaming read with invalid options, which raises its error where Spark shows it."""

# ruff: noqa: N802 - the names are Spark's

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from ..errors import InvalidOption


class RefusedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises an error in the first method that Spark calls.

    PySpark 4.3.0 hides an error that ``DataSource.streamReader`` itself raises behind an UnboundLocalError of
    its own, because it stops a reader that it never got.
    """

    def __init__(self, error: InvalidOption) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:
        """Raise the error, as do the other methods."""
        self._refuse()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Raise the error."""
        self._refuse()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002
        """Raise the error."""
        self._refuse()

    def prepareForTriggerAvailableNow(self) -> None:
        """Raise the error."""
        self._refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:  # noqa: ARG002
        """Raise the error."""
        self._refuse()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Raise the error."""
        self._refuse()

    def stop(self) -> None:
        """Do nothing: there is nothing to release."""

    def _refuse(self) -> NoReturn:
        raise self._error
