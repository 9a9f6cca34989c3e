"""A publish until its outcome: its command, its attempts, and the event that its callers wait for."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import NSQError, OutcomeUnknown, PublishError, PublishRejected
from ..protocol.session import Command
from ..transport.event_loop import LoopEvent
from .pool import ProducerConnection


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
    :ivar stored_by: the address of the nsqd that stored it; set only if the dispatcher has to note it
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
        """Called when the deadline has passed: return True to fail, or set a later one and return False."""
        return True

    def split(self, refusal: PublishRejected, sent_messages: int) -> list[Publication] | None:  # noqa: ARG002
        """Return the publications to send in place of this one, which nsqd has refused; None to fail.

        :param sent_messages: the number of messages that nsqd has refused
        """
        return None


class Attempt:
    """A publication's command on one connection, from sending it to nsqd's answer (a `TakesAnswer`).

    :ivar messages: the number of messages that were sent; those of callers who leave later are included
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
        """See `TakesAnswer.answer`: nsqd said OK."""
        self._answered(self)

    def fail(self, error: NSQError, *, maybe_executed: bool) -> None:
        """See `TakesAnswer.fail`."""
        self.error = error
        self.maybe_executed = maybe_executed
        self._answered(self)
