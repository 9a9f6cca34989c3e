"""The tasks behind a user's ``async with`` block.

::

    task group
    ├ the user's block        cancelled with whatever surrounds it, or when the tasks fail for good
    └ shielded scope
      └ the tasks             go on under cancellation until `shutdown` is over

The tasks must outlive a cancelled block for a moment, or messages in flight could not be given back. Only
`shutdown`, which must be bounded, stands between a cancellation and the end of the block.
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
        block_error: BaseException | None = None
        tasks = anyio.CancelScope(shield=True)
        self._block = anyio.CancelScope()
        async with anyio.create_task_group() as group:
            group.start_soon(self._run_in, tasks)
            try:
                with self._block:
                    yield
            except BaseException as error:  # noqa: BLE001 - raised below, outside of the group's wrapping
                block_error = error
            cancelled = self._failure is not None or isinstance(block_error, anyio.get_cancelled_exc_class())
            with anyio.CancelScope(shield=True):
                await self._shutdown(cancelled)
            tasks.cancel()
        if block_error is not None:
            raise block_error
        if self._failure is not None:
            raise self._failure

    async def _run_in(self, scope: anyio.CancelScope) -> None:
        with scope:
            await self._run()


@asynccontextmanager
async def background_tasks() -> AsyncGenerator[TaskGroup]:
    """A task group whose tasks are cancelled when the block ends.

    An exception of the block is raised as it is: a plain task group would wrap it in an exception group,
    although it is none of the tasks'.
    """
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        try:
            yield tasks
        except Exception as error:  # noqa: BLE001 - raised again below
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
