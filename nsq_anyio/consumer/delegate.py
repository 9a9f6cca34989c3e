"""What messages need of the connection that delivered them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from ..policy.backoff import Result

MessageT = TypeVar("MessageT")
MessageT_contra = TypeVar("MessageT_contra", contravariant=True)


class GivesUp(Protocol[MessageT_contra]):
    """Decides which messages are given up, and which become dead letters: a `GivingUp`."""

    def is_last(self, message: MessageT_contra) -> bool:
        """Return whether ``message`` is given up if its handling fails now."""
        ...

    def buries(self, error: BaseException) -> bool:
        """Return whether a message whose handler raised ``error`` gets a dead letter, at any attempt."""
        ...

    async def may_answer(self, message: MessageT_contra, error: BaseException) -> bool:
        """Give up ``message`` or publish its dead letter, if ``error`` asks for that.

        :returns: whether it is still to be answered for the error
        """
        ...


class Touches(Protocol[MessageT_contra]):
    """Touches messages: a `Touching`."""

    def begin(self, message: MessageT_contra) -> None:
        """Touch ``message`` half-way to each deadline, until an `end` for each `begin`."""
        ...

    def end(self, message: MessageT_contra) -> None:
        """Touch ``message`` no more."""
        ...


class MessageDelegate(Protocol[MessageT]):
    """Takes the answers to the messages of one connection, as go-nsq's ``MessageDelegate`` does.

    :ivar nsqd: the address, as ``host:port`` or a path
    :ivar giving_up: asked before a failed message is answered; None if messages are never given up
    """

    nsqd: str
    topic: str
    channel: str
    giving_up: GivesUp[MessageT] | None

    @property
    def touching(self) -> Touches[MessageT]:
        """Touches messages that are kept alive."""
        ...

    def holds(self, message: MessageT) -> bool:
        """Return whether nsqd still waits for the answer to ``message``, as far as is known here."""
        ...

    def unanswered(self) -> list[MessageT]:
        """Return all messages for whose answers nsqd still waits."""
        ...

    def finish(self, message: MessageT, *, result: Result = Result.SUCCESS) -> None:
        """Send FIN; count the result in backoff unless it is neutral."""
        ...

    def finish_all(self, messages: Sequence[MessageT]) -> None:
        """Send FIN for each message."""
        ...

    def requeue(self, message: MessageT, delay: float | None, *, backoff: bool, reason: str = "") -> None:
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

    def give_up_soon(self, message: MessageT, error: BaseException) -> None:
        """Have the next task that takes messages give up ``message``, or publish its dead letter."""
        ...

    def gave_up(self, message: MessageT, error: BaseException | None) -> None:
        """Report that ``message`` is given up, because of ``error`` or because it was delivered too often."""
        ...

    def expire(self, now: float) -> None:
        """Forget the messages past their deadline: nsqd has requeued them."""
        ...
