"""What a task tells the driver of how it went, as a note beside its partition.

Spark passes nothing back from the tasks of a source in Python but rows. The note is for the query's progress
alone: nothing depends on it, and a task that is killed leaves none.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass, fields
from typing import Any

from ..storage.place import Place, storage_of
from .chunks import Partition

_SUFFIX = ".report"

_log = logging.getLogger("nsq_anyio.spark")


@dataclass(slots=True)
class TaskReport:
    """How one attempt at a partition went, or several added up.

    :ivar chunks: the chunks that were stored
    :ivar store_ms: the milliseconds that storing them took
    :ivar slowest_chunk_ms: those of the slowest
    :ivar redelivered: the rows that nsqd had delivered before, perhaps to an attempt that stored them too
    :ivar refused: the rows that were stored too late to be finished, so that nsqd delivers them again
    """

    chunks: int = 0
    store_ms: int = 0
    slowest_chunk_ms: int = 0
    redelivered: int = 0
    refused: int = 0

    def add(self, other: TaskReport) -> None:
        """Add the numbers of another report."""
        self.chunks += other.chunks
        self.store_ms += other.store_ms
        self.slowest_chunk_ms = max(self.slowest_chunk_ms, other.slowest_chunk_ms)
        self.redelivered += other.redelivered
        self.refused += other.refused

    def stored(self, seconds: float, redelivered: int) -> None:
        """Count a chunk that was stored."""
        self.add(TaskReport(1, round(seconds * 1e3), round(seconds * 1e3), redelivered))


def note_report(partition: Partition, report: TaskReport) -> None:
    """Leave the report for the driver; what fails is only logged."""
    try:
        storage_of(partition.path).replace(_place(partition), json.dumps(asdict(report)).encode())
    except OSError as error:
        _log.warning("cannot leave a report in the spool: %s", error)


def report_of(partition: Partition) -> TaskReport:
    """Return the report of the last attempt; an empty one if there is none."""
    try:
        found: Any = json.loads(storage_of(partition.path).get(_place(partition)))
        return TaskReport(**{field.name: max(0, int(found[field.name])) for field in fields(TaskReport)})
    except (OSError, ValueError, KeyError, TypeError):
        return TaskReport()  # half written, or none


def _place(partition: Partition) -> Place:
    return partition.path.with_name(partition.path.name + _SUFFIX)
