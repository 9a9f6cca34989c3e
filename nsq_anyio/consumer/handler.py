"""Handlers: how many run at once, what their end means for the message, and how they are stopped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from ..errors import Discard, Requeue
from ..events import Emitter, HandlerFailed
from .deadlines import DeadlineWatch, Worker
from .inbox import Inbox, Stop
from .message import Message, signal_in

__all__ = ["Handler", "Workers"]

Handler = Callable[[Message], Awaitable[object]]
"""An async function of one message. Returning finishes it; raising requeues it, or as `Requeue` and
`Discard` say."""


class Workers:
    """Tasks that take messages and run the handler on them.

    They are shielded from cancellation, so that a handler that is nearly done can finish: once the
    surrounding scope is cancelled no message is started, and after a bounded time handlers are cancelled.

    :param drain_timeout: seconds for running handlers once the inbox has stopped
    :param cancelled_drain_timeout: the same once the surrounding scope is cancelled
    :param cancel_at_deadline: whether handlers are cancelled when their message times out
    """

    def __init__(
        self,
        inbox: Inbox,
        handler: Handler,
        emit: Emitter,
        *,
        drain_timeout: float,
        cancelled_drain_timeout: float,
        cancel_at_deadline: bool,
    ) -> None:
        self._inbox = inbox
        self._handler = handler
        self._emit = emit
        self._drain_timeout = drain_timeout
        self._cancelled_drain_timeout = cancelled_drain_timeout
        self._cancel_at_deadline = cancel_at_deadline
        self._deadlines = DeadlineWatch()
        self._stop = Stop()
        self._handling = anyio.CancelScope(shield=True)

    async def run(self, concurrency: int) -> None:
        """Handle messages, ``concurrency`` at a time, until the inbox stops."""
        async with anyio.create_task_group() as group:
            # In a task of its own: no shield stops asyncio's `Task.cancel`, which comes to the calling task.
            group.start_soon(self._handle, concurrency)
            await self._watch()

    async def _handle(self, concurrency: int) -> None:
        with self._handling:
            async with anyio.create_task_group() as tasks:
                if self._cancel_at_deadline:
                    tasks.start_soon(self._deadlines.run)
                async with anyio.create_task_group() as workers:
                    for _ in range(concurrency):
                        workers.start_soon(self._work)
                tasks.cancel_scope.cancel()

    async def _watch(self) -> None:
        """Start the clock for running handlers, when messages stop or this task is cancelled."""
        drain_timeout = self._cancelled_drain_timeout
        try:
            await self._inbox.wait_stopped()
            drain_timeout = self._drain_timeout
        finally:
            self._inbox.end(self._stop)
            self._handling.deadline = anyio.current_time() + drain_timeout

    async def _work(self) -> None:
        worker = Worker()
        self._deadlines.add(worker)
        while not self._stop.reached:
            # A scope per message would cost as much as all else that is done for one; this one is renewed
            # only when a deadline has cancelled it.
            with anyio.CancelScope() as worker.scope:
                await self._take_and_handle(worker)

    async def _take_and_handle(self, worker: Worker) -> None:
        scope, deadlines = worker.scope, self._deadlines
        while not scope.cancel_called:
            try:
                message = await self._inbox.take(self._stop)
            except StopAsyncIteration:
                return
            worker.message = message
            if message.delivery.deadline < deadlines.next_look:
                deadlines.look_earlier()
            try:
                await self._handler(message)
            except Exception as error:  # noqa: BLE001 - a failing handler is an event, never a dead worker
                self._failed(message, error)
            except BaseException as error:
                message.answer_for(error)
                raise
            else:
                message.answer_for(None)
            finally:
                worker.message = None

    def _failed(self, message: Message, error: Exception) -> None:
        signal = signal_in(error)
        if not isinstance(signal, Requeue | Discard):
            self._emit(HandlerFailed(message.nsqd, message.id, message.attempts, error))
        message.answer_for(signal)
