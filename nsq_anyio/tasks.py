"""The tasks behind a user's ``async with`` block, and cancellations that are meant for another task.

::

    task group
    ├ the user's block        cancelled with the scopes around it, or when the tasks fail for good
    └ shielded scope
      └ the tasks             run on under cancellation until `shutdown` is over

The tasks must briefly outlive a cancelled block, so that messages in flight can be handed back. A
cancellation delays the end of the block only by `shutdown`, which must be bounded. No shield stops asyncio's
`Task.cancel` or an exception of a signal handler: these cut `shutdown` short.

On asyncio the task that has entered the block may end before the block does: pytest-asyncio runs each half of
a fixture in a task of its own. Then any task of the event loop may leave the block, because its scopes cannot
disturb anything any more. When the tasks fail for good, there is no task in the block to cancel. So
`shutdown` runs at once, and ends the waits of the block's users.

asyncio also raises `CancelledError` in a task that awaits a cancelled one, as if it had been cancelled
itself. Such a stray cancellation is a failure like any other, and must not end tasks and blocks that nobody
cancelled. Trio does not have this case.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
from anyio.abc import TaskGroup

from .exceptions import single, ungrouped
from .transport.event_loop import HomeLoop, on_asyncio

_LEFT_ELSEWHERE = (
    "this block was entered by one task, which still runs, and left by another: around an async generator "
    "that uses it, write `async with contextlib.aclosing(...)`; for a fixture or a pair of hooks, let one "
    "task do both"
)


class Background:
    """The tasks behind one block.

    :param run: the tasks; cancelled after ``shutdown``
    :param shutdown: called once the block is over; its argument is True if the block was cancelled or
        interrupted. It must end in bounded time. None if there is nothing to do
    :ivar failure: the first error given to `fail`, or None
    :ivar home: the event loop of the block, once it is entered
    """

    home: HomeLoop

    def __init__(
        self,
        run: Callable[[], Awaitable[None]],
        shutdown: Callable[[bool], Awaitable[None]] | None = None,
    ) -> None:
        self._run = run
        self._shutdown = shutdown
        # Set in the event loop; `produce` may be called outside.
        self._entered_by: asyncio.Task[object] | None = None
        self._block: anyio.CancelScope | None = None  # until it is over
        self._early: asyncio.Task[None] | None = None  # calls `shutdown` before the block is over
        self.failure: BaseException | None = None

    def fail(self, error: BaseException) -> None:
        """End the block with ``error``: the tasks cannot do their work."""
        if self.failure is None:
            self.failure = error
            if self._block is None:
                return
            if self._is_orphaned:
                self._early = asyncio.create_task(self._shut_down(True))
            else:
                self._block.cancel()

    @asynccontextmanager
    async def around_block(self) -> AsyncGenerator[None]:
        """Run the tasks around a block. Its exceptions are raised unchanged, not in an exception group.

        :raises BaseException: the error given to `fail`, unless the block itself raised one
        :raises RuntimeError: if the block is left by another task while the task that entered it still runs,
            or in another event loop
        """
        self.home = HomeLoop()
        self._entered_by = asyncio.current_task() if on_asyncio() else None
        entered_by = anyio.get_current_task().id
        tasks = anyio.CancelScope(shield=True)
        self._block = anyio.CancelScope()
        over = anyio.Event()
        error: BaseException | None = None
        try:
            async with AsyncExitStack() as scopes:
                group = await scopes.enter_async_context(anyio.create_task_group())
                # Whatever is raised here, the group waits for the tasks, and its own cancellation does not
                # reach them. They are cancelled in two places, since an interrupt may break off the first.
                try:
                    group.start_soon(self._run_in, tasks, over)
                    scopes.enter_context(self._block)
                    cancelled = False
                    try:
                        yield
                    except BaseException as raised:
                        # Trio raises KeyboardInterrupt in the block where asyncio cancels it.
                        ends = (anyio.get_cancelled_exc_class(), KeyboardInterrupt, SystemExit)
                        cancelled = isinstance(raised, ends)
                        raise
                    finally:
                        is_left_elsewhere = anyio.get_current_task().id != entered_by
                        if is_left_elsewhere:
                            scopes.pop_all()  # only the task that entered them can leave them
                            self.home.check()
                        self._block = None
                        with anyio.CancelScope(shield=True):
                            await (self._early or self._shut_down(cancelled or self.failure is not None))
                            if is_left_elsewhere:
                                tasks.cancel()
                                await over.wait()
                                if not self._is_orphaned:
                                    raise RuntimeError(_LEFT_ELSEWHERE)
                    tasks.cancel()
                except BaseException:
                    if self.home.runs:
                        tasks.cancel()
                    raise
        except BaseExceptionGroup as raised:
            error = single(raised)
        if error is not None:
            raise error
        if self.failure is not None:
            raise self.failure

    @property
    def _is_orphaned(self) -> bool:
        """Whether the task that has entered the block has ended before it."""
        return self._entered_by is not None and self._entered_by.done()

    async def _shut_down(self, cancelled: bool) -> None:
        if self._shutdown is not None:
            with ungrouped():
                await self._shutdown(cancelled)

    async def _run_in(self, scope: anyio.CancelScope, over: anyio.Event) -> None:
        try:
            with scope, ungrouped():
                await self._run()
        except Exception as error:
            if self._is_orphaned:  # no task will leave the task group, which would raise the error
                self.fail(error)
            raise
        finally:
            over.set()


@asynccontextmanager
async def user_block_tasks() -> AsyncGenerator[TaskGroup]:
    """Run a task group behind a user's block, which another task may leave."""
    begun = anyio.Event()
    group = anyio.create_task_group()

    async def run() -> None:
        async with group:
            begun.set()
            await anyio.sleep_forever()

    async with Background(run).around_block():
        await begun.wait()
        yield group


@asynccontextmanager
async def background_tasks() -> AsyncGenerator[TaskGroup]:
    """Run a task group around a block of this package, and cancel its tasks when the block ends.

    Cancelling the group also cancels the block. Exceptions of the block are raised unchanged, not in an
    exception group.
    """
    error: BaseException | None = None
    try:
        async with anyio.create_task_group() as tasks:
            yield tasks
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as raised:
        error = single(raised)
    if error is not None:
        raise error


def is_stray(error: BaseException | None) -> bool:
    """Return whether ``error``, just caught, is a `CancelledError` although nobody cancelled this task."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    # The text of AnyIO's own cancellations proves nothing: tasks that await a cancelled one get it as well.
    if anyio.current_effective_deadline() == -math.inf:
        return False
    task = asyncio.current_task() if on_asyncio() else None
    return task is None or not task.cancelling()


def is_cancelled(error: BaseException) -> bool:
    """Return whether ``error``, a cancellation caught earlier, cancels this task and is still in force.

    If not, it belonged to a cancelled scope inside the caller, which has ended.
    """
    if isinstance(error, asyncio.CancelledError):
        return not is_stray(error)
    return anyio.current_effective_deadline() == -math.inf
