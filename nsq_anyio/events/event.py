"""The base classes of all events."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Event:
    """The base of all events; an event is logged with its ``level``."""

    level: ClassVar[int] = logging.DEBUG

    @property
    def logged_error(self) -> BaseException | None:
        """The exception that is logged with its traceback; None for most events."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionEvent(Event):
    """Something that happened to a connection or in a lookup.

    :ivar topic: the topic of the consumer; None in a producer
    :ivar channel: the channel of the consumer; None in a producer
    """

    topic: str | None = None
    channel: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerEvent(Event):
    """Something that happened in a consumer.

    :ivar topic: its topic
    :ivar channel: its channel
    """

    topic: str
    channel: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageEvent(ConsumerEvent):
    """Something that happened to one message.

    :ivar nsqd: the address of the nsqd that delivered it, as ``host:port`` or a path
    :ivar message_id: its id, 16 hexadecimal digits
    :ivar attempts: how many times nsqd has delivered it, including this time; 1 to 65535
    :ivar seconds: the time since nsqd delivered it
    """

    nsqd: str
    message_id: str
    attempts: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishEvent(Event):
    """Something that happened to messages that are being published.

    :ivar topic: their topic
    """

    topic: str
