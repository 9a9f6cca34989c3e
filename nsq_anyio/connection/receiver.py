"""The interface to the object that takes the messages of a connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from ..protocol.session import ResponseFailed

SourceT_co = TypeVar("SourceT_co", covariant=True)
MessageT = TypeVar("MessageT")


class Receiver(Protocol[SourceT_co, MessageT]):
    """Takes the messages of a connection. No method may block, or raise an error of user code."""

    def arrival(self, now: float, size: int, /) -> SourceT_co:
        """Return the ``source`` for all messages of the chunk of ``size`` bytes that arrived ``now``."""
        ...

    @property
    def make_message(self) -> Callable[..., MessageT]:
        """Makes the object for one message frame, or what else the connection's decoder makes of frames."""
        ...

    def received(self, messages: list[MessageT], now: float, /) -> None:
        """Take the messages of one chunk."""
        ...

    def response_failed(self, failure: ResponseFailed) -> None:
        """Called when nsqd has refused a FIN, REQ or TOUCH."""
        ...

    def may_proceed(self) -> None:
        """Called after answers arrive, the writer flushes, or the connection ends.

        Waiting work may now proceed.
        """
        ...
