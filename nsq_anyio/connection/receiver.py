"""Who takes what a connection receives."""

from __future__ import annotations

from typing import Protocol, TypeVar

from ..errors import ProtocolError
from ..protocol.session import ResponseFailed

__all__ = ["NoMessages", "Receiver"]

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


class NoMessages:
    """The receiver of a connection that never subscribes."""

    def arrival(self, now: float) -> None:
        """Nothing is common to no messages."""

    def make_message(
        self,
        source: None,  # noqa: ARG002
        timestamp: int,  # noqa: ARG002
        attempts: int,  # noqa: ARG002
        message_id: bytes,
        body: bytes,  # noqa: ARG002
        /,
    ) -> None:
        """Refuse it: nsqd pushes messages only after SUB."""
        raise ProtocolError(f"nsqd pushed message {message_id!r} on a connection without a subscription")

    def received(self, messages: list[None], now: float) -> None:
        """No message gets here."""

    def response_failed(self, failure: ResponseFailed) -> None:
        """Refuse it: no FIN, REQ or TOUCH was sent."""
        raise ProtocolError(f"nsqd answered {failure.error} on a connection without a subscription")

    def progressed(self) -> None:
        """Nobody waits."""
