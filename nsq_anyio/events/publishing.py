"""Records of a producer."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar

from .record import Event

__all__ = [
    "NsqdLeftOut",
    "PublishFailed",
    "PublishResent",
    "PublishedMessages",
]


@dataclass(frozen=True, slots=True)
class NsqdLeftOut(Event):
    """A producer sends nothing to an nsqd that failed, for ``seconds``; then one publish tries it."""

    level: ClassVar[int] = logging.WARNING
    nsqd: str
    seconds: float
    error: Exception

    def __str__(self) -> str:
        return f"{self.nsqd}: left out for {self.seconds:.0f} s: {self.error}"


@dataclass(frozen=True, slots=True)
class PublishedMessages(Event):
    """nsqd has confirmed messages after ``seconds``. This one, like the next two, goes to the hook only."""

    nsqd: str
    topic: str
    messages: int
    seconds: float


@dataclass(frozen=True, slots=True)
class PublishResent(Event):
    """Messages are sent again: ``nsqd`` did not execute them, or, if the options allow that, may have."""

    nsqd: str
    topic: str
    messages: int
    error: Exception


@dataclass(frozen=True, slots=True)
class PublishFailed(Event):
    """A publish ended with ``error``, which its caller gets, if it still waits."""

    topic: str
    messages: int
    error: Exception
