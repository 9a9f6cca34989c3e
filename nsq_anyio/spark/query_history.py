"""What became of the batches that a query has run, and what that says about the next one.

A plan is an upper bound: others may take the messages, an nsqd may be away, and ``maxBytesPerBatch`` may end
a partition. So it is the spool that tells how much was read.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence

from .plan import Depth
from .spool import Plan, Spool
from .unreachable import why_unreachable

__all__ = ["QueryHistory"]

_log = logging.getLogger("nsq_anyio.spark")


class QueryHistory:
    """Counts over the batches of one run of a query.

    :ivar away: how many partitions have ended without their nsqd, by nsqd
    """

    def __init__(self) -> None:
        self.away: Counter[str] = Counter()
        self._left: dict[str, int] | None = None
        self._sizes: dict[str, float] = {}
        self._planned = 0
        self._begun: tuple[int, Plan] = (0, [])

    @property
    def has_target(self) -> bool:
        """Whether the query ends when it has read what waited at its start."""
        return self._left is not None

    def set_target(self, waiting: Iterable[Depth]) -> None:
        """Let the query end when so much is read."""
        self._left = {depth.nsqd: depth.rows for depth in waiting}

    def planned(self, epoch: int) -> None:
        """Note that this run has planned a batch."""
        self._planned = epoch

    def begun(self, epoch: int, plan: Plan) -> None:
        """Note that tasks are about to read a batch, which an earlier run may have planned."""
        self._begun = (epoch, plan)

    def count_batch(self, spool: Spool, epoch: int) -> None:
        """Count, once, what was read of a batch that Spark has run.

        :raises SpoolError: if that cannot be read
        """
        begun, plan = self._begun
        if epoch != begun:
            return
        self._begun = (0, [])
        rows: Counter[str] = Counter()
        size: Counter[str] = Counter()
        for number, (nsqd, _) in enumerate(plan):
            partition = spool.partition(epoch, number)
            stored = partition.stored()
            rows[nsqd] += stored.rows
            size[nsqd] += stored.bytes
            reason = why_unreachable(partition)
            if reason is not None:
                self.away[nsqd] += 1
                _log.warning("batch %d has ended without what waits at an nsqd: %s", epoch, reason)
        self._sizes |= {nsqd: size[nsqd] / rows[nsqd] for nsqd in rows if rows[nsqd]}
        if self._left is not None and epoch == self._planned:
            self._reduce(self._left, rows)

    def cap_to_target(self, waiting: Sequence[Depth]) -> list[Depth]:
        """What of it was there when a query began that ends."""
        left = self._left
        if left is None:
            return list(waiting)
        return [Depth(depth.nsqd, min(depth.rows, left.get(depth.nsqd, 0)), depth.size) for depth in waiting]

    def sizes(self, waiting: Iterable[Depth]) -> dict[str, float]:
        """Bytes of a message on the average, by nsqd: those read last, else all that were published."""
        known = {depth.nsqd: depth.size for depth in waiting if depth.size is not None}
        return known | self._sizes

    @staticmethod
    def _reduce(left: dict[str, int], rows: Counter[str]) -> None:
        for nsqd in rows:
            # Nothing came from where something waited: others take it, or the nsqd is away.
            left[nsqd] = left.get(nsqd, 0) - rows[nsqd] if rows[nsqd] else 0
