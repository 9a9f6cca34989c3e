"""The tasks behind a user's ``async with`` block.

::

    task group
    ├ the user's block        cancelled with whatever surrounds it, or when the tasks fail for good
    └ shielded scope
      └ the tasks             go on under cancellation until `shutdown` is over

The tasks must outlive a cancelled block for a moment, or messages in flight could not be given back. Only
`shutdown`, which must be bounded, stands between a cancellation and the end of the block. What no shield
stops, asyncio's `Task.cancel` and an exception of a signal handler, cuts `shutdown` short.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup

__all__ = ["Background", "background_tasks"]


class Background:
    """Runs tasks behind a block; see the module.

    :param run: the tasks; cancelled after ``shutdown``
    :param shutdown: called with whether the block was cancelled, once the block is over; must be bounded
    """

    def __init__(
        self, run: Callable[[], Awaitable[None]], shutdown: Callable[[bool], Awaitable[None]]
    ) -> None:
        self._run = run
        self._shutdown = shutdown
        self._block: anyio.CancelScope | None = None
        self._failure: Exception | None = None

    def fail(self, error: Exception) -> None:
        """End the block with ``error``: the tasks cannot do their work."""
        if self._failure is None:
            self._failure = error
            if self._block is not None:
                self._block.cancel()

    @asynccontextmanager
    async def around_block(self) -> AsyncGenerator[None]:
        """Run the tasks around a block. What the block raises leaves as it is, in no exception group.

        :raises Exception: what `fail` was given, unless the block raised something itself
        """
        tasks = anyio.CancelScope(shield=True)
        self._block = anyio.CancelScope()
        async with _task_group() as group:
            # Whatever is raised here, the group waits for the tasks, and its own cancellation does not reach
            # them. Both ends cancel them, as an interrupt may come amid the first attempt.
            try:
                group.start_soon(self._run_in, tasks)
                cancelled = False
                try:
                    with self._block:
                        yield
                except BaseException as error:
                    cancelled = isinstance(error, anyio.get_cancelled_exc_class())
                    raise
                finally:
                    with anyio.CancelScope(shield=True):
                        await self._shutdown(cancelled or self._failure is not None)
                tasks.cancel()
            except BaseException:
                tasks.cancel()
                raise
        if self._failure is not None:
            raise self._failure

    async def _run_in(self, scope: anyio.CancelScope) -> None:
        with scope:
            await self._run()


@asynccontextmanager
async def background_tasks() -> AsyncGenerator[TaskGroup]:
    """A task group whose tasks are cancelled when the block ends.

    What the block raises leaves as it is, in no exception group.
    """
    async with _task_group() as tasks:
        yield tasks
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def _task_group() -> AsyncGenerator[TaskGroup]:
    """A task group that raises a single exception as it is.

    A plain one wraps it in an exception group. Then an error of the user's block would not be caught where it
    is expected, and `SystemExit` and `KeyboardInterrupt` would not end the program as they should.
    """
    single: BaseException
    try:
        async with anyio.create_task_group() as tasks:
            yield tasks
    except BaseExceptionGroup as group:
        if len(group.exceptions) != 1:
            raise
        single = group.exceptions[0]
    else:
        return
    raise single  # here, so that the group is not its context
