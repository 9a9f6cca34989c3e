"""What a connection may have in flight: each message once, and no more than this side has asked for."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import ProtocolError
from .loop_watch import LoopWatch
from .message import Message

__all__ = ["InFlightLimit", "register"]

_MOST = 3
"""Times the highest RDY count that was sent; what nsqd has timed out stays until a tick."""


def register(in_flight: dict[bytes, Message], messages: Sequence[Message]) -> list[Message]:
    """Add messages that came; return those they take the place of, which nsqd must have timed out.

    :raises ProtocolError: if one comes for the first time again
    """
    expected = len(in_flight) + len(messages)
    replaced: list[Message] = []
    for message in messages:
        if message.attempts > 1 and (found := in_flight.pop(message.wire_id, None)) is not None:
            replaced.append(found)
        in_flight[message.wire_id] = message
    if len(in_flight) + len(replaced) < expected:
        raise ProtocolError("nsqd pushed a message twice, both times as its first attempt")
    return replaced


class InFlightLimit:
    """Bounds what is held for an nsqd by what it was asked for, whatever it says of itself."""

    __slots__ = ("_loop_watch", "_most_rdy", "count")

    def __init__(self, loop_watch: LoopWatch) -> None:
        self._loop_watch = loop_watch
        self._most_rdy = 1
        self.count: int = _MOST

    def asked(self, rdy: int) -> None:
        """Note a RDY count that was sent."""
        self._most_rdy = max(self._most_rdy, rdy)
        self.count = _MOST * self._most_rdy

    def exceeded(self, in_flight: int, msg_timeout: float, now: float) -> None:
        """Refuse so many, beyond `count`.

        nsqd goes beyond RDY by what it has timed out: RDY messages at most, in each msg_timeout for which the
        event loop was blocked.

        :raises ProtocolError: if that does not explain them
        """
        timeouts = self._loop_watch.blocked_lately(now) / msg_timeout
        if in_flight > self.count * (1 + timeouts):
            raise ProtocolError(
                f"nsqd pushed messages beyond RDY: {in_flight} are unanswered, with a RDY of {self._most_rdy}"
            )
