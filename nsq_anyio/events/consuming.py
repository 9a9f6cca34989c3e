"""Records of a consumer."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar

from .record import Event

__all__ = [
    "BackoffEnded",
    "BackoffStarted",
    "GaveUp",
    "HandlerFailed",
    "HandlerReturnedFalse",
    "LoopBlocked",
    "MessageDiscarded",
    "MessageFinished",
    "MessageRequeued",
    "MessageTimedOut",
    "MessageTouched",
    "RdyChanged",
    "ResponseFailed",
]


@dataclass(frozen=True, slots=True)
class RdyChanged(Event):
    """The RDY count of a connection was changed."""

    nsqd: str
    rdy: int

    def __str__(self) -> str:
        return f"{self.nsqd}: RDY {self.rdy}"


@dataclass(frozen=True, slots=True)
class BackoffStarted(Event):
    """Handlers fail: no messages are received for ``seconds``, then a single one."""

    level: ClassVar[int] = logging.WARNING
    backoff_level: int
    seconds: float

    def __str__(self) -> str:
        return f"backing off for {self.seconds:.1f} s, level {self.backoff_level}"


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
class HandlerReturnedFalse(Event):
    """A handler returned False, which finishes its message like any other value; told once for each `run`."""

    level: ClassVar[int] = logging.WARNING
    nsqd: str
    message_id: str

    def __str__(self) -> str:
        return (
            f"{self.nsqd}: the handler returned False for message {self.message_id}, which is finished all "
            "the same: raise nsq.Requeue() to have a message requeued (later ones are not reported)"
        )


@dataclass(frozen=True, slots=True)
class LoopBlocked(Event):
    """Code that does not await blocked the event loop for ``seconds``; ``msg_timeout`` is nsqd's."""

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
class MessageFinished(Event):
    """A message was finished. This one, like the next two, goes to the hook only and is not logged."""

    nsqd: str
    message_id: str
    attempts: int


@dataclass(frozen=True, slots=True)
class MessageRequeued(Event):
    """A message was requeued; nsqd delivers it again after ``delay`` seconds."""

    nsqd: str
    message_id: str
    attempts: int
    delay: float


@dataclass(frozen=True, slots=True)
class MessageTouched(Event):
    """A message's timeout was restarted; ``deadline`` is on AnyIO's clock."""

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
    """A message exceeded ``max_attempts``; it is finished without being handled."""

    level: ClassVar[int] = logging.ERROR
    nsqd: str
    message_id: str
    attempts: int

    def __str__(self) -> str:
        return f"{self.nsqd}: gave up message {self.message_id} at attempt {self.attempts}"


@dataclass(frozen=True, slots=True)
class MessageTimedOut(Event):
    """A message was not answered before its deadline; nsqd has requeued it."""

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
