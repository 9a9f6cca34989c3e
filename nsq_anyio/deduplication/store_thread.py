"""The thread of a store whose client blocks: it performs all operations that wait as one batch.

One thread has the store's connection, whatever event loops the consumers run on. While it waits for the
store, further operations gather, so that a busy consumer needs fewer round trips and transactions than
operations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from types import TracebackType
from typing import Any, Self

import anyio

from ..errors import Closed
from ..transport.event_loop import LoopEvent, call_from_threads, event_class
from .records import Operation
from .store import Claim, Claimed, StoreFailed

_MOST = 1000
"""The most operations of one batch."""

_SECONDS_TO_END = 1.0
"""How long the end of a block waits for the thread, which may be waiting for its store."""


class _Request:
    """An operation, and the task that waits for its answer."""

    __slots__ = ("answer", "call_soon", "error", "event", "operation")

    def __init__(self, operation: Operation) -> None:
        self.operation: Operation = operation
        self.event: LoopEvent = event_class()()
        self.call_soon: Callable[[Callable[[], None]], object] = call_from_threads()
        self.answer: Claimed
        self.error: StoreFailed | None = None

    def complete(self) -> None:
        with suppress(RuntimeError):  # the event loop has ended
            self.call_soon(self.event.set)


class StoreThread(ABC):
    """A store with a thread, which runs while a consumer has entered the store.

    :param window: the seconds for which a handled message is remembered
    """

    def __init__(self, window: float) -> None:
        self._window = window
        self._lock = Lock()
        self._entered = 0
        self._queue: SimpleQueue[_Request | None] = SimpleQueue()
        self._thread = Thread()

    @abstractmethod
    def _connect(self) -> Any:
        """Return a new connection. Called in the thread, as the methods below."""

    @abstractmethod
    def _perform(self, connection: Any, operations: list[Operation]) -> list[Claimed]:
        """Perform operations in order, and return their answers."""

    @abstractmethod
    def _close(self, connection: Any) -> None:
        """Close a connection, which may be broken."""

    async def claim(self, claim: Claim, seconds: float) -> Claimed:
        """Hold an id; see `Store.claim`.

        :raises StoreFailed: if the store cannot be used
        :raises Closed: if no consumer has entered the store
        """
        return await self._call(Operation("claim", claim, seconds))

    async def done(self, claim: Claim) -> None:
        """Note that a message was handled; see `Store.done`.

        :raises StoreFailed: as `claim` does
        """
        await self._call(Operation("done", claim, self._window))

    async def release(self, claim: Claim, seconds: float) -> None:
        """End a claim; see `Store.release`.

        :raises StoreFailed: as `claim` does
        """
        await self._call(Operation("release", claim, seconds))

    async def __aenter__(self) -> Self:
        with self._lock:
            if not self._entered:
                self._queue = SimpleQueue()
                self._thread = Thread(
                    target=self._run, args=(self._queue,), name=f"nsq-anyio {self!r}", daemon=True
                )
                self._thread.start()
            self._entered += 1
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:
            self._entered -= 1
            if self._entered:
                return
            self._queue.put(None)
            thread = self._thread
        # The thread also ends by itself; waiting for it leaves no connection open behind the block.
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(thread.join, _SECONDS_TO_END)

    async def _call(self, operation: Operation) -> Claimed:
        with self._lock:
            if not self._entered:
                raise Closed(f"{self!r} is not open: use it in `async with store:`, or give it to a consumer")
            request = _Request(operation)
            self._queue.put(request)
        await request.event.wait()
        if request.error is not None:
            raise request.error
        return request.answer

    # In the thread

    def _run(self, queue: SimpleQueue[_Request | None]) -> None:
        connection: Any = None
        ends = False
        while not ends:
            taken = [queue.get()]
            with suppress(Empty):
                while len(taken) < _MOST:
                    taken.append(queue.get_nowait())
            requests = [request for request in taken if request is not None]
            ends = len(requests) < len(taken)
            if requests:
                connection = self._answer(connection, requests)
        if connection is not None:
            self._close(connection)

    def _answer(self, connection: Any, requests: list[_Request]) -> Any:
        """Perform the operations, and return the connection; None if it is broken."""
        operations = [request.operation for request in requests]
        was_open = connection is not None
        try:
            try:
                connection = connection if was_open else self._connect()
                answers = self._perform(connection, operations)
            except Exception:
                # The store may have been restarted. Performing an operation twice does no harm.
                if not was_open:
                    raise
                self._close(connection)
                connection = None
                connection = self._connect()
                answers = self._perform(connection, operations)
        except Exception as error:  # noqa: BLE001 - raised in the event loop
            if connection is not None:
                self._close(connection)
            connection = None
            for request in requests:
                request.error = StoreFailed(repr(self), str(error) or repr(error))
                request.error.__cause__ = error
        else:
            for request, answer in zip(requests, answers, strict=True):
                request.answer = answer
        for request in requests:
            request.complete()
        return connection
