"""The flow of messages on one connection: its limit, blocks of the event loop, and its end after CLS."""

from __future__ import annotations

from collections.abc import Callable

import anyio

from ..errors import ProtocolError

_MOST = 3
"""`InFlightLimit.count` per RDY; above 1, because messages that have timed out stay until the next tick."""


class InFlightLimit:
    """Limits the messages that an nsqd may push, by the RDY counts that were sent to it.

    :ivar count: the number of messages in flight up to which no `check` is needed
    """

    __slots__ = ("_highest_rdy", "_loop_watch", "count")

    def __init__(self, loop_watch: LoopWatch) -> None:
        self._loop_watch = loop_watch
        self._highest_rdy = 1
        self.count: int = _MOST

    def rdy_sent(self, rdy: int) -> None:
        """Record a RDY count that was sent."""
        self._highest_rdy = max(self._highest_rdy, rdy)
        self.count = _MOST * self._highest_rdy

    def check(self, in_flight: int, msg_timeout: float, now: float) -> None:
        """Check whether more messages than `count` can be explained.

        nsqd exceeds RDY by the messages that it has timed out: at most RDY messages for each msg_timeout
        during which the event loop was blocked.

        :raises ProtocolError: if their number cannot be explained
        """
        timeouts = self._loop_watch.blocked_lately(now) / msg_timeout
        if in_flight > self.count * (1 + timeouts):
            raise ProtocolError(
                f"nsqd pushed messages beyond RDY: {in_flight} are unanswered, with a RDY of "
                f"{self._highest_rdy}"
            )


_LATE = 0.1
"""The seconds by which a sleep may end late on a busy machine; no message times out because of that."""

_RECENT = 1.0
"""The seconds for which a block of the loop still explains unexpected messages."""


class LoopWatch:
    """Measures blocks of the event loop: one task calls `sleep` repeatedly, and others read the result.

    While user code without awaits blocks the loop, nothing is received, answered or touched. Messages time
    out at nsqd, which refuses their answers and delivers them again. Without a warning that names the cause,
    nsqd would seem to be at fault.
    """

    def __init__(self) -> None:
        self._due: float | None = None
        self._blocked = 0.0
        self._ended_at = 0.0

    async def sleep(self, seconds: float) -> float:
        """Sleep, and return for how many seconds the loop was blocked; 0 if that is too short to matter."""
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
        """Return for how many seconds the loop was blocked recently; 0 if it was not."""
        going_on = now - self._due if self._due is not None else 0.0
        recent = self._blocked if now - self._ended_at < _RECENT else 0.0
        return max(going_on, recent)


_FLOWING = 1.0
"""The seconds without a message after which a connection counts as quiet."""

_SETTLING = 0.03
"""The seconds without a message after which none is expected any more after CLOSE_WAIT. Without this wait,
one stop in about 1,500 under load left a message in flight."""


async def settled(last_message_at: Callable[[], float]) -> None:
    """Wait until no message is expected any more; return at once if none came lately.

    One goroutine of nsqd answers CLS while another may be about to push a message that it has already taken
    from the queue. nsqd does not say when that is over. On a busy connection such a message arrives within
    milliseconds; it must be handed back.

    :param last_message_at: returns when the last message arrived, on the clock of the event loop
    """
    if anyio.current_time() - last_message_at() > _FLOWING:
        return
    quiet_until = anyio.current_time() + _SETTLING
    while (remaining := quiet_until - anyio.current_time()) > 0:
        await anyio.sleep(remaining)
        quiet_until = max(quiet_until, last_message_at() + _SETTLING)
