"""A message, its answers, and its handling as middleware sees it.

A message knows its connection only as a `MessageDelegate`.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import ClassVar, Literal, Protocol, Self, TypedDict, TypeVar

import anyio

from ..envelope import Envelope, decode
from ..errors import AlreadyResponded, Discard, Requeue
from ..exceptions import only_error
from ..policy.backoff import Result
from ..tasks import is_stray

Answer = Literal["finished", "requeued", "discarded", "gave_up", "timed_out", "cancelled"]
"""How a message was answered: "timed_out" if the answer came too late, "cancelled" if the message was handed
back because its handler was cancelled."""

MessageT_contra = TypeVar("MessageT_contra", contravariant=True)


class Arrival:
    """The arrival of a chunk, which its messages share.

    :ivar delegate: takes the answers
    :ivar arrived: when the messages arrived
    :ivar deadline: when nsqd stops waiting for their answers
    :ivar hard_deadline: the latest time to which TOUCH can extend the deadline (nsqd's ``--max-msg-timeout``)
    """

    __slots__ = ("arrived", "deadline", "delegate", "hard_deadline")

    def __init__(
        self, delegate: MessageDelegate[Message], arrived: float, deadline: float, hard_deadline: float
    ) -> None:
        self.delegate: MessageDelegate[Message] = delegate
        self.arrived: float = arrived
        self.deadline: float = deadline
        self.hard_deadline: float = hard_deadline


class Message:
    """A message, which must be answered with `finish` or `requeue` before its `deadline`.

    `finish`, `requeue` and `touch` queue a whole command and return at once, so that no cancellation can
    interrupt them. An answer that comes after the deadline, or after the end of the connection, is dropped
    and counted: nsqd has requeued the message.

    An ``async with message:`` block answers it: FIN when the block ends, REQ when it raises. `Requeue` and
    `Discard` do not leave the block; any other exception does. If the block is cancelled, the message is
    requeued without a delay, and backoff does not count that as a failure.

    :ivar body: the body as it was published; with headers, the whole envelope
    :ivar attempts: how many times nsqd has delivered it, including this time; 1 to 65535
    :ivar timestamp: when it was published, in nanoseconds since the epoch
    """

    __slots__ = ("_arrival", "_envelope", "_response", "_wire_id", "attempts", "body", "timestamp")

    # The compiled codec does not call `__init__`, but fills these slots with its arguments, and the last slot
    # with None. If a subclass only inherits this attribute, the codec calls the subclass instead.
    _codec_slots: ClassVar[tuple[str, ...]] = (
        "_arrival",
        "timestamp",
        "attempts",
        "_wire_id",
        "body",
        "_response",
    )

    _envelope: Envelope

    def __init__(
        self, arrival: Arrival, timestamp: int, attempts: int, message_id: bytes, body: bytes
    ) -> None:
        self._arrival: Arrival = arrival
        self.timestamp: int = timestamp
        self.attempts: int = attempts
        self._wire_id: bytes = message_id
        self.body: bytes = body
        self._response: Answer | None = None

    def __repr__(self) -> str:
        state = "answered" if self.responded else "unanswered"
        return f"<Message {self.id} {self.topic}/{self.channel} attempt {self.attempts}, {state}>"

    @property
    def id(self) -> str:
        """The message's id, 16 hexadecimal digits, unique within its nsqd."""
        return self._wire_id.decode("ascii", "backslashreplace")

    @property
    def topic(self) -> str:
        """The topic that the message was published to."""
        return self._arrival.delegate.topic

    @property
    def channel(self) -> str:
        """The channel that the message was consumed from."""
        return self._arrival.delegate.channel

    @property
    def nsqd(self) -> str:
        """The address of the nsqd that delivered the message, as ``host:port`` or a path."""
        return self._arrival.delegate.nsqd

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers that the message was published with, by their lower-case names.

        The mapping is empty if the body is not an envelope.

        :raises InvalidEnvelope: if the body begins like an envelope, but cannot be read
        """
        return self._opened().headers

    @property
    def payload(self) -> bytes:
        """The body without the headers; the whole body if it is not an envelope.

        :raises InvalidEnvelope: as `headers` does
        """
        return self._opened().payload

    def _opened(self) -> Envelope:
        try:
            return self._envelope
        except AttributeError:  # decoded on demand: most programs read no headers
            self._envelope = decode(self.body)
            return self._envelope

    @property
    def deadline(self) -> float:
        """When nsqd stops waiting for the answer, on AnyIO's clock (`anyio.current_time`)."""
        return self._arrival.deadline

    def time_left(self) -> float:
        """Return the seconds until the deadline, 0 if it has passed. A plain handler may call it too."""
        return max(self.deadline - anyio.current_time(), 0.0)

    @property
    def responded(self) -> bool:
        """Whether the message was finished or requeued."""
        return self._response is not None

    def finish(self) -> None:
        """Tell nsqd that the message is processed (FIN).

        :raises AlreadyResponded: if it was finished or requeued before
        """
        if self._response is not None:
            raise AlreadyResponded(f"message {self.id} is already answered")
        self._response = "finished"
        self._arrival.delegate.finish(self)

    def _finish_unhandled(self) -> None:
        """Finish a message of which another copy was handled: neither a success nor a failure."""
        self._response = "finished"
        self._arrival.delegate.finish(self, result=Result.NEUTRAL)

    def requeue(self, delay: float | None = None, *, backoff: bool = True) -> None:
        """Tell nsqd to deliver the message again (REQ).

        :param delay: seconds until then, 0 or more; nsqd bounds it by its ``--max-req-timeout``; None takes
            ``requeue_delay``, which grows with the attempts up to ``max_requeue_delay``
        :param backoff: whether this counts as a failure: it slows the consumer down, and from attempt
            ``max_attempts`` on, the message is given up instead. With False, it is always requeued
        :raises AlreadyResponded: if it was finished or requeued before
        :raises InvalidOption: if the delay is negative or not finite
        """
        self._requeue_as(Requeue(delay, backoff=backoff), sys.exception())

    def _requeue_as(self, request: Requeue, error: BaseException | None) -> None:
        """Requeue the message, as `requeue` does.

        :param error: the exception that the caller handles, for the dead letter; None if there is none
        """
        if self._response is not None:
            raise AlreadyResponded(f"message {self.id} is already answered")
        if request.backoff:
            self._requeue_failed(error or request, request.delay)
        else:
            self._requeue_now(request.delay, backoff=False)

    def _requeue_failed(
        self, error: BaseException, delay: float | None = None, *, backoff: bool = True
    ) -> None:
        """Requeue the message, or have it given up if this was its last attempt."""
        delegate = self._arrival.delegate
        if delegate.giving_up is not None and delegate.giving_up.is_last(self):
            self._response = "requeued"
            delegate.give_up_soon(self, error)
        else:
            reason = error.reason if isinstance(error, Requeue) else ""
            self._requeue_now(delay, backoff=backoff, reason=reason)

    def _requeue_now(self, delay: float | None = None, *, backoff: bool = True, reason: str = "") -> None:
        """Requeue the message, even at its last attempt or while it waits to be given up."""
        self._response = "requeued"
        self._arrival.delegate.requeue(self, delay, backoff=backoff, reason=reason)

    def _reopen(self) -> None:
        """Undo the answer of a message that has waited to be given up."""
        self._response = None

    def touch(self) -> None:
        """Ask nsqd for another ``msg_timeout`` (TOUCH). nsqd allows at most ``max_msg_timeout`` in all.

        :raises AlreadyResponded: if it was finished or requeued before
        """
        if self._response is not None:
            raise AlreadyResponded(f"message {self.id} is already answered")
        self._arrival.delegate.touch(self)

    @asynccontextmanager
    async def keep_alive(self) -> AsyncGenerator[Self]:
        """Touch the message half-way to each deadline while a block runs, as long as nsqd allows.

        ::

            async with message.keep_alive():
                await something_long()

        The message still times out after nsqd's ``max_msg_timeout``. A block that is cancelled ends at once,
        and touches the message no more.
        """
        touching = self._arrival.delegate.touching
        touching.begin(self)
        try:
            yield self
        finally:
            touching.end(self)

    def _give_up(self, error: BaseException | None) -> None:
        """Report a message that is given up, and finish it.

        :param error: the failure of its last attempt, which counts in backoff; None if there was no attempt
        """
        self._arrival.delegate.gave_up(self, error)
        if self._response is None:
            self._response = "gave_up"
            is_neutral = error is None or (isinstance(error, Requeue) and not error.backoff)
            self._arrival.delegate.finish(self, result=Result.NEUTRAL if is_neutral else Result.FAILURE)

    def _answer_for(self, error: BaseException | None) -> None:
        """Answer according to how processing ended, unless it is answered: FIN for None, otherwise REQ."""
        if self._response is not None:
            return
        match error:
            case None:
                self.finish()
            case Requeue(delay=delay, backoff=backoff):
                self._requeue_failed(error, delay, backoff=backoff)
            case Discard(reason=reason):
                self._response = "discarded"
                self._arrival.delegate.discarded(self, reason)
                self._arrival.delegate.finish(self)
            case _ if isinstance(error, Exception) or is_stray(error):
                self._requeue_failed(error)
            case SystemExit() | KeyboardInterrupt():
                # The program ends, and the consumer's block hands the message back after CLS. Requeued before
                # CLS, the message would be pushed to this connection again.
                pass
            case _:
                # A cancelled handler is not the message's fault: requeue it without a delay.
                if self._arrival.delegate.holds(self):
                    self._response = "cancelled"
                    self._arrival.delegate.requeue(self, 0, backoff=False)

    async def _end_block(self, error: BaseException | None) -> bool:
        """Answer at the end of an ``async with message:`` block; return whether to suppress ``error``."""
        if error is None:
            self._answer_for(None)
            return False
        signal = only_error(error)
        is_signal = isinstance(signal, Requeue | Discard)
        if not is_signal and (isinstance(signal, Exception) or is_stray(signal)):
            self._arrival.delegate.failed(self)
        await self._settle(signal)
        return is_signal

    async def _settle(self, error: BaseException) -> None:
        """Answer as `_answer_for` does. If the message is given up or gets a dead letter, wait for that."""
        giving_up = self._arrival.delegate.giving_up
        if giving_up is None or self.responded or await giving_up.may_answer(self, error):
            self._answer_for(error)

    def _settle_soon(self, error: BaseException) -> None:
        """Answer as `_settle` does, but leave the wait to the next task that takes messages."""
        delegate = self._arrival.delegate
        if delegate.giving_up is not None and delegate.giving_up.buries(error) and not self.responded:
            self._response = "discarded"
            delegate.give_up_soon(self, error)
        else:
            self._answer_for(error)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if exc is not None:
            return await self._end_block(exc)
        self._answer_for(None)
        return False


MakeMessage = Callable[[Arrival, int, int, bytes, bytes], Message]
"""Makes a message: the class, or a function with its parameters."""


def finish_all(messages: Sequence[Message]) -> None:
    """Finish several messages, in less than half the time of a `Message.finish` for each.

    :raises AlreadyResponded: if any message was finished or requeued before; then none is finished
    """
    for message in messages:
        if message.responded:
            raise AlreadyResponded(f"message {message.id} is already answered")
    for message in messages:
        message._response = "finished"
    for delegate, some in itertools.groupby(messages, lambda message: message._arrival.delegate):
        delegate.finish_all(list(some))


class About(TypedDict):
    """The fields of `nsq_anyio.events.MessageEvent`."""

    nsqd: str
    topic: str
    channel: str
    message_id: str
    attempts: int
    seconds: float


def about(message: Message, now: float | None = None) -> About:
    """Return the fields of an event about ``message``.

    :param now: the time on AnyIO's clock, which can be read only in the event loop; None to read it
    """
    arrival = message._arrival
    delegate = arrival.delegate
    return {
        "nsqd": delegate.nsqd,
        "topic": delegate.topic,
        "channel": delegate.channel,
        "message_id": message.id,
        "attempts": message.attempts,
        "seconds": (anyio.current_time() if now is None else now) - arrival.arrived,
    }


class Handling:
    """Messages that are being handled: the argument of a consumer's middleware.

    :ivar messages: one message, or all messages of a batch
    :ivar topic: their topic
    :ivar channel: the channel that they were consumed from
    :ivar nsqd: the address of the nsqd that delivered the first message, as ``host:port`` or a path
    :ivar attempts: how many times the first message was delivered, including this time; 1 to 65535
    :ivar outcome: None until the handler or block has ended. Then "finished"; "requeued", by the handler or
        because of an exception, even if it is given up next; "discarded"; "gave_up", if this is the give-up;
        "timed_out", if nsqd no longer waits for the answer; or "cancelled", if the message is handed back at
        once, because the handler was cancelled or the program ends. For a batch, the outcome of the messages
        that its block has not answered; if there are none, the outcome of the first message
    :ivar error: the exception of the handler, or of a middleware inside this one; None if there is none
    """

    __slots__ = ("_gives_up", "attempts", "channel", "error", "messages", "nsqd", "outcome", "topic")

    def __init__(self, messages: tuple[Message, ...], *, gives_up: bool = False) -> None:
        first = messages[0]
        delegate = first._arrival.delegate
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

    def _ended(self, error: BaseException | None) -> None:
        """Set the outcome and the error, before the next middleware exits."""
        self.error = error
        message = next((each for each in self.messages if not each.responded), self.messages[0])
        self.outcome = self._outcome(message, error)

    def _outcome(self, message: Message, error: BaseException | None) -> Answer:
        if message._response is not None:
            return "gave_up" if self._gives_up and message._response == "finished" else message._response
        if not message._arrival.delegate.holds(message):
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

        :returns: whether ``message`` must still be answered for the error
        """
        ...


class Touches(Protocol[MessageT_contra]):
    """Touches messages: a `Touching`."""

    def begin(self, message: MessageT_contra) -> None:
        """Touch ``message`` half-way to each deadline, until `end` is called as often as `begin`."""
        ...

    def end(self, message: MessageT_contra) -> None:
        """Undo one call of `begin`."""
        ...


class MessageDelegate(Protocol[MessageT_contra]):
    """Takes the answers to the messages of one connection, as go-nsq's ``MessageDelegate`` does.

    :ivar nsqd: the address, as ``host:port`` or a path
    """

    nsqd: str
    topic: str
    channel: str

    @property
    def giving_up(self) -> GivesUp[MessageT_contra] | None:
        """Asked before a failed message is answered; None if messages are never given up."""
        ...

    @property
    def touching(self) -> Touches[MessageT_contra]:
        """Touches messages that are kept alive."""
        ...

    def holds(self, message: MessageT_contra) -> bool:
        """Return whether nsqd still waits for the answer to ``message``, as far as is known here."""
        ...

    def finish(self, message: MessageT_contra, *, result: Result = Result.SUCCESS) -> None:
        """Send FIN; count the result in backoff unless it is neutral."""
        ...

    def finish_all(self, messages: Sequence[MessageT_contra]) -> None:
        """Send FIN for each message."""
        ...

    def requeue(
        self, message: MessageT_contra, delay: float | None, *, backoff: bool, reason: str = ""
    ) -> None:
        """Send REQ; count a failure in backoff if ``backoff`` is True."""
        ...

    def touch(self, message: MessageT_contra) -> None:
        """Send TOUCH."""
        ...

    def discarded(self, message: MessageT_contra, reason: str) -> None:
        """Report that the handler discards ``message``."""
        ...

    def failed(self, message: MessageT_contra) -> None:
        """Count that the handler of ``message`` has failed."""
        ...

    def give_up_soon(self, message: MessageT_contra, error: BaseException) -> None:
        """Have the next task that takes messages give up ``message``, or publish its dead letter."""
        ...

    def gave_up(self, message: MessageT_contra, error: BaseException | None) -> None:
        """Report that ``message`` is given up, because of ``error`` or because it was delivered too often."""
        ...

    def expire(self, now: float) -> None:
        """Forget the messages past their deadline: nsqd has requeued them."""
        ...
