"""The receiver of a connection without a subscription."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import ProtocolError
from ..protocol.session import ResponseFailed

__all__ = ["NoMessages"]


class NoMessages:
    """The receiver of a connection that never subscribes; ``may_proceed`` is as in `Receiver`."""

    def __init__(self, may_proceed: Callable[[], None] = lambda: None) -> None:
        self.may_proceed: Callable[[], None] = may_proceed

    def arrival(self, now: float) -> None:
        """Return no source, as there are no messages."""

    def make_message(
        self,
        source: None,  # noqa: ARG002
        timestamp: int,  # noqa: ARG002
        attempts: int,  # noqa: ARG002
        message_id: bytes,
        body: bytes,  # noqa: ARG002
        /,
    ) -> None:
        """Raise an error: nsqd pushes messages only after SUB."""
        raise ProtocolError(f"nsqd pushed message {message_id!r} on a connection without a subscription")

    def received(self, messages: list[None], now: float) -> None:
        """Never called with messages, since `make_message` raises."""

    def response_failed(self, failure: ResponseFailed) -> None:
        """Raise an error: no FIN, REQ or TOUCH was sent."""
        raise ProtocolError(f"nsqd answered {failure.error} on a connection without a subscription")
