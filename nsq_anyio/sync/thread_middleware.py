"""Middleware around a handler or block that runs in a thread.

One task in the event loop enters and exits the middleware, while the handler or block runs in its thread.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, copy_context
from typing import Any

import anyio

from ..consumer import Message as AsyncMessage
from ..consumer.wrapping import Wrapping
from ..errors import Closed
from ..tasks import is_stray
from .handover import Over
from .outcome import Outcome

Variables = list[tuple[ContextVar[Any], Any]]
"""Context variables and their values."""


class ThreadMiddleware:
    """The middleware around one message.

    :param start: starts `run` in the event loop, with the caller's context variables
    :param notify: schedules a function in the event loop; does nothing once the consumer has ended
    """

    def __init__(
        self,
        wrapping: Wrapping,
        message: AsyncMessage,
        start: Callable[[ThreadMiddleware], None],
        notify: Callable[[Callable[[], object]], None],
    ) -> None:
        self._call = wrapping.handler(self._wait_for_thread)
        self._message = message
        self._start = start
        self._notify = notify
        self._entered: Outcome[Variables] = Outcome()
        self._left: Outcome[None] = Outcome()
        self._error: BaseException | None = None
        self._is_over = False
        self._over: anyio.Event | None = None
        self._knows_end = False  # whether the middleware has learned how the thread ended
        self._before: dict[ContextVar[Any], Any] = {}

    # In the thread

    def enter(self) -> Variables:
        """Enter the middleware, and return the context variables that it has set.

        :raises Over: if the consumer has ended
        :raises BaseException: the exception of the middleware
        """
        try:
            self._start(self)
        except Closed:
            raise Over from None
        try:
            return self._entered.result()
        except BaseException as error:
            self._end(error)  # an interrupt may have ended this wait
            raise

    def leave(self, error: BaseException | None) -> BaseException | None:
        """Exit the middleware, and return the exception that remains, or None.

        :param error: the exception of the handler or block, or None
        """
        self._end(error)
        try:
            self._left.result()
        except BaseException as raised:
            if self._left.is_there and self._left.error() is raised:
                return raised
            raise  # an interrupt
        return None if self._knows_end else error

    def _end(self, error: BaseException | None) -> None:
        self._error = error
        self._notify(self._note_end)

    # In the event loop

    async def run(self) -> None:
        """Enter the middleware, wait for the thread, and exit the middleware."""
        self._before = dict(copy_context().items())
        try:
            await self._call(self._message)
        except BaseException as error:
            ends = isinstance(error, anyio.get_cancelled_exc_class()) and not is_stray(error)
            self._entered.fail(Over() if ends else error)
            if ends:
                self._knows_end = False
                raise
            self._left.fail(error)
        finally:
            self.refuse()

    def refuse(self) -> None:
        """End the waits of `enter` and `leave`, because the consumer has ended."""
        self._entered.fail(Over())
        self._left.succeed(None)

    def _note_end(self) -> None:
        self._is_over = True
        if self._over is not None:
            self._over.set()

    async def _wait_for_thread(self, message: AsyncMessage) -> None:
        del message
        self._over = anyio.Event()
        before, missing = self._before, object()
        self._entered.succeed(
            [
                (each, value)
                for each, value in copy_context().items()
                if before.get(each, missing) is not value
            ]
        )
        # A middleware that cancels this wait cannot end the thread. It exits without learning the outcome.
        if not self._is_over:
            await self._over.wait()
        self._knows_end = True
        if self._error is not None:
            raise self._error
