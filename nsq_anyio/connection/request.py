"""A command that waits for nsqd's answer."""

from __future__ import annotations

import anyio

from ..errors import ConnectionFailed, NSQError

__all__ = ["Request"]


class Request:
    """The place of one command in the order of answers.

    Whoever waits may be cancelled: the place stays, so that the answers to later commands never shift.

    :ivar size: bytes that count as outstanding until the answer comes
    :ivar maybe_executed: after a failure: whether nsqd may have executed the command all the same
    """

    __slots__ = ("_data", "_done", "_error", "maybe_executed", "size")

    def __init__(self, size: int) -> None:
        self.size: int = size
        self.maybe_executed: bool = False
        self._data: bytes | None = None
        self._error: NSQError | None = None
        self._done = anyio.Event()

    def answer(self, data: bytes) -> None:
        """nsqd executed the command."""
        self._data = data
        self._done.set()

    def refuse(self, error: NSQError) -> None:
        """nsqd refused the command."""
        self._error = error
        self._done.set()

    def lose(self, error: ConnectionFailed, *, maybe_executed: bool) -> None:
        """The connection ended before the answer."""
        self.maybe_executed = maybe_executed
        self._error = error
        self._done.set()

    async def wait(self) -> bytes:
        """Wait for the answer's data.

        :raises ServerError: if nsqd refused the command
        :raises ConnectionFailed: if the connection ended first; `maybe_executed` says what is known
        """
        await self._done.wait()
        if self._data is None:
            assert self._error is not None  # noqa: S101 - one of the two is set before _done
            raise self._error
        return self._data
