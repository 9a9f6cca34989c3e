"""Run handlers concurrently, answer their messages, and stop them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from ..connection.stray import is_stray
from ..errors import Discard, InvalidOption, Requeue
from ..events import Emitter, HandlerFailed, HandlerReturnedFalse
from ..unwrapping import only_error, ungrouped
from .deadlines import DeadlineWatch, Worker
from .handler_check import check_handler, not_awaitable
from .inbox import Inbox, Stop
from .message import Message

__all__ = ["Handler", "Workers"]

Handler = Callable[[Message], Awaitable[object]]
"""An async function of one message. The message is finished when it returns and requeued when it raises,
unless it raises `Requeue` or `Discard`, which say what to do."""


_NOTHING_YET = object()


class Workers:
    """Tasks that take messages and run the handler on them.

    The tasks are shielded from cancellation, so that running handlers can finish. Once the surrounding scope
    is cancelled, no further message is handled, and handlers that do not end in time are cancelled.

    :param drain_timeout: seconds for running handlers once the inbox has stopped
    :param cancelled_drain_timeout: seconds for running handlers once the surrounding scope is cancelled
    :param cancel_at_deadline: whether a handler is cancelled when its message times out
    :raises InvalidOption: if the handler is not an async function
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
        check_handler(handler)
        self._inbox = inbox
        self._handler = handler
        self._emit = emit
        self._drain_timeout = drain_timeout
        self._cancelled_drain_timeout = cancelled_drain_timeout
        self._cancel_at_deadline = cancel_at_deadline
        self._deadlines = DeadlineWatch()
        self._stop = Stop()
        self._handling = anyio.CancelScope(shield=True)
        self._watching = anyio.CancelScope()
        self._invalid: InvalidOption | None = None
        self._warned = False

    async def run(self, concurrency: int) -> None:
        """Handle messages, ``concurrency`` at a time, until the inbox stops.

        :raises InvalidOption: if it turns out that the handler is not an async function
        """
        with ungrouped():
            async with anyio.create_task_group() as group:
                # In a task of its own, because no shield stops asyncio's `Task.cancel`, which cancels the
                # calling task.
                group.start_soon(self._handle, concurrency)
                with self._watching:
                    await self._watch()
        if self._invalid is not None:
            raise self._invalid
        if self._watching.cancelled_caught and not self._inbox.stopped:
            raise anyio.get_cancelled_exc_class()("the workers of run() were cancelled")

    async def _handle(self, concurrency: int) -> None:
        try:
            with self._handling:
                async with anyio.create_task_group() as tasks:
                    if self._cancel_at_deadline:
                        tasks.start_soon(self._deadlines.run)
                    async with anyio.create_task_group() as workers:
                        for _ in range(concurrency):
                            workers.start_soon(self._work)
                    tasks.cancel_scope.cancel()
        finally:
            # asyncio's `Task.cancel` may have ended one of the workers, and the group with it. Nobody takes
            # messages then, and `run` must not go on waiting.
            self._watching.cancel()

    async def _watch(self) -> None:
        """Bound the time of running handlers once messages stop, and more tightly once this is cancelled."""
        try:
            await self._inbox.wait_stopped()
            self._end_within(self._drain_timeout)
            await anyio.sleep_forever()  # until the workers have ended
        finally:
            self._end_within(self._cancelled_drain_timeout)

    def _end_within(self, seconds: float) -> None:
        self._inbox.end(self._stop)
        self._handling.deadline = min(self._handling.deadline, anyio.current_time() + seconds)

    async def _work(self) -> None:
        worker = Worker()
        self._deadlines.add(worker)
        while not self._stop.reached:
            # A scope per message would cost as much as all the rest of handling it. This one is replaced only
            # when a deadline has cancelled it.
            with anyio.CancelScope() as worker.scope:
                await self._take_and_handle(worker)

    async def _take_and_handle(self, worker: Worker) -> None:
        scope, deadlines = worker.scope, self._deadlines
        returned: Any = _NOTHING_YET
        while not scope.cancel_called:
            try:
                message = await self._inbox.take(self._stop)
            except StopAsyncIteration:
                return
            worker.message = message
            if message.delivery.deadline < deadlines.next_check:
                deadlines.check_earlier()
            try:
                returned = self._handler(message)
                result = await returned
            except Exception as error:  # noqa: BLE001 - a failing handler is an event, never a dead worker
                self._failed(message, error, returned)
            except BaseException as error:
                if not is_stray(error):
                    message.answer_for(only_error(error))
                    raise
                self._failed(message, error, returned)
            else:
                message.answer_for(None)
                if result is False:
                    self._warn_of_false(message)
            finally:
                worker.message = None

    def _failed(self, message: Message, error: BaseException, returned: object) -> None:
        if isinstance(error, TypeError) and returned is not _NOTHING_YET:
            self._invalid = self._invalid or not_awaitable(self._handler, returned)
            if self._invalid is not None:
                # Every message would fail like this one. Leave it for a program with a valid handler.
                if not message.responded:
                    message.requeue(0, backoff=False)
                self._inbox.end(self._stop)
                self._watching.cancel()
                return
        signal = only_error(error)
        if not isinstance(signal, Requeue | Discard):
            self._emit(HandlerFailed(message.nsqd, message.id, message.attempts, error))
        message.answer_for(signal)

    def _warn_of_false(self, message: Message) -> None:
        if not self._warned:
            self._warned = True
            self._emit(HandlerReturnedFalse(message.nsqd, message.id))
