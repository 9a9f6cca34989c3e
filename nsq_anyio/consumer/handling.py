"""What a consumer's middleware gets: which messages are being handled, and how that ended."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from ..errors import Discard, Requeue
from ..tasks import is_stray
from ..unwrapping import only_error
from .message import Answer, Message


class Handling:
    """Messages that are being handled: the argument of a consumer's middleware.

    :ivar messages: one message, or all messages of a batch
    :ivar topic: their topic
    :ivar channel: the channel that they were consumed from
    :ivar nsqd: the address of the nsqd that delivered the first message, as ``host:port`` or a path
    :ivar attempts: how many times the first message was delivered, including this time; 1 to 65535
    :ivar outcome: None until the handler or block has ended. Then "finished"; "requeued", by the handler or
        because of an exception, also if it is given up next; "discarded"; "gave_up", if this is the give-up;
        "timed_out", if nsqd no longer waits for the answer; or "cancelled", if the message is handed back at
        once, because the handler was cancelled or the program ends. For a batch, the outcome of the messages
        that its block has not answered; if there are none, that of the first message
    :ivar error: the exception of the handler, or of a middleware inside this one; None if there is none
    """

    __slots__ = ("_gives_up", "attempts", "channel", "error", "messages", "nsqd", "outcome", "topic")

    def __init__(self, messages: tuple[Message, ...], *, gives_up: bool = False) -> None:
        first = messages[0]
        delegate = first.delivery.delegate
        self.messages: tuple[Message, ...] = messages
        self.topic: str = delegate.topic
        self.channel: str = delegate.channel
        self.nsqd: str = delegate.nsqd
        self.attempts: int = first.attempts
        self.outcome: Answer | None = None
        self.error: BaseException | None = None
        self._gives_up = gives_up

    def __repr__(self) -> str:
        first, *others = self.messages
        subject = f"{len(self.messages)} messages" if others else first.id
        return f"<Handling {subject} of {self.topic}/{self.channel}, {self.outcome or 'running'}>"

    def ended(self, error: BaseException | None) -> None:
        """Note how the handler, and the middleware inside the one that exits next, have ended."""
        self.error = error
        message = next((each for each in self.messages if not each.responded), self.messages[0])
        self.outcome = self._outcome(message, error)

    def _outcome(self, message: Message, error: BaseException | None) -> Answer:
        if message.response is not None:
            return "gave_up" if self._gives_up and message.response == "finished" else message.response
        if not message.delivery.delegate.holds(message):
            return "timed_out"
        match None if error is None else only_error(error):
            case None:
                return "gave_up" if self._gives_up else "finished"
            case Requeue():
                return "requeued"
            case Discard():
                return "discarded"
            case raised if isinstance(raised, Exception) or is_stray(raised):
                return "requeued"
            case _:
                return "cancelled"


ConsumerMiddleware = Callable[[Handling], AbstractAsyncContextManager[object]]
"""A middleware of `consume`: takes a `Handling`, and returns an async context manager."""
