"""Bounds how many messages an nsqd may have in flight on one connection by what this side has asked for."""

from __future__ import annotations

from ..errors import ProtocolError
from .loop_watch import LoopWatch

__all__ = ["InFlightLimit"]

_MOST = 3
"""Times the highest RDY count that was sent: messages that nsqd has timed out stay until the next tick."""


class InFlightLimit:
    """Bounds the messages that an nsqd may push, whatever it claims, by the RDY counts that it was sent.

    :ivar count: messages in flight up to which no further check is needed
    """

    __slots__ = ("_highest_rdy", "_loop_watch", "count")

    def __init__(self, loop_watch: LoopWatch) -> None:
        self._loop_watch = loop_watch
        self._highest_rdy = 1
        self.count: int = _MOST

    def rdy_sent(self, rdy: int) -> None:
        """Note a RDY count that was sent."""
        self._highest_rdy = max(self._highest_rdy, rdy)
        self.count = _MOST * self._highest_rdy

    def check(self, in_flight: int, msg_timeout: float, now: float) -> None:
        """Check whether there may be more messages than `count`.

        nsqd exceeds RDY by the messages that it has timed out: at most RDY messages in each msg_timeout for
        which the event loop was blocked.

        :raises ProtocolError: if that does not explain their number
        """
        timeouts = self._loop_watch.blocked_lately(now) / msg_timeout
        if in_flight > self.count * (1 + timeouts):
            raise ProtocolError(
                f"nsqd pushed messages beyond RDY: {in_flight} are unanswered, with a RDY of "
                f"{self._highest_rdy}"
            )
