"""A command that waits for nsqd's answer."""

from __future__ import annotations

import anyio

from ..errors import ConnectionFailed, NSQError

__all__ = ["Request"]


class Request:
    """The place of one command in the order of answers.

    Whoever waits may be cancelled: the place stays, so that the answers to later commands never shift.

    :ivar data: the answer's data; None before the answer, and after a failure
    :ivar error: why there is no such answer: a `ServerError` with which nsqd refused the command, or a
        `ConnectionFailed`
    :ivar maybe_executed: after a lost connection: whether nsqd may have executed the command all the same
    """

    __slots__ = ("_done", "data", "error", "maybe_executed")

    def __init__(self) -> None:
        self.data: bytes | None = None
        self.error: NSQError | None = None
        self.maybe_executed: bool = False
        self._done: anyio.Event | None = None

    def answer(self, data: bytes) -> None:
        """nsqd executed the command."""
        self.data = data
        self.done()

    def refuse(self, error: NSQError) -> None:
        """nsqd refused the command."""
        self.error = error
        self.done()

    def lose(self, error: ConnectionFailed, *, maybe_executed: bool) -> None:
        """The connection ended before the answer."""
        self.maybe_executed = maybe_executed
        self.error = error
        self.done()

    async def wait(self) -> bytes:
        """Wait for the answer's data.

        :raises ServerError: if nsqd refused the command
        :raises ConnectionFailed: if the connection ended first; `maybe_executed` says what is known
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

    def done(self) -> None:
        """`data` or `error` is set; in the reader's turn: must not block, raise, or use the connection."""
        if self._done is not None:
            self._done.set()
