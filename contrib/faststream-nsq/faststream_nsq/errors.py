"""The errors that this package adds to those of nsq_anyio."""

from __future__ import annotations

from faststream.exceptions import FeatureNotSupportedException

import nsq_anyio as nsq

__all__ = ["RequestsUnsupported"]


class RequestsUnsupported(nsq.NSQError, FeatureNotSupportedException):
    """A reply was asked for with `request`: NSQ has no replies to wait for.

    The subscriber of the request may publish its reply to an nsqd that this program does not know.
    """

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"request() to topic {topic!r}: NSQ has no replies; use publish(..., reply_to='some.topic'), "
            "and a subscriber of that topic"
        )
        self.topic = topic
