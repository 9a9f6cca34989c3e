"""The interfaces of a connection to its owner: who takes its messages, and the answers to its commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import anyio

from ..errors import NSQError, ProtocolError
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
        """Makes an object from one message frame, or from a run of them, as the decoder requires."""
        ...

    def received(self, messages: list[MessageT], now: float, /) -> None:
        """Take the messages of one chunk."""
        ...

    def response_failed(self, failure: ResponseFailed) -> None:
        """Called when nsqd has refused a FIN, REQ or TOUCH."""
        ...

    def may_proceed(self) -> None:
        """Called when waiting work may proceed: answers came, the writer flushed, or the connection ended."""
        ...


class NoMessages:
    """The receiver of a connection that never subscribes."""

    def __init__(self, may_proceed: Callable[[], None] = lambda: None) -> None:
        self.may_proceed: Callable[[], None] = may_proceed

    def arrival(self, now: float, size: int) -> None:
        """Return no source, because there are no messages."""

    def make_message(self, *message: object) -> None:
        """Raise an error: nsqd pushes messages only after SUB."""
        raise ProtocolError(f"nsqd pushed message {message[3]!r} on a connection without a subscription")

    def received(self, messages: list[None], now: float) -> None:
        """Never called, because `make_message` raises."""

    def response_failed(self, failure: ResponseFailed) -> None:
        """Raise an error: no FIN, REQ or TOUCH was sent."""
        raise ProtocolError(f"nsqd answered {failure.error} on a connection without a subscription")


class TakesAnswer(Protocol):
    """Receives the answer to one command.

    Exactly one of the two methods is called, once. Neither may block, raise, or use the connection.
    """

    def answer(self, data: bytes, /) -> None:
        """Called when nsqd has executed the command."""
        ...

    def fail(self, error: NSQError, *, maybe_executed: bool) -> None:
        """Called when no answer will come.

        :param error: nsqd's refusal (a `ServerError`), or a `ConnectionFailed`
        :param maybe_executed: whether nsqd may have executed the command before the connection was lost. It
            has not if the writer had not taken the command, or if nsqd refused an earlier one
        """
        ...


class Request:
    """A command whose answer can be awaited.

    A waiting task may be cancelled. The request keeps its place then, so that later answers are not
    mismatched.

    :ivar data: the answer's data; None before the answer, and after a failure
    :ivar error: nsqd's refusal (a `ServerError`), or a `ConnectionFailed`; None before the answer, and for
        success
    :ivar maybe_executed: whether nsqd may have executed the command before the connection was lost
    """

    __slots__ = ("_done", "data", "error", "maybe_executed")

    def __init__(self) -> None:
        self.data: bytes | None = None
        self.error: NSQError | None = None
        self.maybe_executed: bool = False
        self._done: anyio.Event | None = None

    def answer(self, data: bytes) -> None:
        self.data = data
        self._set_done()

    def fail(self, error: NSQError, *, maybe_executed: bool) -> None:
        self.error = error
        self.maybe_executed = maybe_executed
        self._set_done()

    async def wait(self) -> bytes:
        """Wait for the answer's data.

        :raises ServerError: if nsqd refused the command
        :raises ConnectionFailed: if the connection ended first; `maybe_executed` says whether nsqd may have
            executed the command
        """
        if self._done is None:
            self._done = anyio.Event()
            if self.data is not None or self.error is not None:
                self._done.set()
        await self._done.wait()
        if self.error is not None:
            raise self.error
        assert self.data is not None  # noqa: S101 - one of the two is set before _done
        return self.data

    def _set_done(self) -> None:
        if self._done is not None:
            self._done.set()
