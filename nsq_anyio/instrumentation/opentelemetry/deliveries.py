"""The deliveries that are not answered yet, with their spans."""

from __future__ import annotations

from typing import Final

from opentelemetry.context import Context

from ...consumer import Message
from ...events import MessageEvent

_Key = tuple[str, str, str, str]

_FEW: Final = 64
"""The number of deliveries above which ended deliveries are dropped."""


class Delivery:
    """One delivery of a message.

    :ivar message: the message
    :ivar received: whether the message was counted when it was received
    :ivar context: the context of its processing span; None before there is one
    """

    __slots__ = ("context", "message", "received")

    def __init__(self, message: Message) -> None:
        self.message: Message = message
        self.received: bool = False
        self.context: Context | None = None


class Deliveries:
    """The deliveries that were received or processed, each until the event of its answer.

    There is no event for a message whose connection is lost. All such deliveries are dropped whenever the
    number of deliveries has doubled.
    """

    def __init__(self) -> None:
        self._known: dict[_Key, Delivery] = {}
        self._most = _FEW

    def __len__(self) -> int:
        return len(self._known)

    def of(self, message: Message) -> Delivery:
        """Return the delivery of a message; add it if it is new."""
        key = (message.nsqd, message.topic, message.channel, message.id)
        found = self._known.get(key)
        if found is None or found.message is not message:
            found = self._known[key] = Delivery(message)
            if len(self._known) > self._most:
                self._drop_ended()
        return found

    def forget(self, about: Message | MessageEvent) -> Delivery | None:
        """Remove and return the delivery of a message or event; None if it is unknown."""
        message_id = about.id if isinstance(about, Message) else about.message_id
        return self._known.pop((about.nsqd, about.topic, about.channel, message_id), None)

    def _drop_ended(self) -> None:
        self._known = {
            key: delivery
            for key, delivery in self._known.items()
            if delivery.message._arrival.delegate.holds(delivery.message)
        }
        self._most = max(_FEW, 2 * len(self._known))
