"""Request times, summarized in the log."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from itertools import repeat

_log = logging.getLogger(__name__)


class Timings:
    """Collects request times for each destination, and for all destinations together.

    :param names: the destinations that are known beforehand; others are added as they appear
    :param every: messages per log line; 0 logs nothing
    """

    def __init__(self, names: Iterable[str], every: int) -> None:
        self._every = every
        self._all = _Times("aggregate", every)
        self._each = {name: _Times(name, every) for name in names}

    def add(self, name: str, seconds: float, messages: int = 1) -> None:
        """Count messages that a destination acknowledged together, ``seconds`` after they were sent."""
        if name not in self._each:
            self._each[name] = _Times(name, self._every)
        if len(self._each) > 1:  # with one destination, both lines would be equal
            self._each[name].add(seconds, messages)
        self._all.add(seconds, messages)


class _Times:
    """The request times of one destination, or of all destinations together."""

    def __init__(self, name: str, every: int) -> None:
        self._name = name
        self._every = every
        self._seconds: list[float] = []

    def add(self, seconds: float, messages: int = 1) -> None:
        if not self._every:
            return
        self._seconds.extend(repeat(seconds, messages))
        if len(self._seconds) < self._every:
            return
        times = sorted(self._seconds)
        self._seconds.clear()
        _log.info(
            "[%s]: finished %d - 99th: %.2fms - 95th: %.2fms - avg: %.2fms",
            self._name,
            len(times),
            _percentile(times, 0.99) * 1000,
            _percentile(times, 0.95) * 1000,
            sum(times) / len(times) * 1000,
        )


def _percentile(times: list[float], part: float) -> float:
    """Return the smallest of the sorted ``times`` that at least a fraction ``part`` of them do not exceed."""
    return times[max(math.ceil(part * len(times)) - 1, 0)]
