"""The events of a producer."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar

from .event import Event, PublishEvent


@dataclass(frozen=True, slots=True)
class NsqdLeftOut(Event):
    """An nsqd failed. The producer sends it nothing for ``seconds``, then tries it with one publish."""

    level: ClassVar[int] = logging.WARNING
    nsqd: str
    seconds: float
    error: Exception

    def __str__(self) -> str:
        return f"{self.nsqd}: left out for {self.seconds:.0f} s: {self.error}"


@dataclass(frozen=True, slots=True)
class PublishedMessages(PublishEvent):
    """nsqd confirmed messages. Not logged.

    :ivar messages: the number of messages
    :ivar seconds: the time since they were sent
    """

    nsqd: str
    messages: int
    seconds: float


@dataclass(frozen=True, slots=True)
class PublishResent(PublishEvent):
    """Messages are sent again, because an earlier attempt failed. Not logged.

    ``nsqd`` did not store them; with ``resend_unknown`` it may have.
    """

    nsqd: str
    messages: int
    error: Exception


@dataclass(frozen=True, slots=True)
class PublishFailed(PublishEvent):
    """A publish failed with ``error``, which its caller gets if it still waits. Not logged."""

    messages: int
    error: Exception
