"""The delays of a requeue, of a reconnect, and between polls of the nsqlookupds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import random


def requeue_delay(
    attempts: int, *, base: float, maximum: float, strategy: Literal["linear", "exponential"] = "linear"
) -> float:
    """Return the seconds before a message that has failed ``attempts`` times is delivered again.

    ``base`` times the attempts (building client libraries, "Message Handling") or times 1, 2, 4, 8, ..., at
    most ``maximum``.
    """
    attempts = max(attempts, 1)
    # 2**64 seconds exceed any maximum, and at some attempt a float would overflow.
    factor = attempts if strategy == "linear" else 2.0 ** min(attempts - 1, 64)
    return min(base * factor, maximum)


_HEALTHY_SPELL = 30.0
"""Seconds that a connection must last to reset the delay; a flapping connection does not reset it."""


class ReconnectDelay:
    """A delay that doubles with each failure up to a maximum, and is shortened at random by up to half.

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


_FIRST_DELAY = 0.1
"""Seconds before the second poll if no nsqd was found; each further delay is twice as long."""

_LEAST_PART = 0.01
"""The smallest part of the interval that a jitter of 1 can leave."""


class PollSchedule:
    """The delays between polls: the interval, or shorter ones that grow up to it while no nsqd was found.

    A client may start before its nsqlookupds, or before its topic exists. With the interval alone, it would
    find them up to a minute late. The delays double, so a topic that is never created costs only ten more
    polls.

    :param interval: seconds between polls
    :param jitter: the fraction of a delay by which it is varied, 0 to 1
    """

    def __init__(self, interval: float, jitter: float) -> None:
        self._interval = interval
        self._jitter = jitter
        self._quick = _FIRST_DELAY

    @property
    def is_quick(self) -> bool:
        """Whether a poll that finds nothing is followed by another one before the interval is over."""
        return self._quick < self._interval

    def delay(self, *, found: bool, spread: float) -> float:
        """Return the seconds to wait after a poll.

        :param found: whether any nsqd was found; this resets the delays
        :param spread: the position of this delay within the jitter, -1 to 1
        """
        if found:
            self._quick = _FIRST_DELAY
        elif self.is_quick:
            delay = self._quick
            self._quick = 2 * delay
            return min(delay * (1 + self._jitter * abs(spread)), self._interval)
        return self._interval * max(1 + self._jitter * spread, _LEAST_PART)
