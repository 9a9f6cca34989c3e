"""Counts over a query's earlier batches, for the plan of the next one and for the query's progress.

A plan is an upper bound: other consumers may take messages, an nsqd may be unreachable, and
``maxBytesPerBatch`` may end a partition. So the rows that were actually read are counted in the spool.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

from .options import ReadOptions
from .plan import Depth
from .spool import Plan, Spool
from .task import TaskReport, report_of, why_unreachable

_log = logging.getLogger("nsq_anyio.spark")


KIND = "nsq"
"""The value of ``source``, by which a listener recognises these offsets."""


class QueryHistory:
    """Counts over the batches of one run of a query.

    :ivar unreachable: how many partitions have ended because their nsqd could not be reached, by nsqd
    :ivar last_batch: the counts of the last batch, as the query's progress shows them; empty before the first
    """

    def __init__(self) -> None:
        self.unreachable: Counter[str] = Counter()
        self.last_batch: dict[str, int] = {}
        self._spooled: dict[int, int] = {}
        self._left: dict[str, int] | None = None
        self._sizes: dict[str, float] = {}
        self._planned = 0
        self._begun: tuple[int, Plan] = (0, [])

    @property
    def has_target(self) -> bool:
        """Whether the query ends when it has read the messages that waited at its start."""
        return self._left is not None

    def set_target(self, waiting: Iterable[Depth]) -> None:
        """Let the query end when this many messages are read."""
        self._left = {depth.nsqd: depth.rows for depth in waiting}

    def planned(self, epoch: int) -> None:
        """Record that this run has planned a batch."""
        self._planned = epoch

    def begun(self, epoch: int, plan: Plan) -> None:
        """Record that tasks begin to read a batch, which an earlier run may have planned."""
        self._begun = (epoch, plan)

    def count_batch(self, spool: Spool, epoch: int) -> None:
        """Count the rows that a batch has read; a second call for the same batch counts nothing.

        :raises SpoolError: if the spool cannot be read
        """
        begun, plan = self._begun
        if epoch != begun:
            return
        self._begun = (0, [])
        rows: Counter[str] = Counter()
        size: Counter[str] = Counter()
        report = TaskReport()
        for number, (nsqd, _) in enumerate(plan):
            partition = spool.partition(epoch, number)
            stored = partition.stored()
            rows[nsqd] += stored.rows
            size[nsqd] += stored.bytes
            report.add(report_of(partition))
            reason = why_unreachable(partition)
            if reason is not None:
                self.unreachable[nsqd] += 1
                _log.warning("batch %d ended without the messages of an nsqd: %s", epoch, reason)
        self._spooled[epoch] = size.total()
        of_tasks = {_camel(name): count for name, count in asdict(report).items()}
        self.last_batch = {"epoch": epoch, "rows": rows.total(), "bytes": size.total(), **of_tasks}
        self._sizes |= {nsqd: size[nsqd] / rows[nsqd] for nsqd in rows if rows[nsqd]}
        if self._left is not None and epoch == self._planned:
            self._reduce(self._left, rows)

    @property
    def spooled_bytes(self) -> int:
        """The bytes of bodies in the spool from batches of this run that Spark has not committed."""
        return sum(self._spooled.values())

    def committed(self, epoch: int) -> None:
        """Record that the batches up to this one are deleted from the spool."""
        self._spooled = {number: size for number, size in self._spooled.items() if number > epoch}

    def cap_to_target(self, waiting: Sequence[Depth]) -> list[Depth]:
        """Return the depths, capped to the rest of the target; unchanged without a target."""
        left = self._left
        if left is None:
            return list(waiting)
        return [replace(depth, rows=min(depth.rows, left.get(depth.nsqd, 0))) for depth in waiting]

    def sizes(self, waiting: Iterable[Depth]) -> dict[str, float]:
        """Return the average bytes of a message, by nsqd: of its last batch, or else of the whole topic."""
        known = {depth.nsqd: depth.size for depth in waiting if depth.size is not None}
        return known | self._sizes

    @staticmethod
    def _reduce(left: dict[str, int], rows: Counter[str]) -> None:
        for nsqd in rows:
            # Messages waited, but none came: other consumers took them, or the nsqd is unreachable.
            left[nsqd] = left.get(nsqd, 0) - rows[nsqd] if rows[nsqd] else 0


class Progress:
    """The source's part of the query's progress, which PySpark shows as its ``latestOffset``.

    A Python source has no metrics, so this is the only place for its numbers. PySpark wants whole numbers.
    """

    def __init__(
        self, options: ReadOptions, history: QueryHistory, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._topic = options.topic
        self._channel = options.channel
        self._spool_dir = options.spool_dir
        self._history = history
        self._clock = clock
        self._depths: Sequence[Depth] = ()
        self._published: dict[str, int] = {}
        self._asked_at = 0.0
        self._per_second: int | None = None

    def note_depths(self, depths: Sequence[Depth]) -> None:
        """Record the depths by which a batch is planned."""
        now = self._clock()
        published = {depth.nsqd: depth.published for depth in depths if depth.published is not None}
        # An nsqd counts from 0 again after it was restarted, so its count may be lower.
        new = sum(max(0, count - self._published.get(nsqd, count)) for nsqd, count in published.items())
        if self._published and now > self._asked_at:
            self._per_second = round(new / (now - self._asked_at))
        self._depths, self._published, self._asked_at = depths, published, now

    def shown(self) -> dict[str, Any] | None:
        """Return the numbers to show; None before the first batch is planned."""
        if not self._depths:
            return None
        depths, history = self._depths, self._history
        shown: dict[str, Any] = {
            "source": KIND,
            "topic": self._topic,
            "channel": self._channel,
            "depth": {depth.nsqd: depth.rows for depth in depths},
            "lag": sum(depth.rows + depth.held for depth in depths),
            "spoolDir": self._spool_dir,
            "spoolBytes": history.spooled_bytes,
        }
        shown_if_any: dict[str, Any] = {
            "publishedPerSecond": self._per_second,
            "lastBatch": history.last_batch,
            "paused": {depth.nsqd: depth.paused for depth in depths if depth.paused},
            "unreachable": dict(history.unreachable),
        }
        return shown | {name: value for name, value in shown_if_any.items() if value or value == 0}


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
