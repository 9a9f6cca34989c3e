"""What a producer's middleware gets: what is being published, and how that ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Literal

import anyio

from ..errors import NotSent, OutcomeUnknown, PublishRejected
from ..tasks import is_stray
from ..unwrapping import leaves

_Outcome = Literal["stored", "rejected", "not_sent", "unknown", "cancelled"]


class Publishing:
    """One `Producer.publish` or `Producer.publish_many`: the argument of a producer's middleware.

    :ivar topic: the topic
    :ivar messages: the number of messages
    :ivar size: the size of their bodies together in bytes, without headers
    :ivar headers: the headers to send; a middleware may change them before it yields
    :ivar outcome: None until the publish has ended. Then "stored"; "rejected" (`PublishRejected`); "not_sent"
        (`NotSent`, or any error raised before anything was sent); "unknown" (`OutcomeUnknown`); or
        "cancelled". An error that a middleware raises or suppresses later does not change it
    :ivar nsqd: the address of the nsqd that stored the messages; None before that, if no nsqd did, and if
        ``coalesce`` sent them together with others
    :ivar error: the exception of the publish, or of a middleware inside this one; None if there is none
    """

    __slots__ = ("error", "headers", "messages", "nsqd", "outcome", "size", "topic")

    def __init__(self, topic: str, messages: int, size: int, headers: Mapping[str, str]) -> None:
        self.topic: str = topic
        self.messages: int = messages
        self.size: int = size
        self.headers: dict[str, str] = dict(headers)
        self.outcome: _Outcome | None = None
        self.nsqd: str | None = None
        self.error: BaseException | None = None

    def __repr__(self) -> str:
        return f"<Publishing {self.messages} messages to {self.topic}, {self.outcome or 'running'}>"

    def ended(self, error: BaseException | None) -> None:
        """Note how the publish, and the middleware inside the one that exits next, have ended."""
        self.error = error
        if self.outcome is None:
            self.outcome = _outcome(error)


def _outcome(error: BaseException | None) -> _Outcome:
    match error:
        case None:
            return "stored"
        case PublishRejected():
            return "rejected"
        case NotSent():
            return "not_sent"
        case OutcomeUnknown():
            return "unknown"
        case _:
            cancelled = anyio.get_cancelled_exc_class()
            if any(isinstance(leaf, cancelled) for leaf in leaves(error)) and not is_stray(error):
                return "cancelled"
            return "not_sent"


ProducerMiddleware = Callable[[Publishing], AbstractAsyncContextManager[object]]
"""A middleware of `produce`: takes a `Publishing`, and returns an async context manager."""
