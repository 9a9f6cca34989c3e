"""Carries requests from threads to the event loop, which performs them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from threading import get_ident

import anyio

from ..transport.event_loop import call_from_threads


class Requests:
    """Requests of the threads of plain handlers to the event loop. Made in the event loop's thread.

    A task performs them, because AnyIO cannot tell in a callback of asyncio which event loop runs.
    """

    def __init__(self) -> None:
        self.call_soon: Callable[[Callable[[], None]], object] = call_from_threads()
        self._thread = get_ident()
        self._waiting: deque[tuple[Callable[[], None], Future[None]]] = deque()
        self._wanted = anyio.Event()

    async def serve(self) -> None:
        """Perform requests as they arrive, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted = anyio.Event()
            self.perform()

    @property
    def in_event_loop(self) -> bool:
        """Whether the caller is in the event loop's thread, like a coroutine run by `anyio.from_thread`."""
        return get_ident() == self._thread

    def put(self, action: Callable[[], None]) -> Future[None]:
        """Request an action, from any thread; the future gets its outcome.

        :raises RuntimeError: if the event loop has ended
        """
        done: Future[None] = Future()
        self._waiting.append((action, done))
        self.call_soon(self._wake)
        return done

    def perform(self) -> None:
        """Perform all pending requests."""
        while self._waiting:
            action, done = self._waiting.popleft()
            try:
                action()
            except BaseException as error:  # noqa: BLE001 - raised in the thread
                done.set_exception(error)
            else:
                done.set_result(None)

    def _wake(self) -> None:
        self._wanted.set()
