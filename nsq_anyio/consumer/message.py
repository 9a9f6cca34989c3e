"""A message, and the ways to answer it."""

from __future__ import annotations

import itertools
import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Protocol, Self

import anyio

from ..connection.background import Background
from ..connection.stray import is_stray
from ..errors import AlreadyResponded, Discard, InvalidOption, Requeue
from ..unwrapping import only_error

__all__ = ["Delivery", "Message", "MessageDelegate", "finish_all"]


class MessageDelegate(Protocol):
    """Takes the answers to the messages of one connection, as go-nsq's ``MessageDelegate`` does.

    :ivar nsqd: the address, as ``host:port`` or a path
    """

    nsqd: str
    topic: str
    channel: str

    def holds(self, message: Message) -> bool:
        """Return whether nsqd still waits for the answer to ``message``, as far as is known here."""
        ...

    def unanswered(self) -> list[Message]:
        """Return all messages for whose answers nsqd still waits."""
        ...

    def finish(self, message: Message, *, handled: bool = True) -> None:
        """Send FIN; count a success in backoff if the message was ``handled``."""
        ...

    def finish_all(self, messages: Sequence[Message]) -> None:
        """Send FIN for each message."""
        ...

    def requeue(self, message: Message, delay: float | None, *, backoff: bool) -> None:
        """Send REQ; count a failure in backoff if ``backoff`` is True."""
        ...

    def touch(self, message: Message) -> None:
        """TOUCH."""
        ...

    def discarded(self, message: Message, reason: str) -> None:
        """Report that the handler discards ``message``."""
        ...

    def expire(self, now: float) -> None:
        """Forget the messages past their deadline: nsqd has requeued them."""
        ...


class Delivery:
    """The state that all messages of one received chunk share.

    :ivar delegate: takes the answers
    :ivar deadline: when nsqd stops waiting for their answers
    :ivar hard_deadline: the latest time to which TOUCH can extend the deadline (nsqd's ``--max-msg-timeout``)
    """

    __slots__ = ("deadline", "delegate", "hard_deadline")

    def __init__(self, delegate: MessageDelegate, deadline: float, hard_deadline: float) -> None:
        self.delegate: MessageDelegate = delegate
        self.deadline: float = deadline
        self.hard_deadline: float = hard_deadline


class Message:
    """A message, which must be answered with `finish` or `requeue` before its `deadline`.

    `finish`, `requeue` and `touch` queue a whole command and return at once. An answer that comes after the
    deadline, or after the end of the connection, is dropped and counted: nsqd has requeued the message.

    An ``async with message:`` block answers it: FIN when the block ends, REQ when it raises. `Requeue` and
    `Discard` do not leave the block; any other exception does.

    :ivar body: the payload
    :ivar attempts: how many times nsqd has delivered it, including this time; 1 to 65535
    :ivar timestamp: when it was published, in nanoseconds since the epoch
    :ivar delivery: shared by the messages that arrived together; internal
    :ivar wire_id: `id` as it is sent in commands; internal
    """

    __slots__ = ("_responded", "attempts", "body", "delivery", "timestamp", "wire_id")

    def __init__(
        self, delivery: Delivery, timestamp: int, attempts: int, message_id: bytes, body: bytes
    ) -> None:
        self.delivery: Delivery = delivery
        self.timestamp: int = timestamp
        self.attempts: int = attempts
        self.wire_id: bytes = message_id
        self.body: bytes = body
        self._responded = False

    def __repr__(self) -> str:
        state = "answered" if self._responded else "unanswered"
        return f"<Message {self.id} {self.topic}/{self.channel} attempt {self.attempts}, {state}>"

    @property
    def id(self) -> str:
        """The message's id, 16 hexadecimal digits, unique within its nsqd."""
        return self.wire_id.decode("ascii", "backslashreplace")

    @property
    def topic(self) -> str:
        """The topic that the message was published to."""
        return self.delivery.delegate.topic

    @property
    def channel(self) -> str:
        """The channel that the message was consumed from."""
        return self.delivery.delegate.channel

    @property
    def nsqd(self) -> str:
        """The address of the nsqd that delivered the message, as ``host:port`` or a path."""
        return self.delivery.delegate.nsqd

    @property
    def deadline(self) -> float:
        """When nsqd stops waiting for the answer, on AnyIO's clock (`anyio.current_time`)."""
        return self.delivery.deadline

    @property
    def responded(self) -> bool:
        """Whether the message was finished or requeued."""
        return self._responded

    def finish(self) -> None:
        """Tell nsqd that the message is processed (FIN).

        :raises AlreadyResponded: if it was finished or requeued before
        """
        if self._responded:
            raise AlreadyResponded(f"message {self.id} is already answered")
        self._responded = True
        self.delivery.delegate.finish(self)

    def requeue(self, delay: float | None = None, *, backoff: bool = True) -> None:
        """Tell nsqd to deliver the message again (REQ).

        :param delay: seconds until then, 0 or more; nsqd bounds it by its ``--max-req-timeout``; None takes
            ``requeue_delay`` times the attempts, at most ``max_requeue_delay``
        :param backoff: whether this counts as a failure that slows the consumer down
        :raises AlreadyResponded: if it was finished or requeued before
        :raises InvalidOption: if the delay is negative or not finite
        """
        if delay is not None and not 0 <= delay < math.inf:
            raise InvalidOption(f"delay={delay!r} is not valid: use 0 or more (seconds)")
        if self._responded:
            raise AlreadyResponded(f"message {self.id} is already answered")
        self._responded = True
        self.delivery.delegate.requeue(self, delay, backoff=backoff)

    def touch(self) -> None:
        """Ask nsqd for another ``msg_timeout`` (TOUCH). nsqd allows at most ``max_msg_timeout`` in all.

        :raises AlreadyResponded: if it was finished or requeued before
        """
        if self._responded:
            raise AlreadyResponded(f"message {self.id} is already answered")
        self.delivery.delegate.touch(self)

    @asynccontextmanager
    async def keep_alive(self) -> AsyncGenerator[Self]:
        """Touch the message half-way to each deadline while a block runs, as long as nsqd allows.

        ::

            async with message.keep_alive():
                await something_long()

        The message still times out after nsqd's ``max_msg_timeout``.
        """
        stray: BaseException | None = None
        async with Background(self._keep_touching).around_block():
            try:
                yield self
            except BaseException as error:
                if not is_stray(error):
                    raise
                stray = error  # the task group might take it for its own cancellation, and end it
        if stray is not None:
            raise stray

    async def _keep_touching(self) -> None:
        while self.delivery.deadline < self.delivery.hard_deadline:
            await anyio.sleep(max(self.delivery.deadline - anyio.current_time(), 0) / 2)
            if self._responded or not self.delivery.delegate.holds(self):
                return
            self.touch()

    def give_up(self) -> None:
        """Finish a message that exceeded ``max_attempts``, without affecting backoff."""
        if not self._responded:
            self._responded = True
            self.delivery.delegate.finish(self, handled=False)

    def answer_for(self, error: BaseException | None) -> None:
        """Answer according to how processing ended, unless it is answered: FIN for None, otherwise REQ."""
        if self._responded:
            return
        match error:
            case None:
                self.finish()
            case Requeue(delay=delay, backoff=backoff):
                self.requeue(delay, backoff=backoff)
            case Discard(reason=reason):
                self.delivery.delegate.discarded(self, reason)
                self.finish()
            case _ if isinstance(error, Exception) or is_stray(error):
                self.requeue()
            case SystemExit() | KeyboardInterrupt():
                # The program ends, and the consumer's block hands the message back after CLS. Requeued before
                # CLS, the message would be pushed to this connection again.
                pass
            case _:
                # The handler was cancelled, which is not the message's fault: requeue it without a delay.
                if self.delivery.delegate.holds(self):
                    self.requeue(0, backoff=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        signal = None if exc is None else only_error(exc)
        self.answer_for(signal)
        return isinstance(signal, Requeue | Discard)


def finish_all(messages: Sequence[Message]) -> None:
    """Finish several messages, in less than half the time of a `Message.finish` for each.

    :raises AlreadyResponded: if one of them was finished or requeued before; then none is finished
    """
    for message in messages:
        if message.responded:
            raise AlreadyResponded(f"message {message.id} is already answered")
    for message in messages:
        message._responded = True  # noqa: SLF001 - part of the class, but for several messages
    for delegate, some in itertools.groupby(messages, lambda message: message.delivery.delegate):
        delegate.finish_all(list(some))
