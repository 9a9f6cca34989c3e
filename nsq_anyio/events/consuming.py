"""The events of a consumer."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar

from .event import ConsumerEvent, MessageEvent


@dataclass(frozen=True, slots=True)
class RdyChanged(ConsumerEvent):
    """The RDY count of a connection was changed."""

    nsqd: str
    rdy: int

    def __str__(self) -> str:
        return f"{self.nsqd}: RDY {self.rdy}"


@dataclass(frozen=True, slots=True)
class BackoffStarted(ConsumerEvent):
    """Handlers are failing: the consumer receives nothing for ``seconds``, then a single message."""

    level: ClassVar[int] = logging.WARNING
    backoff_level: int
    seconds: float

    def __str__(self) -> str:
        subject = f"{self.topic}/{self.channel}"
        return f"{subject}: backing off for {self.seconds:.1f} s, level {self.backoff_level}"


@dataclass(frozen=True, slots=True)
class BackoffEnded(ConsumerEvent):
    """Handlers succeed again: the consumer receives messages at the full rate."""

    level: ClassVar[int] = logging.INFO

    def __str__(self) -> str:
        return f"{self.topic}/{self.channel}: backoff is over"


@dataclass(frozen=True, slots=True)
class HandlerFailed(MessageEvent):
    """A handler raised; its message is requeued.

    :ivar messages: how many messages it was handling, the first of which this event names; 1 unless it is a
        `nsq_anyio.BatchHandler`
    """

    level: ClassVar[int] = logging.ERROR
    error: BaseException
    messages: int = 1

    @property
    def logged_error(self) -> BaseException | None:
        """The exception that the handler raised."""
        return self.error

    def __str__(self) -> str:
        subject = f"message {self.message_id} of {self.topic}/{self.channel}, attempt {self.attempts}"
        if self.messages > 1:
            subject = f"{self.messages} messages, the first of which is {subject}"
        return f"{self.nsqd}: the handler failed on {subject}: {self.error!r}"


@dataclass(frozen=True, slots=True)
class HandlerReturnedFalse(MessageEvent):
    """A handler returned False, which finishes its message like any other value. Emitted once per `run`."""

    level: ClassVar[int] = logging.WARNING

    def __str__(self) -> str:
        return (
            f"{self.nsqd}: the handler of {self.topic}/{self.channel} returned False for message "
            f"{self.message_id}, which is finished all the same: raise nsq.Requeue() to have a message "
            "requeued (later ones are not reported)"
        )


@dataclass(frozen=True, slots=True)
class ThreadAbandoned(MessageEvent):
    """A plain handler is still running in its thread, although its message has timed out or `run` has ended.

    A thread cannot be cancelled. From now on its answers are dropped, and counted as late.

    :ivar function: the name of the handler
    :ivar running_for: the seconds since the handler was called
    :ivar timed_out: True if its message has timed out; False if `run` has ended
    """

    level: ClassVar[int] = logging.WARNING
    function: str
    running_for: float
    timed_out: bool

    def __str__(self) -> str:
        if self.timed_out:
            begin = f"message {self.message_id} has timed out"
            end = "which cannot be cancelled and occupies one of the `concurrency` slots until it ends"
        else:
            begin = f"run() has ended, and message {self.message_id} is handed back"
            end = "which cannot be cancelled and may delay the end of the program"
        return (
            f"{self.nsqd}: {begin}, but {self.function} has been working on it for {self.running_for:.1f} s "
            f"in a thread, {end}"
        )


@dataclass(frozen=True, slots=True)
class AbandonedThreadEnded(MessageEvent):
    """A handler that was reported as `ThreadAbandoned` has ended.

    :ivar function: the name of the handler
    :ivar ran_for: the seconds for which it ran
    """

    level: ClassVar[int] = logging.WARNING
    function: str
    ran_for: float

    def __str__(self) -> str:
        return (
            f"{self.nsqd}: {self.function} has ended after {self.ran_for:.1f} s on message "
            f"{self.message_id}, too late for its answer"
        )


@dataclass(frozen=True, slots=True)
class Starved(ConsumerEvent):
    """A task has waited for a message for 5 seconds, but ``max_in_flight`` messages are unanswered.

    A starvation that lasts or recurs is reported after pauses that double from 5 seconds to 5 minutes.

    :ivar unanswered: the number of messages that were received and are not answered
    :ivar seconds: the time since the last of them arrived
    """

    level: ClassVar[int] = logging.WARNING
    unanswered: int
    seconds: float

    def __str__(self) -> str:
        held = "1 message is" if self.unanswered == 1 else f"{self.unanswered} messages are"
        return (
            f"{self.topic}/{self.channel}: a task waits for a message, but {held} unanswered, the last for "
            f"{self.seconds:.1f} s, and max_in_flight allows no more: answer each one (`async with message:`,"
            " finish() or requeue()); to work on more at a time, raise max_in_flight"
        )


@dataclass(frozen=True, slots=True)
class LoopBlocked(ConsumerEvent):
    """Code that does not await blocked the event loop.

    :ivar seconds: for how long
    :ivar msg_timeout: nsqd's message timeout, in seconds
    """

    level: ClassVar[int] = logging.WARNING
    seconds: float
    msg_timeout: float

    def __str__(self) -> str:
        return (
            f"the event loop was blocked for {self.seconds:.1f} s (msg_timeout is {self.msg_timeout:g} s): "
            "messages time out meanwhile and are delivered again; call blocking code with "
            "`await anyio.to_thread.run_sync(...)`"
        )


@dataclass(frozen=True, slots=True)
class MessageFinished(MessageEvent):
    """A message was finished. Not logged."""


@dataclass(frozen=True, slots=True)
class MessageRequeued(MessageEvent):
    """A message was requeued; nsqd delivers it again after ``delay`` seconds.

    It is logged only if its handler raised `Requeue` with a reason; then at most one a second is logged, with
    the number of the others.
    """

    level: ClassVar[int] = logging.WARNING
    delay: float
    reason: str = ""

    def __str__(self) -> str:
        subject = f"message {self.message_id} of {self.topic}/{self.channel}, attempt {self.attempts},"
        text = f"{self.nsqd}: {subject} requeued in {self.delay:g} s"
        return f"{text}: {self.reason}" if self.reason else text


@dataclass(frozen=True, slots=True)
class MessageTouched(MessageEvent):
    """A message was touched; its new ``deadline`` is on AnyIO's clock. Not logged."""

    deadline: float


@dataclass(frozen=True, slots=True)
class MessageDiscarded(MessageEvent):
    """A handler raised `Discard`; its message is finished.

    At most one a second is logged, with the number of the others.
    """

    level: ClassVar[int] = logging.WARNING
    reason: str

    def __str__(self) -> str:
        subject = f"message {self.message_id} of {self.topic}/{self.channel}"
        return f"{self.nsqd}: {subject} discarded: {self.reason}"


@dataclass(frozen=True, slots=True)
class GaveUp(MessageEvent):
    """A message is given up: it is finished, although it was not handled.

    :ivar error: how its last attempt failed, the ``max_attempts``-th or a later one; None if no handler was
        called this time, because it was delivered more than ``max_deliveries`` times
    """

    level: ClassVar[int] = logging.ERROR
    error: BaseException | None

    def __str__(self) -> str:
        subject = f"message {self.message_id} of {self.topic}/{self.channel}"
        why = "delivered more than max_deliveries times" if self.error is None else repr(self.error)
        return f"{self.nsqd}: gave up {subject} at attempt {self.attempts}: {why}"


@dataclass(frozen=True, slots=True)
class DeadLetterFailed(MessageEvent):
    """A dead letter could not be published to ``dead_letter_topic``; its message is requeued."""

    level: ClassVar[int] = logging.ERROR
    dead_letter_topic: str
    error: BaseException

    def __str__(self) -> str:
        subject = f"the dead letter of message {self.message_id}, attempt {self.attempts},"
        return f"{self.nsqd}: {subject} could not be published to {self.dead_letter_topic}: {self.error!r}"


@dataclass(frozen=True, slots=True)
class DeduplicationFailed(MessageEvent):
    """The store of a `nsq_anyio.Deduplicate` failed.

    A message that could not be claimed is requeued. One that was handled is finished, although the store may
    not know it, so that a copy of it may be handled as well.
    """

    level: ClassVar[int] = logging.ERROR
    error: BaseException

    def __str__(self) -> str:
        subject = f"message {self.message_id} of {self.topic}/{self.channel}, attempt {self.attempts}"
        return f"{self.nsqd}: the store of ids failed for {subject}: {self.error!r}"


@dataclass(frozen=True, slots=True)
class MessageTimedOut(MessageEvent):
    """A message was not answered before its deadline; nsqd has requeued it."""

    level: ClassVar[int] = logging.WARNING

    def __str__(self) -> str:
        subject = f"message {self.message_id} of {self.topic}/{self.channel}"
        return f"{self.nsqd}: {subject} timed out at attempt {self.attempts}, after {self.seconds:.1f} s"


@dataclass(frozen=True, slots=True)
class ResponseFailed(ConsumerEvent):
    """nsqd refused a FIN, REQ or TOUCH: the message was no longer in flight there.

    :ivar code: nsqd's error code, such as ``E_FIN_FAILED``
    :ivar message_id: the id of the message; None if nsqd did not name it
    :ivar seconds: the time since nsqd delivered the message; None after a FIN or REQ, because the consumer
        does not remember answered messages, and nsqd's refusal has only the id
    """

    level: ClassVar[int] = logging.WARNING
    nsqd: str
    code: str
    message_id: str | None
    seconds: float | None

    def __str__(self) -> str:
        message = "a message" if self.message_id is None else f"message {self.message_id}"
        subject = f"{message} of {self.topic}/{self.channel}"
        return f"{self.nsqd}: {self.code} for {subject}: it was no longer in flight"
