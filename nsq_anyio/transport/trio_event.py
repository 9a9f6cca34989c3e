"""An event of Trio that mostly one task waits for."""

from __future__ import annotations

from functools import partial

import trio

__all__ = ["TrioEvent"]


class TrioEvent:
    """`LoopEvent` on Trio: a slot for the first task that waits, and a set for others."""

    __slots__ = ("_first", "_others", "is_set")

    def __init__(self) -> None:
        self.is_set: bool = False
        self._first: trio.lowlevel.Task | None = None
        self._others: set[trio.lowlevel.Task] | None = None

    def set(self) -> None:
        """See `LoopEvent.set`."""
        self.is_set = True
        if self._first is not None:
            trio.lowlevel.reschedule(self._first)
            self._first = None
        if self._others is not None:
            for task in self._others:
                trio.lowlevel.reschedule(task)
            self._others = None

    async def wait(self) -> None:
        """See `LoopEvent.wait`."""
        if self.is_set:
            await trio.lowlevel.checkpoint()
            return
        task = trio.lowlevel.current_task()
        if self._first is None:
            self._first = task
        elif self._others is None:
            self._others = {task}
        else:
            self._others.add(task)
        await trio.lowlevel.wait_task_rescheduled(partial(self._leave, task))

    def _leave(self, task: trio.lowlevel.Task, _: object) -> trio.lowlevel.Abort:
        if task is self._first:
            self._first = None
        elif self._others is not None:
            self._others.remove(task)
        return trio.lowlevel.Abort.SUCCEEDED
