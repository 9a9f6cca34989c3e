"""Compute how long to wait before reconnecting to an nsqd."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

_HEALTHY_SPELL = 30.0
"""Seconds that a connection must last to reset the delay; a flapping connection does not reset it."""


class ReconnectDelay:
    """A delay that doubles with each failure up to a maximum. Each one is shortened at random by up to half.

    :param initial: the first delay in seconds
    :param maximum: the longest delay in seconds
    """

    def __init__(self, initial: float, maximum: float) -> None:
        self._initial = initial
        self._maximum = maximum
        self._next = initial

    def after(self, lasted: float, rng: random.Random) -> float:
        """Return the delay after a connection of ``lasted`` seconds; 0 for an attempt that failed."""
        if lasted >= _HEALTHY_SPELL:
            self._next = self._initial
        delay = self._next
        self._next = min(2 * delay, self._maximum)
        return delay * rng.uniform(0.5, 1.0)
