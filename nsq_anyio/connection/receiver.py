"""Who takes what a connection receives."""

from __future__ import annotations

from typing import Protocol, TypeVar

from ..protocol.session import ResponseFailed

__all__ = ["Receiver"]

SourceT = TypeVar("SourceT")
MessageT = TypeVar("MessageT")


class Receiver(Protocol[SourceT, MessageT]):
    """Called by the reader task: none of these may block or raise for a user's reasons."""

    def arrival(self, now: float) -> SourceT:
        """Return what all messages of the chunk that arrives ``now`` have in common."""
        ...

    def make_message(
        self, source: SourceT, timestamp: int, attempts: int, message_id: bytes, body: bytes, /
    ) -> MessageT:
        """Make the object for one message frame."""
        ...

    def received(self, messages: list[MessageT], now: float) -> None:
        """Take the messages of one chunk."""
        ...

    def response_failed(self, failure: ResponseFailed) -> None:
        """nsqd refused a FIN, REQ or TOUCH."""
        ...

    def progressed(self) -> None:
        """Requests were answered, or queued bytes were sent."""
        ...
