"""The fields that all events of single messages share."""

from __future__ import annotations

from typing import TypedDict

import anyio

from .message import Message


class About(TypedDict):
    """The fields of `nsq_anyio.events.MessageEvent`."""

    nsqd: str
    topic: str
    channel: str
    message_id: str
    attempts: int
    seconds: float


def about(message: Message, now: float | None = None) -> About:
    """Return the fields of an event about ``message``.

    :param now: the time on AnyIO's clock, which can be read only in the event loop; None to read it
    """
    delivery = message.delivery
    delegate = delivery.delegate
    return {
        "nsqd": delegate.nsqd,
        "topic": delegate.topic,
        "channel": delegate.channel,
        "message_id": message.id,
        "attempts": message.attempts,
        "seconds": (anyio.current_time() if now is None else now) - delivery.arrived,
    }
