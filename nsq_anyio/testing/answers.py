"""What can become of a message."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias


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
