"""A publish until its outcome: its command, its attempts, and the event that its callers wait for.

The module also holds the verdict on a failed attempt, the watch over deadlines, and the reports of successes.
One task watches all deadlines: a timer or cancel scope for each publish would cost as much as the rest of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from enum import Enum

import anyio

from ..errors import NotSent, NSQError, OutcomeUnknown, PublishError, PublishRejected, ServerError
from ..events import Emitter, PublishedMessages
from ..protocol.error_codes import AUTH_FAILURE_CODES
from ..protocol.session import Command
from ..transport.event_loop import LoopEvent
from .meter import ProducerMeter
from .pool import Pool, ProducerConnection

SPLITTABLE_CODES = frozenset({"E_BAD_BODY", "E_BAD_MESSAGE"})
"""Refusals of a batch after which nsqd may accept some of its messages on their own."""

_NOT_STORED = frozenset({"E_PUB_FAILED", "E_DPUB_FAILED"})

_RESOLUTION = 0.01
"""The seconds by which a deadline may be handled late, so that close deadlines are handled together."""


class Publication:
    """A command to publish, until it has an outcome.

    :ivar topic: the topic
    :ivar messages: the number of messages
    :ivar size: the size of the command in bytes
    :ivar started: when the caller published, on AnyIO's clock
    :ivar deadline: when the callers stop waiting
    :ivar attempt: the attempt that awaits nsqd's answer; None while the publication waits to be sent
    :ivar refused_by: the connections whose nsqd could not store the messages
    :ivar refusal: the last such refusal
    :ivar unknown: the error of an earlier attempt that may have stored the messages; None if there is none
    :ivar done: whether there is an outcome
    :ivar error: the outcome, once `done`; None for success
    :ivar abandoned: whether all callers were cancelled or have timed out
    :ivar event: set when the publication is `done`
    :ivar stored_by: the address of the nsqd that stored it; set only if the dispatcher is asked to
    """

    __slots__ = (
        "_command",
        "_data",
        "abandoned",
        "attempt",
        "deadline",
        "done",
        "error",
        "event",
        "messages",
        "refusal",
        "refused_by",
        "size",
        "started",
        "stored_by",
        "topic",
        "unknown",
    )

    stored_by: str

    def __init__(
        self,
        command: Command,
        topic: str,
        data: bytes,
        messages: int,
        started: float,
        deadline: float,
        event: LoopEvent,
    ) -> None:
        self.topic: str = topic
        self.messages: int = messages
        self.size: int = len(data)
        self.started: float = started
        self.deadline: float = deadline
        self.attempt: Attempt | None = None
        self.refused_by: tuple[ProducerConnection, ...] = ()
        self.refusal: PublishRejected | None = None
        self.unknown: OutcomeUnknown | None = None
        self.done: bool = False
        self.error: PublishError | None = None
        self.abandoned: bool = False
        self.event: LoopEvent = event
        self._command = command
        self._data = data

    def encode(self) -> tuple[Command, bytes]:
        """Return the command to send."""
        return self._command, self._data

    def complete(self, error: PublishError | None) -> None:
        """Set the outcome, and wake the callers."""
        self.done = True
        self.error = error
        self.event.set()

    def or_unknown(self, error: PublishError) -> PublishError:
        """Return ``error``, or `OutcomeUnknown` where an earlier attempt may have stored the message."""
        if self.unknown is None or isinstance(error, OutcomeUnknown):
            return error
        unknown = OutcomeUnknown(f"{self.unknown}; then, when it was sent again: {error}")
        unknown.__cause__ = error
        return unknown

    def expire(self, now: float) -> bool:  # noqa: ARG002
        """Called after the deadline: return True to fail, or set a later deadline and return False."""
        return True

    def split(self, refusal: PublishRejected, sent_messages: int) -> list[Publication] | None:  # noqa: ARG002
        """Return the publications that replace this one, which nsqd has refused; None to fail.

        :param sent_messages: the number of messages that nsqd has refused
        """
        return None


class Attempt:
    """A publication's command on one connection, from sending it to nsqd's answer (a `TakesAnswer`).

    :ivar messages: the number of messages that were sent, including those of callers who leave later
    :ivar size: the size of the command in bytes
    :ivar sent_at: when it was sent, on AnyIO's clock
    :ivar error: nsqd's refusal, or why the connection ended before the answer; None for OK
    :ivar maybe_executed: after a lost connection: whether nsqd may have executed the command
    """

    __slots__ = (
        "_answered",
        "connection",
        "error",
        "maybe_executed",
        "messages",
        "publication",
        "sent_at",
        "size",
    )

    def __init__(
        self,
        publication: Publication,
        connection: ProducerConnection,
        size: int,
        sent_at: float,
        answered: Callable[[Attempt], None],
    ) -> None:
        self.publication: Publication = publication
        self.connection: ProducerConnection = connection
        self.messages: int = publication.messages
        self.size: int = size
        self.sent_at: float = sent_at
        self.error: NSQError | None = None
        self.maybe_executed: bool = False
        self._answered = answered

    def answer(self, _: bytes) -> None:
        self._answered(self)

    def fail(self, error: NSQError, *, maybe_executed: bool) -> None:
        self.error = error
        self.maybe_executed = maybe_executed
        self._answered(self)


class Verdict(Enum):
    """The meaning of a failed attempt."""

    NOT_EXECUTED = "not executed, for a temporary reason"
    NOT_STORED = "not stored, for a reason of this nsqd alone"
    REJECTED = "not stored, for a reason that every nsqd would have"
    UNKNOWN = "perhaps stored"


def verdict(attempt: Attempt) -> Verdict:
    """Return the meaning of a failed attempt."""
    error = attempt.error
    if not isinstance(error, ServerError):
        return Verdict.UNKNOWN if attempt.maybe_executed else Verdict.NOT_EXECUTED
    if error.code in AUTH_FAILURE_CODES:
        # Once an authorization has expired, nsqd asks its auth server again, and does not reach it.
        return Verdict.NOT_EXECUTED
    if error.code == "E_MPUB_FAILED":
        # nsqd 1.3.0 queues the messages of an MPUB one by one, and stops at the first failure.
        if attempt.messages > 1:
            return Verdict.UNKNOWN
    elif error.code not in _NOT_STORED:
        return Verdict.REJECTED
    # nsqd answers "exiting" while the topic is being deleted or nsqd is stopping, which is temporary. Other
    # details are errors of its disk.
    return Verdict.NOT_EXECUTED if error.detail.endswith("exiting") else Verdict.NOT_STORED


def rejected(error: Exception) -> PublishRejected:
    """Return the caller's error for a refusal by nsqd."""
    assert isinstance(error, ServerError)  # noqa: S101 - only nsqd rejects
    refusal = PublishRejected(error.code, error.detail)
    refusal.__cause__ = error
    return refusal


def answer_lost(error: Exception) -> OutcomeUnknown:
    """Return the caller's error for a connection that was lost before nsqd answered."""
    unknown = OutcomeUnknown(f"the answer was lost: {error}")
    unknown.__cause__ = error
    return unknown


def block_ended() -> NotSent:
    """Return the error of callers whose message was not sent before the block ended."""
    return NotSent("the producer's block ended before this message was sent")


class Deadlines:
    """Watches the deadlines of publications.

    :param pending: publications without an outcome; code that adds one calls `check_earlier` if its deadline
        comes before `next_check`
    :param expire: called with each publication whose deadline has passed, and with the time
    :ivar next_check: the deadline at which the publications are checked next
    """

    def __init__(self, pending: Iterable[Publication], expire: Callable[[Publication, float], None]) -> None:
        self.next_check: float = math.inf
        self._pending = pending
        self._expire = expire
        self._earlier = anyio.Event()

    def check_earlier(self, deadline: float) -> None:
        """Check at ``deadline``, which comes before `next_check`. Rare: nearly all have the same timeout."""
        self.next_check = deadline
        self._earlier.set()

    async def run(self) -> None:
        """Watch, until cancelled."""
        while True:
            self._earlier = anyio.Event()
            now = anyio.current_time()
            for publication in [each for each in self._pending if each.deadline <= now]:
                self._expire(publication, now)
            self.next_check = min((each.deadline for each in self._pending), default=math.inf)
            with anyio.move_on_after(max(self.next_check - now, _RESOLUTION)):
                await self._earlier.wait()


class Successes:
    """Reports successful attempts to the pool's mode, to the event hook, and to a meter.

    :param noting: whether to set `Publication.stored_by`
    :ivar meter: measures the producer; None if there is no meter
    """

    def __init__(self, pool: Pool, emit: Emitter, *, noting: bool) -> None:
        self.meter: ProducerMeter | None = None
        self._noting = noting
        self._pool = pool
        self._emit = emit

    @property
    def are_wanted(self) -> bool:
        """Whether anything needs these reports. Usually nothing does, and a publish costs less."""
        return self.meter is not None or self._pool.tracks_success or self._emit.has_hook or self._noting

    def report(self, attempt: Attempt) -> None:
        """Report that nsqd has stored the messages of an attempt."""
        now = anyio.current_time()
        publication, connection = attempt.publication, attempt.connection
        seconds = now - attempt.sent_at
        self._pool.succeeded(connection, seconds, now)
        publication.stored_by = connection.nsqd
        if self._emit.has_hook:
            self._emit.to_hook(
                PublishedMessages(connection.nsqd, attempt.messages, seconds, topic=publication.topic)
            )
        if self.meter is not None:
            self.meter.stored(publication.topic, attempt.messages, attempt.size, now - publication.started)
