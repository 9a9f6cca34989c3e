"""The token bucket of a rate limit, and how many messages may wait for a token.

A message that waits here for its start must not reach its deadline. So no more messages are received than can
start within half of nsqd's message timeout. If the rate is so low that not even one can, no message is
received until the next start is near.
"""

from __future__ import annotations

import math

_WAITING_PART = 0.5
"""The part of the message timeout for which a message may wait; the rest is for its handler."""

_ROUNDING = 1e-9
"""Seconds; shorter times are rounding errors."""


class TokenBucket:
    """A bucket that holds ``burst`` tokens, is full at first, and gets ``per_second`` tokens per second.

    So within any ``t`` seconds, at most ``burst + per_second * t`` tokens are taken.
    """

    __slots__ = ("_full_at", "burst", "per_second")

    def __init__(self, per_second: float, burst: int) -> None:
        self.per_second: float = per_second
        self.burst: int = burst
        self._full_at = -math.inf  # when the bucket will be full if no more tokens are taken

    def begin(self, now: float) -> None:
        """Continue with a clock that may differ from the previous one."""
        self._full_at = min(self._full_at, now + self.burst / self.per_second)

    def wait(self, now: float) -> float:
        """Return the seconds until a token can be taken; 0 if there is one."""
        seconds = self._full_at - now - (self.burst - 1) / self.per_second
        return seconds if seconds > _ROUNDING else 0.0

    def take(self, now: float) -> None:
        """Take a token; there must be one."""
        self._full_at = max(self._full_at, now) + 1 / self.per_second


def waiting_allowed(bucket: TokenBucket, place: int, sharers: int, msg_timeout: float, now: float) -> int:
    """Return how many messages one `run` may have in flight, where several share a bucket.

    :param place: its place in the order of turns; 0 for the next one
    :param sharers: how many of them share the bucket
    """
    horizon = msg_timeout * _WAITING_PART
    in_all = int(bucket.per_second * horizon)
    if in_all >= sharers:
        return in_all // sharers
    if in_all >= 1:
        return int(place < in_all)
    return int(place == 0 and bucket.wait(now) <= horizon)
