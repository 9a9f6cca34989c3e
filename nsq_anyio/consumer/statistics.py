"""The counters of a consumer, and snapshots of them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from ..protocol.authorization import AuthReply
from ..protocol.identify import IdentifyReply

__all__ = ["ConnectionStatistics", "ConsumerStatistics", "Counters"]


@dataclass(slots=True)
class Counters:
    """The counters of one connection.

    :ivar received: messages that were received
    :ivar finished: of them, those that were finished
    :ivar requeued: of them, those that were requeued
    :ivar timed_out: of them, those without an answer at their deadline
    :ivar late: answers dropped, because the message had timed out or its connection had ended
    :ivar refused: answers that nsqd refused, because the message was no longer in flight there
    """

    received: int = 0
    finished: int = 0
    requeued: int = 0
    timed_out: int = 0
    late: int = 0
    refused: int = 0

    def add(self, other: Counters) -> None:
        """Add the counts of ``other``."""
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


@dataclass(frozen=True, slots=True)
class ConnectionStatistics:
    """A snapshot of one subscribed connection.

    :ivar nsqd: its address, as ``host:port`` or a path
    :ivar identity: what nsqd answered to IDENTIFY: its version and limits, and whether TLS, snappy or deflate
        are in use
    :ivar authorization: what nsqd answered to AUTH; None where it asked for none
    :ivar rdy: its RDY count
    :ivar max_rdy_count: the highest RDY count that its nsqd allows
    :ivar in_flight: its unanswered messages
    :ivar received: messages that were received; this and the next five count from the connection's beginning
    :ivar finished: of them, those that were finished
    :ivar requeued: of them, those that were requeued
    :ivar timed_out: of them, those without an answer at their deadline
    :ivar late: answers dropped, because the message had timed out
    :ivar refused: answers that nsqd refused, because the message was no longer in flight there
    """

    nsqd: str
    identity: IdentifyReply
    authorization: AuthReply | None
    rdy: int
    max_rdy_count: int
    in_flight: int
    received: int
    finished: int
    requeued: int
    timed_out: int
    late: int
    refused: int


@dataclass(frozen=True, slots=True)
class ConsumerStatistics:
    """A snapshot of a consumer; the counters cover all connections since its block began.

    :ivar connections: the number of connections that are subscribed now
    :ivar in_flight: unanswered messages
    :ivar waiting: of them, those that nobody has taken yet
    :ivar backoff_level: the backoff level, 0 while not in backoff
    :ivar received: messages that were received
    :ivar finished: of them, those that were finished
    :ivar requeued: of them, those that were requeued
    :ivar timed_out: of them, those without an answer at their deadline
    :ivar late: answers dropped, because the message had timed out or its connection had ended
    :ivar refused: answers that nsqd refused, because the message was no longer in flight there
    :ivar per_connection: one snapshot per connection
    """

    connections: int
    in_flight: int
    waiting: int
    backoff_level: int
    received: int
    finished: int
    requeued: int
    timed_out: int
    late: int
    refused: int
    per_connection: tuple[ConnectionStatistics, ...]
