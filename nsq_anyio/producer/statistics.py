"""What a producer counts, and the snapshots of it."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import NotSent, PublishError, PublishRejected
from ..protocol.authorization import AuthReply
from ..protocol.identify import IdentifyReply

__all__ = ["Counters", "ProducerConnectionStatistics", "ProducerStatistics"]


@dataclass(slots=True)
class Counters:
    """How publishes ended so far, in messages.

    :ivar rejected: refused by nsqd
    :ivar not_sent: certainly not executed, and given up
    :ivar unknown: given up without knowing whether nsqd has them
    :ivar resent: sent again, each time counts
    """

    rejected: int = 0
    not_sent: int = 0
    unknown: int = 0
    resent: int = 0

    def count(self, error: PublishError, messages: int) -> None:
        """Count messages whose callers get ``error``."""
        match error:
            case PublishRejected():
                self.rejected += messages
            case NotSent():
                self.not_sent += messages
            case _:
                self.unknown += messages


@dataclass(frozen=True, slots=True)
class ProducerConnectionStatistics:
    """A snapshot of one nsqd of a producer; the counters cover all its connections since the block began.

    :ivar nsqd: its address, as ``host:port`` or a path
    :ivar connected: whether there is a connection now
    :ivar identity: what nsqd answered to IDENTIFY: its version and limits, and whether TLS, snappy or deflate
        are in use; None while there is no connection
    :ivar authorization: what nsqd answered to AUTH; None where it asked for none
    :ivar outstanding: messages that wait for its answer
    :ivar outstanding_bytes: of them, the bytes
    :ivar published: messages that it has confirmed
    :ivar commands: the PUB, MPUB and DPUB commands that it was sent
    """

    nsqd: str
    connected: bool
    identity: IdentifyReply | None
    authorization: AuthReply | None
    outstanding: int
    outstanding_bytes: int
    published: int
    commands: int


@dataclass(frozen=True, slots=True)
class ProducerStatistics:
    """A snapshot of a producer; the counters are messages since its block began.

    :ivar connections: nsqds that are connected now
    :ivar outstanding: messages that wait for an answer
    :ivar outstanding_bytes: of them, the bytes
    :ivar waiting: messages that wait for room on a connection, or to travel with others
    :ivar published: confirmed by nsqd, those included whose caller has gone
    :ivar rejected: refused by nsqd
    :ivar not_sent: certainly not executed, and given up
    :ivar unknown: given up without knowing whether nsqd has them
    :ivar resent: sent again, each time counts
    :ivar per_connection: each nsqd by itself
    """

    connections: int
    outstanding: int
    outstanding_bytes: int
    waiting: int
    published: int
    rejected: int
    not_sent: int
    unknown: int
    resent: int
    per_connection: tuple[ProducerConnectionStatistics, ...]
