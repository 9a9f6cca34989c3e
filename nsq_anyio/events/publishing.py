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
    """An nsqd failed, so a producer sends it nothing for ``seconds``; then one publish tries it."""

    level: ClassVar[int] = logging.WARNING
    nsqd: str
    seconds: float
    error: Exception

    def __str__(self) -> str:
        return f"{self.nsqd}: left out for {self.seconds:.0f} s: {self.error}"


@dataclass(frozen=True, slots=True)
class PublishedMessages(Event):
    """nsqd confirmed messages after ``seconds``. This one, like the next two, goes to the hook only."""

    nsqd: str
    topic: str
    messages: int
    seconds: float


@dataclass(frozen=True, slots=True)
class PublishResent(Event):
    """Messages are sent again: ``nsqd`` did not store them, or may have, if the options allow that."""

    nsqd: str
    topic: str
    messages: int
    error: Exception


@dataclass(frozen=True, slots=True)
class PublishFailed(Event):
    """A publish failed with ``error``, which is raised to its caller if that still waits."""

    topic: str
    messages: int
    error: Exception
