"""One publish on its way: what is sent, each attempt at it, and the event that its callers wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from anyio.lowlevel import checkpoint

from ..errors import NSQError, OutcomeUnknown, PublishError, PublishRejected
from ..protocol.session import Command
from ..transport.event_loop import on_asyncio
from .pool import ProducerConnection

__all__ = ["Attempt", "OutcomeEvent", "Publication", "outcome_event_class"]


class Publication:
    """A command to publish, until it has an outcome.

    :ivar topic: where to
    :ivar messages: how many it carries
    :ivar size: in bytes
    :ivar started: when it was handed in, on AnyIO's clock
    :ivar deadline: when its callers stop waiting
    :ivar attempt: the attempt that waits for nsqd's answer; None while the publication waits to be sent
    :ivar refused_by: the connections whose nsqd could not store it, and ...
    :ivar refusal: ... what the last of them said
    :ivar unknown: why the outcome of an earlier attempt is unknown, if it is
    :ivar done: whether there is an outcome
    :ivar error: the outcome, once it is `done`; None for success
    :ivar abandoned: whether its callers have gone
    :ivar event: set when it is `done`
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
        "topic",
        "unknown",
    )

    def __init__(
        self,
        command: Command,
        topic: str,
        data: bytes,
        messages: int,
        started: float,
        deadline: float,
        event: OutcomeEvent,
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
        self.event: OutcomeEvent = event
        self._command = command
        self._data = data

    def encode(self) -> tuple[Command, bytes]:
        """Return the command to send now."""
        return self._command, self._data

    def complete(self, error: PublishError | None) -> None:
        """Tell the callers the outcome."""
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
        """Return whether the passed deadline ends it; if not, it has a later deadline now."""
        return True

    def split(self, refusal: PublishRejected, sent_messages: int) -> list[Publication] | None:  # noqa: ARG002
        """Return what to send in its place after nsqd has refused the whole; None to take the refusal.

        :param sent_messages: how many messages nsqd has refused
        """
        return None


class Attempt:
    """One command on one connection, from its sending to nsqd's answer. No task waits for it.

    :ivar messages: how many messages it carries: callers that leave later do not lessen them
    :ivar size: of the command in bytes
    :ivar sent_at: when it was sent, on AnyIO's clock
    :ivar error: why nsqd's answer was no OK; None before the answer, and for OK
    :ivar maybe_executed: after a lost connection: whether nsqd may have executed the command all the same
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
        """As `TakesAnswer.answer`: nsqd said OK."""
        self._answered(self)

    def fail(self, error: NSQError, *, maybe_executed: bool) -> None:
        """As `TakesAnswer.fail`."""
        self.error = error
        self.maybe_executed = maybe_executed
        self._answered(self)


class OutcomeEvent(Protocol):
    """Set once; any number of tasks wait for it, before and after.

    `anyio.Event` and the events below it do more than an outcome needs. Without that, publishing by 100 tasks
    that await each OK is faster by a fifth on asyncio, and by a seventh on Trio.
    """

    def set(self) -> None:
        """Wake all tasks that wait; called again, it does nothing."""
        ...

    async def wait(self) -> None:
        """Return once `set` was called; a checkpoint in any case."""
        ...


def outcome_event_class() -> Callable[[], OutcomeEvent]:
    """Return the class for the running event loop; ask once, not for each event."""
    if on_asyncio():
        return _AsyncioEvent
    import trio  # noqa: PLC0415 - an extra

    return trio.Event


class _AsyncioEvent:
    """`OutcomeEvent` on asyncio, and on loops that take its place, as uvloop: a future for each task."""

    __slots__ = ("_is_set", "_waiters")

    def __init__(self) -> None:
        self._is_set = False
        self._waiters: list[asyncio.Future[None]] = []

    def set(self) -> None:
        self._is_set = True
        for waiter in self._waiters:
            if not waiter.done():  # as it is when its task was cancelled
                waiter.set_result(None)
        self._waiters.clear()

    async def wait(self) -> None:
        if self._is_set:
            await checkpoint()
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter
