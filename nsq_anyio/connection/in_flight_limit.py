"""The limit of messages in flight on one connection, by the RDY counts that were sent."""

from __future__ import annotations

from ..errors import ProtocolError
from .loop_watch import LoopWatch

_MOST = 3
"""A multiple of the highest RDY count sent: messages that nsqd has timed out stay until the next tick."""


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

        nsqd exceeds RDY by the messages that it has timed out: at most RDY messages in each msg_timeout for
        which the event loop was blocked.

        :raises ProtocolError: if their number cannot be explained
        """
        timeouts = self._loop_watch.blocked_lately(now) / msg_timeout
        if in_flight > self.count * (1 + timeouts):
            raise ProtocolError(
                f"nsqd pushed messages beyond RDY: {in_flight} are unanswered, with a RDY of "
                f"{self._highest_rdy}"
            )
