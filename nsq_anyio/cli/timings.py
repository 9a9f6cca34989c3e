"""How long requests take, logged after every so many of them."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from itertools import repeat

__all__ = ["Timings"]

_log = logging.getLogger(__name__)


class Timings:
    """The times of each of several destinations, and of all together.

    :param names: of the destinations
    :param every: so many times make a line of the log; 0 for none
    """

    def __init__(self, names: Iterable[str], every: int) -> None:
        self._all = _Times("aggregate", every)
        self._each = {name: _Times(name, every) for name in names}

    def add(self, name: str, seconds: float, messages: int = 1) -> None:
        """Count messages that a destination took together, ``seconds`` after they were sent."""
        if len(self._each) > 1:  # else it would be the same twice
            self._each[name].add(seconds, messages)
        self._all.add(seconds, messages)


class _Times:
    """Of one destination, or of all together."""

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
    """The time that ``part`` of the sorted ``times`` do not exceed."""
    return times[max(math.ceil(part * len(times)) - 1, 0)]
