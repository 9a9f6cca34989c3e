"""Notices when code that does not await blocks the event loop: a regular sleep then ends late.

While the loop is blocked nothing is received, answered or touched. Messages time out at nsqd, which refuses
their answers and delivers them again. Unless the cause is named, that looks like a fault of nsqd.
"""

from __future__ import annotations

import anyio

__all__ = ["LoopWatch"]

_LATE = 0.1
"""Seconds by which a sleep may end late on a busy machine; no message times out because of that."""

_RECENT = 1.0
"""Seconds after the loop was blocked in which that still explains what is received."""


class LoopWatch:
    """One task calls `sleep` again and again; others ask what it noticed."""

    def __init__(self) -> None:
        self._due: float | None = None
        self._blocked = 0.0
        self._ended_at = 0.0

    async def sleep(self, seconds: float) -> float:
        """Sleep, and return for how many seconds the loop was blocked meanwhile; 0 if not noticeably."""
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
        """For how many seconds the loop has just been blocked."""
        going_on = now - self._due if self._due is not None else 0.0
        recent = self._blocked if now - self._ended_at < _RECENT else 0.0
        return max(going_on, recent)
