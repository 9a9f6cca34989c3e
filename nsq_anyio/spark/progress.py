"""What a stream tells in the progress of its query, as ``latestOffset`` of the source.

It is the only place where PySpark shows what a source in Python has to tell: such a source has no metrics of
its own. All numbers are whole, as PySpark asks for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .options import ReadOptions
from .plan import Depth
from .query_history import QueryHistory

KIND = "nsq"
"""The value of ``source``, by which a listener knows these offsets."""


class Progress:
    """Keeps the depths of the last question, and the rate at which messages are published."""

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

    def asked(self, depths: Sequence[Depth]) -> None:
        """Note the depths when a batch is planned."""
        now = self._clock()
        published = {depth.nsqd: depth.published for depth in depths if depth.published is not None}
        # An nsqd counts from 0 again after it was restarted, so its count may be lower.
        new = sum(max(0, count - self._published.get(nsqd, count)) for nsqd, count in published.items())
        if self._published and now > self._asked_at:
            self._per_second = round(new / (now - self._asked_at))
        self._depths, self._published, self._asked_at = depths, published, now

    def told(self) -> dict[str, Any] | None:
        """Return what is shown; None before the first question."""
        if not self._depths:
            return None
        depths, history = self._depths, self._history
        told: dict[str, Any] = {
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
            "lastBatch": told_of(history.last_batch),
            "paused": {depth.nsqd: depth.paused for depth in depths if depth.paused},
            "unreachable": dict(history.unreachable),
        }
        return told | {name: value for name, value in shown_if_any.items() if value or value == 0}


def told_of(batch: Mapping[str, int]) -> dict[str, int]:
    """Return `QueryHistory.last_batch` under the names that are shown."""
    return {_camel(name): value for name, value in batch.items()}


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
