"""`OneShot` on Trio."""

from __future__ import annotations

from trio.lowlevel import (
    Abort,
    RaiseCancelT,
    Task,
    checkpoint,
    current_task,
    reschedule,
    wait_task_rescheduled,
)

__all__ = ["TrioOneShot"]


class TrioOneShot:
    """Parks the tasks that wait."""

    __slots__ = ("_is_set", "_waiters")

    def __init__(self) -> None:
        self._is_set = False
        self._waiters: dict[Task, None] = {}

    def set(self) -> None:
        """As `OneShot.set`."""
        self._is_set = True
        for task in self._waiters:
            reschedule(task)
        self._waiters.clear()

    async def wait(self) -> None:
        """As `OneShot.wait`."""
        if self._is_set:
            await checkpoint()
            return
        task = current_task()
        self._waiters[task] = None

        def leave(_: RaiseCancelT) -> Abort:
            del self._waiters[task]
            return Abort.SUCCEEDED

        await wait_task_rescheduled(leave)
