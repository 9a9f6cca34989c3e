"""Messages without a connection, for unit tests of handlers, and the answers that they record."""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Self, TypeAlias

import anyio

from ..consumer.keep_alive import Touching
from ..consumer.message import Arrival, GivesUp, Message
from ..errors import InvalidBody, InvalidOption
from ..names import check_channel, check_topic
from ..options.checks import check_integer, check_seconds
from ..policy.backoff import Result
from ..tasks import background_tasks
from .event_loop import is_in_event_loop

_MAX_TOUCHED = 15
"""By default, nsqd lets TOUCH extend a message to 15 times its timeout: 15 minutes against 1 minute."""
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Finished:
    """The message was finished."""


@dataclass(frozen=True, slots=True)
class Requeued:
    """The message was requeued.

    :ivar delay: seconds until nsqd would deliver it again; None for the delay that the consumer's options
        give
    :ivar backoff: whether this counts as a failure in backoff
    :ivar error: the exception that the handler raised; None if it raised `Requeue` or called ``requeue()``.
        Comparisons ignore it
    :ivar reason: the reason given to `Requeue`
    """

    delay: float | None = None
    backoff: bool = True
    error: BaseException | None = field(default=None, compare=False)
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Discarded:
    """The handler raised `Discard`, so the message was finished.

    :ivar reason: the reason given to `Discard`
    """

    reason: str = ""


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The message was not answered before its deadline; nsqd would have requeued it."""


Answer: TypeAlias = Finished | Requeued | Discarded | TimedOut


# ruff: noqa: ARG002 - a MessageDelegate gets more than a recorder needs


class RecordedMessage(Message):
    """A message that records how it is answered. Made by `nsq_anyio.testing.message`."""

    __slots__ = ("_recorder",)

    def __init__(self, recorder: _Recorder, timestamp: int, attempts: int, id: bytes, body: bytes) -> None:
        super().__init__(recorder.arrival(), timestamp, attempts, id, body)
        self._recorder = recorder

    @property
    def answer(self) -> Answer | None:
        """The answer; None until the message is answered or times out."""
        return self._recorder.answer

    @property
    def touches(self) -> int:
        """The number of times that the message was touched."""
        return self._recorder.touches

    @property
    def deadline(self) -> float:
        return self._recorder.on_the_loops_clock(self._arrival.deadline)

    def time_left(self) -> float:
        return max(self._arrival.deadline - self._recorder.now(), 0.0)

    @asynccontextmanager
    async def keep_alive(self) -> AsyncGenerator[Self]:
        async with background_tasks() as tasks, super().keep_alive():
            tasks.start_soon(self._recorder.touching.run)
            yield self

    def deliver(self) -> None:
        """Restart its timeout from now; `handle` calls this."""
        self._recorder.is_in_event_loop = is_in_event_loop()
        self._arrival: Arrival = self._recorder.arrival()

    def _note_error(self, error: BaseException) -> None:
        """Record the exception that the handler raised."""
        self._recorder.error = error


class _Recorder:
    """Takes the answers to one message, in place of a connection."""

    def __init__(self, topic: str, channel: str, nsqd: str, msg_timeout: float) -> None:
        self.topic: str = topic
        self.channel: str = channel
        self.nsqd: str = nsqd
        self.giving_up: GivesUp[Message] | None = None
        self.touching: Touching = Touching()
        self.answer: Answer | None = None
        self.touches: int = 0
        self.error: BaseException | None = None
        self.is_in_event_loop: bool = is_in_event_loop()
        self._msg_timeout = msg_timeout
        self._reason: str | None = None

    # Its clock: AnyIO's, or the system's if it was created outside any event loop

    def now(self) -> float:
        return anyio.current_time() if self.is_in_event_loop else time.monotonic()

    def on_the_loops_clock(self, time_here: float) -> float:
        if self.is_in_event_loop or not is_in_event_loop():
            return time_here
        return anyio.current_time() + (time_here - time.monotonic())

    def arrival(self, hard_deadline: float | None = None) -> Arrival:
        now = self.now()
        hard_deadline = hard_deadline or now + _MAX_TOUCHED * self._msg_timeout
        return Arrival(self, now, min(now + self._msg_timeout, hard_deadline), hard_deadline)

    # As a MessageDelegate

    def holds(self, message: Message) -> bool:
        return self.answer is None

    def finish(self, message: Message, *, result: Result = Result.SUCCESS) -> None:
        self._note(Finished() if self._reason is None else Discarded(self._reason))

    def finish_all(self, messages: Sequence[Message]) -> None:
        self._note(Finished())

    def requeue(self, message: Message, delay: float | None, *, backoff: bool, reason: str = "") -> None:
        self._note(Requeued(delay, backoff, self.error, reason))

    def touch(self, message: Message) -> None:
        if self.answer is None:
            self.touches += 1
            message._arrival = self.arrival(message._arrival.hard_deadline)

    def discarded(self, message: Message, reason: str) -> None:
        self._reason = reason

    def failed(self, message: Message) -> None:
        pass  # `requeue` records that

    def give_up_soon(self, message: Message, error: BaseException) -> None:
        pass  # only a consumer gives up

    def gave_up(self, message: Message, error: BaseException | None) -> None:
        pass  # likewise

    def expire(self, now: float) -> None:
        self._note(TimedOut())

    def _note(self, answer: Answer) -> None:
        if self.answer is None:  # later answers are dropped, as on a connection
            self.answer = answer


def message(
    body: bytes,
    *,
    attempts: int = 1,
    timestamp: int | None = None,
    id: str | None = None,
    topic: str = "topic",
    channel: str = "channel",
    nsqd: str = "test:4150",
    msg_timeout: float = 60.0,
) -> RecordedMessage:
    """Create a message for a test. No event loop is needed.

    :param body: the body; one made by `nsq_anyio.envelope.encode` gives the message headers
    :param attempts: its `Message.attempts`, 1 to 65535; default 1
    :param timestamp: its `Message.timestamp`, in nanoseconds since the epoch, 0 or more; default: now
    :param id: its `Message.id`, 16 ASCII characters; default: an id that no other message has
    :param topic: its `Message.topic`; default ``topic``
    :param channel: its `Message.channel`; default ``channel``
    :param nsqd: its `Message.nsqd`; default ``test:4150``
    :param msg_timeout: seconds until its deadline, 0 or more; default 60
    :raises InvalidOption: if ``attempts``, ``timestamp``, ``id`` or ``msg_timeout`` is out of range
    :raises InvalidName: if nsqd would refuse the topic or channel
    :raises InvalidBody: if ``body`` is not bytes
    """
    check_integer("attempts", attempts, 1, 65535)
    check_integer("timestamp", timestamp, 0, special=(None,))
    check_seconds("msg_timeout", msg_timeout, 0)
    check_topic(topic)
    check_channel(channel)
    if not isinstance(body, bytes):
        raise InvalidBody(f"body={body!r} is not valid: use bytes")
    wire_id = f"{next(_numbers):016x}" if id is None else id
    if len(wire_id) != 16 or not wire_id.isascii():
        raise InvalidOption(f"id={id!r} is not valid: use 16 ASCII characters")
    return RecordedMessage(
        _Recorder(topic, channel, nsqd, msg_timeout),
        time.time_ns() if timestamp is None else timestamp,
        attempts,
        wire_id.encode(),
        body,
    )
