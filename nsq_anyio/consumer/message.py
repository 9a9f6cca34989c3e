"""A message, as its consumer holds it."""

from __future__ import annotations

import itertools
import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

import anyio

from ..connection.background import Background
from ..connection.stray import is_stray
from ..errors import AlreadyResponded, Discard, InvalidOption, Requeue

if TYPE_CHECKING:
    from .subscription import Subscription

__all__ = ["Delivery", "Message", "finish_all", "signal_in"]


class Delivery:
    """What all messages of one received chunk have in common.

    :ivar deadline: when nsqd stops waiting for their answers
    :ivar hard_deadline: up to when TOUCH can move that (nsqd's ``--max-msg-timeout``)
    """

    __slots__ = ("deadline", "hard_deadline", "subscription")

    def __init__(self, subscription: Subscription, deadline: float, hard_deadline: float) -> None:
        self.subscription: Subscription = subscription
        self.deadline: float = deadline
        self.hard_deadline: float = hard_deadline


class Message:
    """A message that nsqd waits to have answered, by `finish` or `requeue`, before its `deadline`.

    `finish`, `requeue` and `touch` queue a whole command and return at once. An answer that comes too late,
    after the deadline or the end of the connection, is dropped and counted: nsqd has requeued the message.

    Used as ``async with message:`` the block answers: FIN at its end, REQ when it raises. `Requeue` and
    `Discard` are understood and end there; any other exception goes on.

    :ivar body: the payload
    :ivar attempts: how often nsqd has delivered it, this time included; 1 to 65535
    :ivar timestamp: when it was published, in nanoseconds since the epoch
    :ivar delivery: what it shares with the messages that arrived together with it; internal
    :ivar wire_id: `id` as it stands in commands; internal
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
        """The topic it was published to."""
        return self.delivery.subscription.topic

    @property
    def channel(self) -> str:
        """The channel it was consumed from."""
        return self.delivery.subscription.channel

    @property
    def nsqd(self) -> str:
        """The address of the nsqd it came from, as ``host:port``."""
        return self.delivery.subscription.nsqd

    @property
    def deadline(self) -> float:
        """When nsqd stops waiting for the answer, on AnyIO's clock (`anyio.current_time`)."""
        return self.delivery.deadline

    @property
    def responded(self) -> bool:
        """Whether it was finished or requeued."""
        return self._responded

    def finish(self) -> None:
        """Tell nsqd that the message is done with (FIN).

        :raises AlreadyResponded: if it was finished or requeued before
        """
        if self._responded:
            raise AlreadyResponded(f"message {self.id} has its answer already")
        self._responded = True
        self.delivery.subscription.finish(self)

    def requeue(self, delay: float | None = None, *, backoff: bool = True) -> None:
        """Tell nsqd to offer the message again (REQ).

        :param delay: seconds until then, 0 or more; nsqd bounds it by its ``--max-req-timeout``; None takes
            ``requeue_delay`` times the attempts, at most ``max_requeue_delay``
        :param backoff: whether this counts as a failure that slows the consumer down
        :raises AlreadyResponded: if it was finished or requeued before
        :raises InvalidOption: if the delay is negative or not finite
        """
        if delay is not None and not 0 <= delay < math.inf:
            raise InvalidOption(f"delay={delay!r} is not valid: use 0 or more (seconds)")
        if self._responded:
            raise AlreadyResponded(f"message {self.id} has its answer already")
        self._responded = True
        self.delivery.subscription.requeue(self, delay, backoff=backoff)

    def touch(self) -> None:
        """Ask nsqd for another ``msg_timeout`` (TOUCH), at most up to its ``max_msg_timeout`` in all.

        :raises AlreadyResponded: if it was finished or requeued before
        """
        if self._responded:
            raise AlreadyResponded(f"message {self.id} has its answer already")
        self.delivery.subscription.touch(self)

    @asynccontextmanager
    async def keep_alive(self) -> AsyncGenerator[Self]:
        """Touch the message while a block runs, half-way to each deadline, as long as nsqd allows.

        ::

            async with message.keep_alive():
                await something_long()

        After nsqd's ``max_msg_timeout`` the message times out all the same.
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
            if self._responded or not self.delivery.subscription.holds(self):
                return
            self.touch()

    def give_up(self) -> None:
        """Finish a message that was tried too often; that says nothing of how the handlers do."""
        if not self._responded:
            self._responded = True
            self.delivery.subscription.finish(self, handled=False)

    def answer_for(self, error: BaseException | None) -> None:
        """Answer by how its processing ended, unless it has its answer: FIN for None, else REQ."""
        if self._responded:
            return
        match error:
            case None:
                self.finish()
            case Requeue(delay=delay, backoff=backoff):
                self.requeue(delay, backoff=backoff)
            case Discard(reason=reason):
                self.delivery.subscription.discarded(self, reason)
                self.finish()
            case _ if isinstance(error, Exception) or is_stray(error):
                self.requeue()
            case SystemExit() | KeyboardInterrupt():
                # The program ends, and with it the block, which hands the message back after CLS. Before
                # that nsqd would push it to this connection again.
                pass
            case _:
                # Cancelled: not the message's fault; another consumer gets it at once.
                if self.delivery.subscription.holds(self):
                    self.requeue(0, backoff=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        signal = signal_in(exc)
        self.answer_for(signal)
        return isinstance(signal, Requeue | Discard)


def finish_all(messages: Sequence[Message]) -> None:
    """Finish messages, as `Message.finish` does, for less than half of the time.

    :raises AlreadyResponded: if one was finished or requeued before; then none is finished here
    """
    for message in messages:
        if message.responded:
            raise AlreadyResponded(f"message {message.id} has its answer already")
    for message in messages:
        message._responded = True  # noqa: SLF001 - part of the class, but for several messages
    for subscription, some in itertools.groupby(messages, lambda message: message.delivery.subscription):
        subscription.finish_all(list(some))


def signal_in(error: BaseException | None) -> BaseException | None:
    """What ``error`` says of the message; a task group may have wrapped it in an exception group."""
    if not isinstance(error, ExceptionGroup):
        return error
    group = cast("ExceptionGroup[Exception]", error)
    return signal_in(group.exceptions[0]) if len(group.exceptions) == 1 else group
