"""Warnings about lasting problems, and when they are due."""

from __future__ import annotations

import math

PATIENCE = 5.0
"""Seconds that a problem may last before it is worth a warning."""

_LONGEST_PAUSE = 300.0
_MINUTE = 60.0


class EachMinute:
    """The reports of a problem that others can cause as often as they like: one a minute at most."""

    def __init__(self) -> None:
        self._next = -math.inf

    def is_due(self, now: float) -> bool:
        """Return whether to report it now; if so, the next minute begins."""
        if now < self._next:
            return False
        self._next = now + _MINUTE
        return True


class Repeats:
    """The reports of one problem: at once, then after pauses that double from `PATIENCE` to 5 minutes."""

    def __init__(self) -> None:
        self._pause = PATIENCE
        self._next = -math.inf

    def due(self, now: float) -> bool:
        """Return whether to report it now; if so, the next pause begins."""
        if now < self._next:
            return False
        self._next = now + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return True


class Starvation:
    """Notices takers that wait in vain: no message can come while the earlier ones are unanswered."""

    def __init__(self) -> None:
        self._since = math.inf
        self._repeats = Repeats()

    def due(self, now: float, *, is_awaited: bool, unanswered: int, most: int, arrived: float) -> bool:
        """Return whether to report it now. Called regularly.

        :param is_awaited: whether a taker waits for a message
        :param most: the most messages that may be unanswered
        :param arrived: when the last message arrived
        """
        if not (is_awaited and unanswered >= most > 0):
            self._since = math.inf
        elif arrived > self._since or self._since == math.inf:
            self._since = now
        return now - self._since >= PATIENCE and self._repeats.due(now)
