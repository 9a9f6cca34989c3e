"""Notices that code which does not await has blocked the event loop, by how late a regular look comes.

Meanwhile nothing is received, answered or touched. Messages time out at nsqd, which then refuses their
answers and delivers them again; without a word on why, that looks like a fault of nsqd.
"""

from __future__ import annotations

import anyio

__all__ = ["LoopWatch"]

_LATE = 0.1
"""Seconds that a busy machine may take; no message times out for that."""

_RECENT = 1.0
"""Seconds after its end in which a blocked loop still explains what is received."""


class LoopWatch:
    """One task sleeps here again and again; others may ask what it found."""

    def __init__(self) -> None:
        self._due: float | None = None
        self._blocked = 0.0
        self._ended_at = 0.0

    async def sleep(self, seconds: float) -> float:
        """Sleep, and return for how many seconds the loop was blocked, 0 for not noticeably."""
        self._due = anyio.current_time() + seconds
        await anyio.sleep(seconds)
        now = anyio.current_time()
        late = now - self._due
        if late < _LATE:
            return 0.0
        self._blocked = late
        self._ended_at = now
        return late

    def blocked_lately(self, now: float) -> float:
        """For how many seconds the loop was blocked until a moment ago."""
        going_on = now - self._due if self._due is not None else 0.0
        recent = self._blocked if now - self._ended_at < _RECENT else 0.0
        return max(going_on, recent)
