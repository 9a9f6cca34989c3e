"""When to poll the nsqlookupds again."""

from __future__ import annotations

_FIRST_DELAY = 0.1
"""Seconds before the second poll if no nsqd was found; each further delay is twice as long. No poll follows
another one sooner than this."""

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
