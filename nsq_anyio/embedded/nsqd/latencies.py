"""End-to-end latencies: from the publish of a message to its FIN, over the last few minutes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import anyio

from .nsqd_options import NsqdOptions
from .quantiles import Entry, TargetedQuantiles


@dataclass(frozen=True, slots=True)
class Percentiles:
    """The percentiles of the latencies of a channel or a topic.

    :ivar count: the number of messages
    :ivar values: the quantiles with their latencies in nanoseconds
    """

    count: int
    values: tuple[tuple[float, int], ...]


class Latencies:
    """The latencies of one channel.

    As in nsqd, the window has two halves, and a new half replaces the older one. So the results cover between
    half of the window and all of it. Times are on the clock of `anyio.current_time`.

    :param quantiles: more than 0, at most 1
    :param window_time: the length of the window in seconds
    :param now: when the window begins
    """

    __slots__ = ("_began_at", "_current", "_half_time", "_halves", "quantiles")

    def __init__(self, quantiles: Sequence[float], window_time: float, now: float) -> None:
        self.quantiles: Sequence[float] = quantiles
        self._half_time = window_time / 2
        self._began_at = now  # the current half
        self._current = 0
        self._halves = (TargetedQuantiles(quantiles), TargetedQuantiles(quantiles))

    def finished(self, timestamp: int) -> None:
        """Add the latency of a message that is finished now; ``timestamp`` in Unix nanoseconds."""
        self.insert(time.time_ns() - timestamp, anyio.current_time())

    def insert(self, latency: int, now: float) -> None:
        """Add the latency of a message, in nanoseconds."""
        self._move_to(now)
        self._halves[self._current].insert(latency)

    def halves(self, now: float) -> tuple[list[Entry], list[Entry]]:
        """Return the latencies of the current half of the window, and of the previous half."""
        self._move_to(now)
        return self._halves[self._current].entries(), self._halves[self._current ^ 1].entries()

    def percentiles(self, now: float) -> Percentiles:
        """Return the latencies in the window."""
        self._move_to(now)
        return _percentiles(self.quantiles, self._halves)

    def _move_to(self, now: float) -> None:
        passed = math.ceil((now - self._began_at) / self._half_time) - 1
        if passed <= 0:
            return
        for _ in range(min(passed, len(self._halves))):
            self._current ^= 1
            self._halves[self._current].clear()
        self._began_at += passed * self._half_time


def measured_latencies(options: NsqdOptions) -> Latencies | None:
    """Return an empty window for a new channel; None if no percentiles are configured."""
    quantiles = options.e2e_processing_latency_percentiles
    if not quantiles:
        return None
    return Latencies(quantiles, options.e2e_processing_latency_window_time, anyio.current_time())


def merged_percentiles(parts: Sequence[Latencies], now: float) -> Percentiles:
    """Return the merged latencies of one or more channels that have the same quantiles."""
    quantiles = parts[0].quantiles
    halves = (TargetedQuantiles(quantiles), TargetedQuantiles(quantiles))
    for part in parts:
        for half, entries in zip(halves, part.halves(now), strict=True):
            half.merge(entries)
    return _percentiles(quantiles, halves)


def _percentiles(quantiles: Sequence[float], halves: Iterable[TargetedQuantiles]) -> Percentiles:
    both = TargetedQuantiles(quantiles)
    for half in halves:
        both.merge(half.entries())
    return Percentiles(both.count, tuple((quantile, both.query(quantile)) for quantile in quantiles))
