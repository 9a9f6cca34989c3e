"""A command that waits for nsqd's answer."""

from __future__ import annotations

from typing import Protocol

import anyio

from ..errors import NSQError


class TakesAnswer(Protocol):
    """Receives the answer to one command.

    Exactly one of the two methods is called, once. Neither may block, raise, or use the connection.
    """

    def answer(self, data: bytes, /) -> None:
        """Called when nsqd has executed the command."""
        ...

    def fail(self, error: NSQError, *, maybe_executed: bool) -> None:
        """Called when no answer will come.

        :param error: the `ServerError` with which nsqd refused the command, or a `ConnectionFailed`
        :param maybe_executed: whether nsqd may have executed the command before the connection was lost
        """
        ...


class Request:
    """A command whose answer can be awaited.

    A waiting task may be cancelled. The request keeps its place then, so that later answers are not
    mismatched.

    :ivar data: the answer's data; None before the answer, and after a failure
    :ivar error: the `ServerError` with which nsqd refused the command, or a `ConnectionFailed`; None before
        the answer, and for success
    :ivar maybe_executed: whether nsqd may have executed the command before the connection was lost
    """

    __slots__ = ("_done", "data", "error", "maybe_executed")

    def __init__(self) -> None:
        self.data: bytes | None = None
        self.error: NSQError | None = None
        self.maybe_executed: bool = False
        self._done: anyio.Event | None = None

    def answer(self, data: bytes) -> None:
        """See `TakesAnswer.answer`."""
        self.data = data
        self._set_done()

    def fail(self, error: NSQError, *, maybe_executed: bool) -> None:
        """See `TakesAnswer.fail`."""
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
