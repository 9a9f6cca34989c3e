"""The workers of `Consumer.run`: tasks that handle messages or batches until they are stopped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from contextvars import Context, copy_context
from time import perf_counter
from typing import Any

import anyio

from ..errors import Discard, InvalidOption, Requeue
from ..events import Emitter, HandlerFailed, HandlerReturnedFalse
from ..exceptions import exits_in_group, only_error, ungrouped
from ..middleware import in_own_context
from ..tasks import is_stray
from .batches import Batch, Batches
from .blocking import BlockingHandler
from .deadlines import DeadlineWatch, Worker
from .handler import is_async_handler, not_awaitable
from .inbox import MessageSource, Stop
from .message import Message, about
from .meter import MOST_DURATIONS, ConsumerMeter
from .wrapping import Wrapping

_NOTHING_YET = object()


class Workers:
    """Tasks that take messages and run the handler on them.

    The tasks are shielded from cancellation, so that running handlers can finish. Once the surrounding scope
    is cancelled, no further message is handled, and handlers that do not end in time are cancelled.

    :param drain_timeout: seconds for running handlers once the inbox has stopped
    :param cancelled_drain_timeout: seconds for running handlers once the surrounding scope is cancelled
    :param cancel_at_deadline: whether an async handler is cancelled when its message times out
    :param wrapping: the middleware around each call of the handler; None if there is none
    :param meter: measures how long each handler runs, without its middleware; None if there is none
    :param keep_alive: whether to touch each message while its handler and middleware run
    :raises InvalidOption: if the handler cannot be called, or is a generator function
    """

    def __init__(
        self,
        inbox: MessageSource,
        handler: Callable[[Any], Awaitable[object] | object],
        emit: Emitter,
        *,
        drain_timeout: float,
        cancelled_drain_timeout: float,
        cancel_at_deadline: bool,
        wrapping: Wrapping | None = None,
        meter: ConsumerMeter | None = None,
        keep_alive: bool = False,
    ) -> None:
        self._blocking = None if is_async_handler(handler) else BlockingHandler(handler, emit)
        self._inbox = inbox
        self._handler: Callable[[Any], Any] = self._blocking or handler
        self._meter = meter
        call = self._call_checked if wrapping is None else wrapping.handler(self._call_checked)
        self._call = _kept_alive(call) if keep_alive else call if wrapping else self._handler
        self._emit = emit
        self._drain_timeout = drain_timeout
        self._cancelled_drain_timeout = cancelled_drain_timeout
        self._watch_deadlines = cancel_at_deadline or self._blocking is not None
        self._deadlines = DeadlineWatch(self._blocking.report if self._blocking else None)
        self._stop = Stop()
        self._handling = anyio.CancelScope(shield=True)
        self._watching = anyio.CancelScope()
        self._invalid: InvalidOption | None = None
        self._warned = False

    async def run(self, concurrency: int) -> None:
        """Handle messages, ``concurrency`` at a time, until the inbox stops.

        :raises InvalidOption: if an async handler returns no awaitable, or a plain one returns one
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
                    if self._watch_deadlines:
                        tasks.start_soon(self._deadlines.run)
                    if self._blocking is not None:
                        tasks.start_soon(self._blocking.serve)
                    async with anyio.create_task_group() as workers:
                        for _ in range(concurrency):
                            workers.start_soon(exits_in_group, self._work)
                    tasks.cancel_scope.cancel()
        finally:
            # asyncio's `Task.cancel` may have ended one of the workers, and the group with it. Then no worker
            # takes messages any more, and `run` must not go on waiting.
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
            # A scope per message would cost as much as the rest of its handling. This scope is replaced only
            # when a deadline has cancelled it, and the context only when a handler has changed it.
            context = copy_context()
            with anyio.CancelScope() as worker.scope:
                await in_own_context(self._take_and_handle(worker, context), context)

    async def _take_and_handle(self, worker: Worker, context: Context) -> None:
        unchanged = context.copy()
        scope, deadlines = worker.scope, self._deadlines
        # If something wraps the handler, `_call_checked` measures the time.
        meter = self._meter if self._call is self._handler else None
        durations = meter.durations if meter is not None else []
        returned: Any = _NOTHING_YET
        while not scope.cancel_called:
            try:
                message = await self._inbox.take(self._stop)
            except StopAsyncIteration:
                return
            worker.message = message
            if message._arrival.deadline < deadlines.next_check:
                deadlines.check_earlier(message._arrival.deadline)
            try:
                if meter is None:
                    returned = self._call(message)
                    result = await returned
                else:  # inline, because another coroutine per call would cost as much as all the rest
                    started = perf_counter()
                    try:
                        returned = self._call(message)
                        result = await returned
                    finally:
                        durations.append(perf_counter() - started)
                        if len(durations) >= MOST_DURATIONS:
                            meter.fold()
            except Exception as error:  # noqa: BLE001 - a failing handler is an event, never a dead worker
                await self._failed(message, error, returned)
            except BaseException as error:
                if not is_stray(error):
                    message._answer_for(only_error(error))
                    raise
                await self._failed(message, error, returned)
            else:
                message._answer_for(None)
                if result is False:
                    self._warn_of_false(message)
            finally:
                worker.message = None
            try:
                if context != unchanged:  # compares variable by variable only if one was set
                    return
            except Exception:  # noqa: BLE001 - from the `__eq__` of a value, so that value has changed
                return

    async def _call_checked(self, subject: Message | Batch) -> object:
        started = perf_counter()
        try:
            returned: Any = self._handler(subject)
            self._invalid = self._invalid or not_awaitable(self._handler, returned)
            return await returned
        finally:
            if self._meter is not None:
                self._meter.handled(perf_counter() - started)

    async def _failed(self, message: Message, error: BaseException, returned: object) -> None:
        if self._has_refused([message], error, returned):
            return
        signal = only_error(error)
        if not isinstance(signal, Requeue | Discard):
            message._arrival.delegate.failed(message)
            self._emit(HandlerFailed(error=error, **about(message)))
        await message._settle(signal)

    def _has_refused(
        self, messages: Sequence[Message], error: BaseException, returned: object = _NOTHING_YET
    ) -> bool:
        """End, and hand the messages back, if the handler has turned out to be invalid."""
        self._invalid = self._invalid or self._invalid_handler(error, returned)
        if self._invalid is None:
            return False
        # All messages would fail like these. They are left for a program with a valid handler.
        for message in messages:
            if not message.responded:
                message.requeue(0, backoff=False)
        self._inbox.end(self._stop)
        self._watching.cancel()
        return True

    def _invalid_handler(self, error: BaseException, returned: object) -> InvalidOption | None:
        if self._blocking is not None:
            return self._blocking.invalid
        if isinstance(error, TypeError) and returned is not _NOTHING_YET:
            return not_awaitable(self._handler, returned)
        return None

    def _warn_of_false(self, message: Message) -> None:
        if not self._warned:
            self._warned = True
            self._emit(HandlerReturnedFalse(**about(message)))


def _kept_alive(handler: Callable[[Message], Awaitable[object]]) -> Callable[[Message], Awaitable[object]]:
    async def handle(message: Message) -> object:
        async with message.keep_alive():
            return await handler(message)

    return handle


class BatchWorkers(Workers):
    """Tasks that take batches and run the handler on them.

    :param batches: the source of the batches; one task at a time takes from it
    :param keep_alive: whether to touch the messages of each batch while its handler and middleware run
    """

    def __init__(self, batches: Batches, *arguments: Any, keep_alive: bool, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._batches = batches
        self._keep_alive = keep_alive
        # One task collects at a time. Several would share the arriving messages, and fill no batch.
        self._taking = anyio.Lock()

    async def _take_and_handle(self, worker: Worker, context: Context) -> None:
        del context  # a new one for each batch
        try:
            async with self._taking:
                batch = await self._batches.take(self._stop)
        except StopAsyncIteration:
            return
        worker.batch = batch
        earliest = min(message._arrival.deadline for message in batch)
        if earliest < self._deadlines.next_check:
            self._deadlines.check_earlier(earliest)
        try:
            async with batch.keep_alive() if self._keep_alive else nullcontext():
                await self._handle_batch(batch)
        finally:
            worker.batch = ()

    async def _handle_batch(self, batch: Batch) -> None:
        result: object = None
        try:
            async with batch:
                try:
                    result = await self._call_checked(batch)
                except Exception as error:
                    if not self._has_refused(batch, error):
                        raise
        except BaseException as error:
            if not (isinstance(error, Exception) or is_stray(error)):
                raise
            self._emit(HandlerFailed(error=error, messages=len(batch), **about(batch[0])))
        if result is False:
            self._warn_of_false(batch[0])
