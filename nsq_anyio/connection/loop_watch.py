"""A watch for code without awaits that blocks the event loop: a regular sleep then ends late.

While the loop is blocked, nothing is received, answered or touched. Messages time out at nsqd, which refuses
their answers and delivers them again. Without a warning that names the cause, nsqd would seem to be at fault.
"""

from __future__ import annotations

import anyio

_LATE = 0.1
"""Seconds by which a sleep may end late on a busy machine; no message times out because of that."""

_RECENT = 1.0
"""Seconds after a block of the loop for which it still explains surprising messages."""


class LoopWatch:
    """Measures blocks of the event loop: one task calls `sleep` repeatedly, others query the result."""

    def __init__(self) -> None:
        self._due: float | None = None
        self._blocked = 0.0
        self._ended_at = 0.0

    async def sleep(self, seconds: float) -> float:
        """Sleep, and return the seconds for which the loop was blocked; 0 if not noticeably."""
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
        """Return the seconds for which the loop was blocked recently; 0 if it was not."""
        going_on = now - self._due if self._due is not None else 0.0
        recent = self._blocked if now - self._ended_at < _RECENT else 0.0
        return max(going_on, recent)
