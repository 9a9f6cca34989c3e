"""A message in a channel."""

from __future__ import annotations

from typing import Protocol

from .storage.items import NOT_PINNED
from .subscription import Subscription
from .timers import Timer


class WatchesDeadlines(Protocol):
    """A channel, as its messages see it."""

    def reached_deadline(self, message: Message) -> None:
        """Queue a message that has timed out, or whose delay is over."""
        ...


class Message(Timer):
    """One message in one channel.

    :ivar timestamp: when it was published, in Unix nanoseconds
    :ivar subscription: the client that has it in flight; None while it is queued or deferred
    :ivar sent_at: when it was sent to that client, on the scheduler's clock
    :ivar pin: see `Item`; only in a channel with a backend
    """

    __slots__ = ("attempts", "body", "channel", "id", "pin", "sent_at", "subscription", "timestamp")

    def __init__(self, channel: WatchesDeadlines, id: bytes, timestamp: int, body: bytes) -> None:
        super().__init__()
        self.channel: WatchesDeadlines = channel
        self.id: bytes = id
        self.timestamp: int = timestamp
        self.body: bytes = body
        self.attempts: int = 0
        self.subscription: Subscription | None = None
        self.sent_at: float = 0.0
        self.pin: int = NOT_PINNED

    def fire(self, _now: float, /) -> None:
        """Queue the message again: it has timed out, or its delay is over."""
        self.channel.reached_deadline(self)
