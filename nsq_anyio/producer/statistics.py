"""The counters of a producer, and snapshots of them."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import NotSent, PublishError, PublishRejected
from ..protocol.identify import AuthReply, IdentifyReply


@dataclass(slots=True)
class PublishCounters:
    """The outcomes of publishes, counted in messages; `ProducerStatistics` describes them."""

    rejected: int = 0
    not_sent: int = 0
    unknown: int = 0
    resent: int = 0

    def count(self, error: PublishError, messages: int) -> None:
        """Count messages that have failed with ``error``."""
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
    :ivar identity: nsqd's answer to IDENTIFY: its version and limits, and whether TLS, snappy or deflate are
        in use; None while there is no connection
    :ivar authorization: nsqd's answer to AUTH; None if nsqd required no AUTH
    :ivar outstanding: messages that await its answer
    :ivar outstanding_bytes: the bytes of their commands
    :ivar published: messages that it has confirmed
    :ivar commands: the PUB, MPUB and DPUB commands that were sent to it
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

    :ivar connections: the number of nsqds that are connected now
    :ivar outstanding: messages that await nsqd's answer
    :ivar outstanding_bytes: the bytes of their commands
    :ivar waiting: messages that wait for room on a connection, or in a batch that was not sent yet
    :ivar published: confirmed by nsqd, also after their caller was cancelled or timed out
    :ivar rejected: refused by nsqd
    :ivar not_sent: failed, and certainly not stored
    :ivar unknown: failed, and perhaps stored
    :ivar resent: sent again; each time counts
    :ivar per_connection: one snapshot per nsqd
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
