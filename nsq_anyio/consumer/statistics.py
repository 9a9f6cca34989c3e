"""The counters of a consumer, and snapshots of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..protocol.identify import AuthReply, IdentifyReply


@dataclass(slots=True)
class Counters:
    """The counters of one connection; `ConsumerStatistics` describes them."""

    received: int = 0
    finished: int = 0
    requeued: int = 0
    timed_out: int = 0
    late: int = 0
    refused: int = 0
    failed: int = 0
    discarded: int = 0
    gave_up: int = 0
    redelivered: dict[int, int] = field(default_factory=dict[int, int])
    received_bytes: int = 0

    def count_redelivery(self, attempts: int, messages: int = 1) -> None:
        """Count messages that were received with more than one attempt."""
        self.redelivered[attempts] = self.redelivered.get(attempts, 0) + messages

    def add(self, other: Counters) -> None:
        """Add the counts of ``other``."""
        for each in dataclasses.fields(self):
            if each.name != "redelivered":
                setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))
        for attempts, messages in other.redelivered.items():
            self.count_redelivery(attempts, messages)


@dataclass(frozen=True, slots=True)
class ConnectionStatistics:
    """A snapshot of one subscribed connection.

    :ivar nsqd: its address, as ``host:port`` or a path
    :ivar identity: nsqd's answer to IDENTIFY: its version and limits, and whether TLS, snappy or deflate are
        in use
    :ivar authorization: nsqd's answer to AUTH; None if nsqd required no AUTH
    :ivar rdy: its RDY count
    :ivar max_rdy_count: the highest RDY count that its nsqd allows
    :ivar in_flight: its unanswered messages
    :ivar received: messages that were received; this and the next ten count since the connection was opened
    :ivar finished: how many of them were finished
    :ivar requeued: how many of them were requeued
    :ivar timed_out: how many of them had no answer at their deadline
    :ivar late: answers dropped, because the message had timed out
    :ivar refused: answers that nsqd refused, because the message was no longer in flight there
    :ivar failed: messages whose handler, ``async with`` block or ``on_give_up`` raised an exception other
        than `Requeue` and `Discard`
    :ivar discarded: messages that were finished because of `Discard`
    :ivar gave_up: messages that were given up
    :ivar redelivered: how many of the received messages had been delivered before, by their ``attempts``
    :ivar received_bytes: bytes that were received, after decryption and decompression
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
    failed: int
    discarded: int
    gave_up: int
    redelivered: Mapping[int, int]
    received_bytes: int


@dataclass(frozen=True, slots=True)
class ConsumerStatistics:
    """A snapshot of a consumer; the counters cover all connections since its block began.

    :ivar connections: the number of connections that are subscribed now
    :ivar in_flight: unanswered messages
    :ivar waiting: how many of them no task has taken yet
    :ivar backoff_level: the backoff level, 0 while not in backoff
    :ivar received: messages that were received
    :ivar finished: how many of them were finished
    :ivar requeued: how many of them were requeued
    :ivar timed_out: how many of them had no answer at their deadline
    :ivar late: answers dropped, because the message had timed out or its connection had ended
    :ivar refused: answers that nsqd refused, because the message was no longer in flight there
    :ivar failed: messages whose handler, ``async with`` block or ``on_give_up`` raised an exception other
        than `Requeue` and `Discard`
    :ivar discarded: messages that were finished because of `Discard`
    :ivar gave_up: messages that were given up
    :ivar redelivered: how many of the received messages had been delivered before, by their ``attempts``
    :ivar received_bytes: bytes that were received, after decryption and decompression
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
    failed: int
    discarded: int
    gave_up: int
    redelivered: Mapping[int, int]
    received_bytes: int
    per_connection: tuple[ConnectionStatistics, ...]
