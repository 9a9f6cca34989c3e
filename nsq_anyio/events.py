"""What happens behind a consumer or producer, as records for a hook and for the log.

Give ``on_event=hook`` to `consume` or `produce`; the hook is called in the event loop with one of the
records below and must not block. Each record is also logged under ``nsq_anyio.consumer`` or
``nsq_anyio.producer``, with ``str(event)`` as its text; no logging handlers are installed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

__all__ = [
    "BackoffEnded",
    "BackoffStarted",
    "ConnectFailed",
    "Connected",
    "ConnectionClosed",
    "Disconnected",
    "Emitter",
    "Event",
    "EventHook",
    "GaveUp",
    "HandlerFailed",
    "LookupDone",
    "LookupFailed",
    "MessageDiscarded",
    "MessageFinished",
    "MessageRequeued",
    "MessageTimedOut",
    "MessageTouched",
    "RdyChanged",
    "ResponseFailed",
    "Subscribed",
]


@dataclass(frozen=True, slots=True)
class Event:
    """The root of all records; `level` is the one it is logged with."""

    level: ClassVar[int] = logging.DEBUG


@dataclass(frozen=True, slots=True)
class Connected(Event):
    """A connection was opened and identified; ``version`` is nsqd's, empty if it told none."""

    level: ClassVar[int] = logging.INFO
    nsqd: str
    version: str

    def __str__(self) -> str:
        return f"{self.nsqd}: connected to nsqd {self.version}"


@dataclass(frozen=True, slots=True)
class Subscribed(Event):
    """nsqd accepted the subscription; messages may come."""

    level: ClassVar[int] = logging.INFO
    nsqd: str
    topic: str
    channel: str

    def __str__(self) -> str:
        return f"{self.nsqd}: subscribed to {self.topic}/{self.channel}"


@dataclass(frozen=True, slots=True)
class ConnectFailed(Event):
    """No connection came about; ``retry_in`` seconds until the next attempt, None when a poll decides."""

    level: ClassVar[int] = logging.WARNING
    nsqd: str
    error: Exception
    retry_in: float | None

    def __str__(self) -> str:
        return f"no connection: {self.error}{_retry(self.retry_in)}"


@dataclass(frozen=True, slots=True)
class Disconnected(Event):
    """An established connection was lost; ``retry_in`` as in `ConnectFailed`."""

    level: ClassVar[int] = logging.WARNING
    nsqd: str
    error: Exception
    retry_in: float | None

    def __str__(self) -> str:
        return f"connection lost: {self.error}{_retry(self.retry_in)}"


@dataclass(frozen=True, slots=True)
class ConnectionClosed(Event):
    """A connection was closed by this side; ``confirmed`` if nsqd had handled all that was sent."""

    level: ClassVar[int] = logging.INFO
    nsqd: str
    confirmed: bool

    def __str__(self) -> str:
        return f"{self.nsqd}: closed" + ("" if self.confirmed else ", without confirmation from nsqd")


@dataclass(frozen=True, slots=True)
class LookupDone(Event):
    """An nsqlookupd named the nsqds (``host:port``) that have the topic; none when it does not know it."""

    nsqlookupd: str
    nsqds: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.nsqlookupd}: {len(self.nsqds)} nsqds: {', '.join(self.nsqds)}"


@dataclass(frozen=True, slots=True)
class LookupFailed(Event):
    """An nsqlookupd gave no usable answer; its last good one stays in force."""

    level: ClassVar[int] = logging.WARNING
    nsqlookupd: str
    error: Exception

    def __str__(self) -> str:
        return f"lookup failed: {self.error}"


@dataclass(frozen=True, slots=True)
class RdyChanged(Event):
    """A connection was given another RDY count."""

    nsqd: str
    rdy: int

    def __str__(self) -> str:
        return f"{self.nsqd}: RDY {self.rdy}"


@dataclass(frozen=True, slots=True)
class BackoffStarted(Event):
    """Handlers fail: nothing is received for ``seconds``, then one message; ``depth`` counts the failures."""

    level: ClassVar[int] = logging.WARNING
    depth: int
    seconds: float

    def __str__(self) -> str:
        return f"backing off for {self.seconds:.1f} s, level {self.depth}"


@dataclass(frozen=True, slots=True)
class BackoffEnded(Event):
    """Handlers succeed again: messages are received at full rate."""

    level: ClassVar[int] = logging.INFO

    def __str__(self) -> str:
        return "backoff is over"


@dataclass(frozen=True, slots=True)
class HandlerFailed(Event):
    """A handler raised; its message is requeued."""

    level: ClassVar[int] = logging.ERROR
    nsqd: str
    message_id: str
    attempts: int
    error: BaseException

    def __str__(self) -> str:
        subject = f"message {self.message_id}, attempt {self.attempts}"
        return f"{self.nsqd}: the handler failed on {subject}: {self.error!r}"


@dataclass(frozen=True, slots=True)
class MessageFinished(Event):
    """A message was finished. This one, like the next two, goes to the hook only and is not logged."""

    nsqd: str
    message_id: str
    attempts: int


@dataclass(frozen=True, slots=True)
class MessageRequeued(Event):
    """A message was requeued; nsqd offers it again after ``delay`` seconds."""

    nsqd: str
    message_id: str
    attempts: int
    delay: float


@dataclass(frozen=True, slots=True)
class MessageTouched(Event):
    """A message's timeout was started anew; ``deadline`` is on AnyIO's clock."""

    nsqd: str
    message_id: str
    deadline: float


@dataclass(frozen=True, slots=True)
class MessageDiscarded(Event):
    """A handler raised `Discard`; its message is finished."""

    level: ClassVar[int] = logging.WARNING
    nsqd: str
    message_id: str
    reason: str

    def __str__(self) -> str:
        return f"{self.nsqd}: message {self.message_id} discarded: {self.reason}"


@dataclass(frozen=True, slots=True)
class GaveUp(Event):
    """A message came more often than ``max_attempts``; it is finished without being handled."""

    level: ClassVar[int] = logging.ERROR
    nsqd: str
    message_id: str
    attempts: int

    def __str__(self) -> str:
        return f"{self.nsqd}: gave up message {self.message_id} at attempt {self.attempts}"


@dataclass(frozen=True, slots=True)
class MessageTimedOut(Event):
    """A message had no answer before its deadline; nsqd has requeued it."""

    level: ClassVar[int] = logging.WARNING
    nsqd: str
    message_id: str
    attempts: int

    def __str__(self) -> str:
        return f"{self.nsqd}: message {self.message_id} timed out at attempt {self.attempts}"


@dataclass(frozen=True, slots=True)
class ResponseFailed(Event):
    """nsqd refused a FIN, REQ or TOUCH: the message was no longer in flight there."""

    level: ClassVar[int] = logging.WARNING
    nsqd: str
    code: str
    message_id: str | None

    def __str__(self) -> str:
        return f"{self.nsqd}: {self.code} for message {self.message_id}: it was no longer in flight"


def _retry(seconds: float | None) -> str:
    return "" if seconds is None else f"; next attempt in {seconds:.1f} s"


EventHook = Callable[[Event], None]
"""A plain function of one event. What it raises is logged, and goes no further."""


class Emitter:
    """Logs events and hands them to the user's hook."""

    def __init__(self, logger: str, hook: EventHook | None) -> None:
        self._logger = logging.getLogger(logger)
        self._hook = hook

    def __call__(self, event: Event) -> None:
        self._logger.log(
            event.level, "%s", event, exc_info=event.error if isinstance(event, HandlerFailed) else None
        )
        self.to_hook(event)

    @property
    def has_hook(self) -> bool:
        """Whether events for single messages are wanted; each costs time."""
        return self._hook is not None

    def to_hook(self, event: Event) -> None:
        """Hand an event to the hook, without logging it."""
        if self._hook is None:
            return
        try:
            self._hook(event)
        except Exception:
            self._logger.exception("the on_event hook raised on %r", event)
