"""Plain functions as handlers: each is called in a worker thread, which can answer the message.

A thread cannot be cancelled. A thread that runs past the deadline of its message still occupies its worker:
otherwise such threads would pile up without bound. When `run` has to end, the thread is abandoned: its later
answers are dropped, and never reach a closed connection or an event loop that has ended.

A handler in a thread gets a proxy, whose methods ask a task of `run` to act on the real message. The thread
waits for that task, and never for the event loop itself. When `run` abandons the thread, it performs all
pending requests.
"""

from __future__ import annotations

import inspect
import os
import sys
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from functools import partial
from threading import Lock, Thread, current_thread, get_ident
from typing import Any, Self

import anyio
from anyio import to_thread

from ..child_process import end_child
from ..errors import AlreadyResponded, Closed, InvalidOption, Requeue
from ..events import AbandonedThreadEnded, Emitter, ThreadAbandoned
from ..transport.event_loop import call_from_threads
from .batches import Batch
from .handler import name_of, returned_awaitable
from .message import About, Message, about

abandoned_threads: set[Thread] = set()
"""The threads whose handlers were abandoned and have not returned yet."""


class BlockingHandler:
    """An async handler that calls a plain function in threads. It works while `serve` runs.

    :param function: called in a thread with each message or batch
    :ivar invalid: the error for an invalid function, once a call has shown that it is invalid; otherwise None
    """

    def __init__(self, function: Callable[[Any], object], emit: Emitter) -> None:
        self.invalid: InvalidOption | None = None
        self._function = function
        self._emit = emit
        # The workers limit the number of threads. AnyIO's own limiter allows 40 for the whole program.
        self._limiter = anyio.CapacityLimiter(float("inf"))
        self._calls: dict[Message, _Call] = {}
        self._requests = Requests()

    async def serve(self) -> None:
        """Perform what the threads request, until cancelled."""
        await self._requests.serve()

    async def __call__(self, subject: Message | Batch) -> object:
        """Call the function in a thread, and return what it returns or raise what it raises."""
        call = _Call(self._function, subject, self._emit, self._requests)
        self._calls.update(dict.fromkeys(call.messages, call))
        try:
            result, error = await to_thread.run_sync(call.run, limiter=self._limiter, abandon_on_cancel=True)
        except BaseException:
            call.abandon()
            raise
        finally:
            for message in call.messages:
                del self._calls[message]
        call.over()
        if error is not None:
            raise error
        if inspect.isawaitable(result):
            self.invalid = returned_awaitable(self._function, result)
            raise self.invalid
        return result

    def report(self, message: Message) -> None:
        """Report once that ``message`` has timed out while a thread works on it."""
        if (call := self._calls.get(message)) is not None:
            call.report_timed_out()


class _Call:
    """One call of the function in its thread.

    The event loop may abandon the call at any moment, even while the thread requests an answer or ends. A
    lock orders these steps.

    :ivar messages: the message, or the messages of the batch, the first of which stands for all in events
    """

    def __init__(
        self, function: Callable[[Any], object], subject: Message | Batch, emit: Emitter, requests: Requests
    ) -> None:
        self.messages: tuple[Message, ...] = (subject,) if isinstance(subject, Message) else tuple(subject)
        self._is_batch = not isinstance(subject, Message)
        self.clock_offset: float = anyio.current_time() - time.monotonic()
        self._function = function
        self._emit = emit
        self._requests = requests
        self._process = os.getpid()
        self._lock = Lock()
        self._thread: Thread | None = None
        self._started_at: float | None = None
        self._seconds: float | None = None
        self._abandoned = False
        self._expired = False  # timed out before the thread had started
        self._timed_out = False

    # In the thread

    @property
    def is_forked(self) -> bool:
        """Whether the function has forked, and this process is the child."""
        return os.getpid() != self._process

    def run(self) -> tuple[object, BaseException | None]:
        """Call the function; return its result and None, or None and its exception."""
        result: object = None
        error: BaseException | None = None
        with self._lock:
            if self._abandoned or self._expired:
                return None, None
            self._started_at = time.monotonic()
            self._thread = current_thread()
        views = [_ThreadMessage(self, message) for message in self.messages]
        try:
            result = self._function(Batch(views) if self._is_batch else views[0])
        except BaseException as raised:  # noqa: BLE001 - raised in the event loop
            error = raised
        if self.is_forked:
            end_child(error)
        if inspect.iscoroutine(result):
            result.close()  # or Python warns that it was never awaited
        with self._lock:
            self._seconds = time.monotonic() - self._started_at
            abandoned = self._abandoned
            abandoned_threads.discard(current_thread())
        if abandoned:
            self._report_end(self._seconds)
            for view in views:
                if not view.answered_here:
                    self.count_late(view.message)
        return result, error

    def in_event_loop(self, action: Callable[[], None]) -> bool:
        """Have the event loop perform an action, and wait for it.

        :returns: whether it was performed; False if the call is abandoned
        :raises Closed: in a forked child, which has no event loop
        """
        if self.is_forked:
            raise Closed(
                f"message {self.messages[0].id} was taken in process {self._process}, and this is process "
                f"{os.getpid()}, forked from it: answer the message in the process that has taken it"
            )
        if self._requests.in_event_loop:
            if not self._abandoned:
                action()
            return not self._abandoned
        with self._lock:
            if self._abandoned:
                return False
            try:
                done = self._requests.put(action)
            except RuntimeError:  # the event loop has ended, and has not even cancelled its tasks
                return False
        done.result()
        return True

    def count_late(self, message: Message) -> None:
        """Count an answer of an abandoned call, if the event loop still runs."""
        self._soon(partial(self._count_late, message))

    def _report_end(self, seconds: float) -> None:
        event = AbandonedThreadEnded(name_of(self._function), seconds, **self._about())
        self._emit.to_log(event)
        self._soon(partial(self._emit.to_hook, event))

    def _about(self) -> About:
        # Only the event loop can read AnyIO's clock, which runs at the same speed as this one.
        return about(self.messages[0], time.monotonic() + self.clock_offset)

    def _soon(self, action: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the event loop has ended
            self._requests.call_soon(action)

    # In the event loop

    def abandon(self) -> None:
        """Stop waiting for the thread."""
        with self._lock:
            self._abandoned = True
            if self._thread is not None and self._seconds is None:
                abandoned_threads.add(self._thread)
        self._requests.perform()  # the thread's requests so far
        if self._started_at is not None and self._seconds is None:
            self._report_abandoned(self._started_at, timed_out=False)

    def over(self) -> None:
        """Report the end of a call whose message has timed out."""
        if self._timed_out and self._seconds is not None:
            self._emit(AbandonedThreadEnded(name_of(self._function), self._seconds, **self._about()))

    def report_timed_out(self) -> None:
        """Report that the message has timed out while the thread works on it, unless it was reported."""
        with self._lock:
            self._expired = self._started_at is None and not self._is_batch
        if not self._timed_out and self._started_at is not None and self._seconds is None:
            self._timed_out = True
            self._report_abandoned(self._started_at, timed_out=True)

    def _report_abandoned(self, started_at: float, *, timed_out: bool) -> None:
        seconds = time.monotonic() - started_at
        self._emit(ThreadAbandoned(name_of(self._function), seconds, timed_out, **self._about()))

    def _count_late(self, message: Message) -> None:
        delegate = message._arrival.delegate
        if not delegate.holds(message):
            delegate.finish(message)  # which drops and counts it


class _ThreadMessage(Message):
    """The message as the thread sees it. Its methods act on the real message, in the event loop.

    :ivar message: the real message
    :ivar answered_here: whether the function has finished or requeued it
    """

    __slots__ = ("_call", "answered_here", "message")

    def __init__(self, call: _Call, message: Message) -> None:
        super().__init__(
            message._arrival, message.timestamp, message.attempts, message._wire_id, message.body
        )
        self.message: Message = message
        self.answered_here: bool = False
        self._call = call

    @property
    def deadline(self) -> float:
        return self.message.deadline

    @property
    def responded(self) -> bool:
        return self.answered_here or self.message.responded

    def time_left(self) -> float:
        return max(self.deadline - time.monotonic() - self._call.clock_offset, 0.0)

    def finish(self) -> None:
        self._answer(self.message.finish)

    def requeue(self, delay: float | None = None, *, backoff: bool = True) -> None:
        request = Requeue(delay, backoff=backoff)
        self._answer(partial(self.message._requeue_as, request, sys.exception()))

    def touch(self) -> None:
        self._check_unanswered()
        if not self._call.in_event_loop(self.message.touch):
            self._call.count_late(self.message)

    def _answer_for(self, error: BaseException | None) -> None:
        if not self._call.is_forked:
            self._call.in_event_loop(partial(self.message._answer_for, error))

    @asynccontextmanager
    async def keep_alive(self) -> AsyncGenerator[Self]:
        async with self.message.keep_alive():
            yield self

    def _answer(self, answer: Callable[[], None]) -> None:
        self._check_unanswered()
        if not self._call.in_event_loop(answer):
            self._call.count_late(self.message)
        self.answered_here = True

    def _check_unanswered(self) -> None:
        if self.answered_here:
            raise AlreadyResponded(f"message {self.id} is already answered")


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
        """Request an action, from any thread; the future gets its result.

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
