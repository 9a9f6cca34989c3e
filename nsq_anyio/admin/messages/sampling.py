"""Sampling of messages: as many as a browser can show, spread over time."""

from __future__ import annotations

import math
from collections import deque

_WINDOW = 0.25
"""The length of a window in seconds. All have the same limit, so a burst does not use up the whole second."""

_KEPT = 20
"""The number of windows whose counts are kept: rates are those of the last 5 seconds."""

_ALL = 0
"""The sample rate with which nsqd sends all messages."""


class Sampler:
    """Picks messages.

    :param per_second: the most that are picked in a second, 4 or more
    """

    def __init__(self, per_second: int) -> None:
        self._per_window = max(int(per_second * _WINDOW), 1)
        self._window = -math.inf
        self._picked = 0
        self._counts: deque[list[float]] = deque(maxlen=_KEPT)  # of each window: its number, all, picked
        self._begun: float | None = None

    def pick(self, now: float) -> bool:
        """Count a message; return whether to show it."""
        window = now // _WINDOW
        if self._begun is None:
            self._begun = now
        if window != self._window:
            self._window = window
            self._picked = 0
            self._counts.append([window, 0, 0])
        counts = self._counts[-1]
        counts[1] += 1
        if self._picked >= self._per_window:
            return False
        self._picked += 1
        counts[2] += 1
        return True

    def rates(self, now: float) -> tuple[float, float]:
        """Return the messages received per second, and how many of them were picked."""
        if self._begun is None:
            return 0.0, 0.0
        first = now // _WINDOW - _KEPT
        recent = [counts for counts in self._counts if counts[0] > first]
        seconds = min(max(now - self._begun, 1.0), _KEPT * _WINDOW)
        return sum(each[1] for each in recent) / seconds, sum(each[2] for each in recent) / seconds


def sample_rate_for(per_second: float, wanted: float) -> int:
    """Return the sample rate, in percent, that leaves about ``wanted`` messages a second; 0 for all.

    nsqd drops the other messages itself, so a busy topic costs this process little. The lowest rate is one
    percent.
    """
    if math.isnan(per_second) or per_second <= wanted:
        return _ALL
    return max(math.floor(100 * wanted / per_second), 1)
