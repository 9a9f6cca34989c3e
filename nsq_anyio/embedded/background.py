"""Tasks that live as long as an ``async with`` block whose own errors stay as they are."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup

__all__ = ["background_tasks"]


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
