"""An event loop in a thread of its own, which keeps an ``async with`` block open for plain functions.

The thread ends with the block, in bounded time, however the block ends:

- A block that is still open when the interpreter exits is left then, after other threads have ended and
  before anything is torn down.
- A forked child does not have the thread. The block ends at once in the child, and continues in the parent.
- The garbage collector may close an abandoned generator in this very thread. A thread cannot wait for its own
  end, so it only tells the block to end.

Calls reach the event loop through `Calls` and the loop's own wake-up. They take no lock, so a signal handler
may make a call in the middle of another.
"""

from __future__ import annotations

import atexit
import os
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError
from contextlib import AbstractAsyncContextManager, suppress
from contextvars import Context, ContextVar, copy_context
from functools import partial
from inspect import CORO_CREATED, getcoroutinestate
from threading import Thread, current_thread
from typing import Any, Generic, Literal, TypeVar

import anyio
from anyio import run as run_event_loop
from anyio.abc import TaskGroup

from ..errors import Closed
from ..exceptions import only_error
from ..transport.event_loop import call_from_threads
from .outcome import Outcome

__all__ = ["Backend", "LoopThread"]


Backend = Literal["asyncio", "trio"]

BlockT = TypeVar("BlockT")
ResultT = TypeVar("ResultT")

_REMEDY = (
    "threads and connections do not survive a fork, so create one in each process, after the fork: in "
    "gunicorn's post_fork, uWSGI's @postfork or with lazy-apps, in the initializer of a multiprocessing "
    "pool, or in Celery's worker_process_init"
)


class LoopThread(Generic[BlockT]):
    """Holds a block open, from `start` to `leave`.

    :param block: the block to hold open; it must end in bounded time
    :param patience: seconds for calls that are still running when the block is left; then it is cancelled
    :param backend: AnyIO's backend
    :param noun: ``consumer`` or ``producer``, for the name of the thread and for errors
    :param ended: called in the thread when the event loop has ended or crashed
    :ivar failure: the exception that the block raised, or None
    :ivar process: the id of the process that has the thread
    """

    def __init__(
        self,
        block: AbstractAsyncContextManager[BlockT],
        *,
        patience: float,
        backend: Backend,
        noun: str,
        ended: Callable[[], object],
    ) -> None:
        self.failure: BaseException | None = None
        self.process: int = os.getpid()
        self._noun = noun
        self._block = block
        self._patience = patience
        self._backend: Backend = backend
        self._tell_end = ended
        self._entered: Outcome[BlockT] = Outcome()
        self._ended: Outcome[None] = Outcome()
        # A daemon, because the interpreter waits for all other threads before it calls `_leave_at_exit`. In a
        # new context, because the caller's context may belong to another event loop.
        self._thread = Thread(target=Context().run, args=(self._run,), name=f"nsq-anyio {noun}", daemon=True)
        self._calls = Calls()
        # Calls in the event loop
        self._running: dict[Outcome[Any], tuple[anyio.CancelScope, Coroutine[Any, Any, None]]] = {}
        # Set in the event loop, before `_entered`.
        self._wake: Callable[[Callable[[], None]], object]
        self._variables: list[tuple[ContextVar[Any], Any]]  # by which AnyIO recognises the event loop
        self._tasks: TaskGroup
        self._leaving: anyio.Event
        self._idle: anyio.Event
        self._scope: anyio.CancelScope

    @property
    def is_forked(self) -> bool:
        """Whether this process is a forked child of the process that has the thread."""
        return os.getpid() != self.process

    def check_process(self) -> None:
        """Check that this process has the thread.

        :raises Closed: if it is a forked child of that process
        """
        if self.is_forked:
            raise Closed(
                f"this {self._noun} was opened in process {self.process}, and this is process {os.getpid()}, "
                f"forked from it: {_REMEDY}"
            )

    @property
    def is_current(self) -> bool:
        """Whether the caller is in the thread."""
        return current_thread() is self._thread

    @property
    def has_ended(self) -> bool:
        """Whether the block and its event loop have ended."""
        return self._ended.is_there

    def start(self) -> BlockT:
        """Enter the block, and return the object that it yields."""
        self._thread.start()
        try:
            entered = self._entered.result()
        except BaseException:  # interrupted
            if self._entered.error() is None:
                self.leave(cancelled=True)
            raise
        atexit.register(self._leave_at_exit)
        if self._ended.is_there:
            atexit.unregister(self._leave_at_exit)
        return entered

    def call_soon(
        self,
        function: Callable[[], Awaitable[ResultT]],
        then: Callable[[Outcome[ResultT]], object] | None = None,
    ) -> Outcome[ResultT]:
        """Start a coroutine function in the event loop, where it sees the caller's context variables.

        :param then: called in the event loop with the outcome
        :raises Closed: if the block is over
        """
        outcome = Outcome(then)
        self._call(self.in_context_of_caller(partial(self._start, outcome, function)), outcome)
        return outcome

    def cancel(self, outcome: Outcome[Any]) -> None:
        """Cancel the call that `call_soon` has started, and do not wait for its end."""
        with suppress(Closed):
            self.notify(partial(self._cancel, outcome))

    def in_context_of_caller(self, function: Callable[[], object]) -> Callable[[], object]:
        """Return a function that calls ``function`` with the caller's context variables in the event loop."""
        context = copy_context()
        return lambda: context.run(self._with_own_variables, function)

    def read(self, function: Callable[[], ResultT]) -> ResultT:
        """Call a plain function in the event loop, and return its result. Raises as `notify` does."""
        if self.is_current:
            self._calls.check_open()
            return function()
        outcome: Outcome[ResultT] = Outcome()
        self._call(lambda: outcome.settle(function), outcome)
        return outcome.result()

    def notify(self, function: Callable[[], object]) -> None:
        """Schedule a plain function in the event loop, and do not wait for it. It must not raise.

        :raises Closed: if the block is over
        """
        self._call(function)

    def wait_for_end(self) -> None:
        """Wait until the block has ended. It must be about to end, or have failed."""
        self._ended.result()  # Python 3.11's `join` believes that an interrupted thread has ended
        self._thread.join()

    def leave(self, *, cancelled: bool) -> None:
        """End the block, and wait for its end.

        The first interrupt of the wait cancels the block, the second one ends the wait.

        :param cancelled: whether to cancel the block, rather than let it end normally
        """
        if self.is_forked:
            return
        if self.is_current:
            self._scope.cancel()
            return
        try:
            self._end_by(self._scope.cancel if cancelled else self._leaving.set)
        except BaseException:
            self._end_by(self._scope.cancel)
            raise

    def leave_soon(self) -> None:
        """Tell the block to end, and do not wait for its end."""
        with suppress(Closed):
            self.notify(self._leaving.set)

    def _call(self, function: Callable[[], object], outcome: Outcome[Any] | None = None) -> None:
        if self.is_current:
            self._calls.check_open()
            function()
            return
        self._calls.add(function, outcome)
        with suppress(RuntimeError):  # the loop has ended since then, and has made its last calls
            self._wake(self._make_calls_while_open)

    def _end_by(self, function: Callable[[], None]) -> None:
        with suppress(Closed):
            self.notify(function)
        self.wait_for_end()

    def _leave_at_exit(self) -> None:
        self.leave(cancelled=False)

    # In the thread

    def _run(self) -> None:
        try:
            run_event_loop(self._hold_open, backend=self._backend)
        except BaseException as error:  # noqa: BLE001 - reported to the users of the thread
            self._fail(error)
        finally:
            self._calls.over = True
            self._calls.give_up()
            # Left behind by an event loop that has crashed.
            for outcome, (_, call) in list(self._running.items()):
                outcome.fail(Closed("the block has ended"))
                if getcoroutinestate(call) == CORO_CREATED:
                    call.close()  # or Python warns that it was never awaited
            self._tell_end()
            self._ended.succeed(None)
            atexit.unregister(self._leave_at_exit)

    async def _hold_open(self) -> None:
        self._wake = call_from_threads()
        self._variables = list(copy_context().items())
        self._leaving, self._idle = anyio.Event(), anyio.Event()
        async with anyio.create_task_group() as self._tasks:
            try:
                with anyio.CancelScope() as self._scope:
                    await self._hold_block_open()
            finally:
                self._calls.over = True
                self._calls.make()

    async def _hold_block_open(self) -> None:
        try:
            async with self._block as entered:
                self._entered.succeed(entered)
                await self._leaving.wait()
                with anyio.move_on_after(self._patience):
                    while self._running:
                        self._idle = anyio.Event()
                        await self._idle.wait()
                if self._running:
                    self._scope.cancel()
                    await anyio.lowlevel.checkpoint()
        except Exception as error:  # noqa: BLE001 - reported to the users, in no exception group
            self._fail(error)

    def _make_calls_while_open(self) -> None:
        try:
            if not self._calls.over:  # after that, nothing can be started any more
                self._calls.make()
        except BaseException as error:  # noqa: BLE001 - SystemExit here would end Trio's loop without the block
            self._fail(error)
            self._scope.cancel()

    def _with_own_variables(self, function: Callable[[], object]) -> None:
        for variable, value in self._variables:
            variable.set(value)
        function()

    def _start(self, outcome: Outcome[ResultT], function: Callable[[], Awaitable[ResultT]]) -> None:
        scope = anyio.CancelScope()
        call = self._settle(outcome, scope, function)
        self._running[outcome] = scope, call
        self._tasks.start_soon(lambda: call, name=f"nsq-anyio {self._noun} call")

    async def _settle(
        self, outcome: Outcome[ResultT], scope: anyio.CancelScope, function: Callable[[], Awaitable[ResultT]]
    ) -> None:
        try:
            with scope:
                outcome.succeed(await function())
            outcome.fail(CancelledError())  # unless it has succeeded
        except BaseException as error:
            if not isinstance(error, Exception):
                outcome.fail(Closed("the event loop has ended"))
                raise
            outcome.fail(error)
        finally:
            del self._running[outcome]
            if not self._running:
                self._idle.set()

    def _cancel(self, outcome: Outcome[Any]) -> None:
        if outcome in self._running:
            scope, _ = self._running[outcome]
            scope.cancel()

    def _fail(self, error: BaseException) -> None:
        self.failure = self.failure or only_error(error)
        self._calls.over = True
        self._entered.fail(self.failure)


class Calls:
    """A lock-free queue of calls for the event loop. Any thread and any signal handler may add to it.

    :ivar over: whether no more calls are accepted; the event loop makes its last calls after it has set this
    """

    def __init__(self) -> None:
        self.over: bool = False
        self._calls: deque[tuple[Callable[[], object], Outcome[Any] | None]] = deque()

    def check_open(self) -> None:
        """Check that calls are accepted.

        :raises Closed: if they are not
        """
        if self.over:
            raise Closed("the block has ended")

    def add(self, function: Callable[[], object], outcome: Outcome[Any] | None) -> None:
        """Add a call, and the outcome that a thread may wait for.

        :raises Closed: if no more calls are accepted
        """
        call = (function, outcome)
        self._calls.append(call)
        if self.over:
            with suppress(ValueError):  # the call was among the last ones
                self._calls.remove(call)
                self.check_open()

    def make(self) -> None:
        """Make the calls."""
        while self._calls:
            function, _ = self._calls.popleft()
            function()

    def give_up(self) -> None:
        """Drop the calls that a crashed event loop has left behind: their outcome is `Closed`."""
        while self._calls:
            _, outcome = self._calls.popleft()
            if outcome is not None:
                outcome.fail(Closed("the block has ended"))
