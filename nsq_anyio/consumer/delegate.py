"""What messages need of the connection that delivered them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias, TypeVar

__all__ = ["MayAnswer", "MessageDelegate"]

MessageT = TypeVar("MessageT")

MayAnswer: TypeAlias = Callable[[MessageT, BaseException], Awaitable[bool]]
"""Called with a message that was not handled and the error; returns whether to answer it for that error."""


class MessageDelegate(Protocol[MessageT]):
    """Takes the answers to the messages of one connection, as go-nsq's ``MessageDelegate`` does.

    :ivar nsqd: the address, as ``host:port`` or a path
    :ivar may_answer: asked before a failed message is answered; None if there are no dead letters
    """

    nsqd: str
    topic: str
    channel: str
    may_answer: MayAnswer[MessageT] | None

    def holds(self, message: MessageT) -> bool:
        """Return whether nsqd still waits for the answer to ``message``, as far as is known here."""
        ...

    def unanswered(self) -> list[MessageT]:
        """Return all messages for whose answers nsqd still waits."""
        ...

    def finish(self, message: MessageT, *, handled: bool = True) -> None:
        """Send FIN; count a success in backoff if the message was ``handled``."""
        ...

    def finish_all(self, messages: Sequence[MessageT]) -> None:
        """Send FIN for each message."""
        ...

    def requeue(self, message: MessageT, delay: float | None, *, backoff: bool) -> None:
        """Send REQ; count a failure in backoff if ``backoff`` is True."""
        ...

    def touch(self, message: MessageT) -> None:
        """TOUCH."""
        ...

    def discarded(self, message: MessageT, reason: str) -> None:
        """Report that the handler discards ``message``."""
        ...

    def failed(self, message: MessageT) -> None:
        """Count that the handler of ``message`` has failed."""
        ...

    def gave_up(self, message: MessageT) -> None:
        """Report that ``message`` is finished because it exceeded ``max_attempts``."""
        ...

    def expire(self, now: float) -> None:
        """Forget the messages past their deadline: nsqd has requeued them."""
        ...
