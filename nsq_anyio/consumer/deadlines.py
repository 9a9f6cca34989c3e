"""Deadlines of handlers: a watch that cancels the handler of a message that has timed out.

nsqd gives such a message to another consumer. A thread cannot be cancelled; a handler that runs in one is
reported instead. One task watches all workers of a `run`; there is no timer per message. It sleeps until the
earliest deadline that it knows of. A worker that takes a message with an earlier deadline wakes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import anyio

from .message import Message


class Worker:
    """The state of one worker: the message or batch it handles, and a cancel scope that serves many."""

    __slots__ = ("batch", "message", "scope")

    def __init__(self) -> None:
        self.message: Message | None = None
        self.batch: Sequence[Message] = ()
        self.scope: anyio.CancelScope = anyio.CancelScope()

    def unanswered(self) -> list[Message]:
        """Return the messages that it handles and has not answered."""
        held = self.batch if self.message is None else (self.message,)
        return [message for message in held if not message.responded]


class DeadlineWatch:
    """Watches the deadlines of the messages that workers handle.

    :param report: called with each overdue message instead of cancelling its handler, perhaps several times
    :ivar next_check: the time of the next check of all workers
    """

    def __init__(self, report: Callable[[Message], None] | None = None) -> None:
        self.next_check: float = math.inf
        self._report = report
        self._workers: list[Worker] = []
        self._earlier = anyio.Event()

    def add(self, worker: Worker) -> None:
        """Watch one more worker."""
        self._workers.append(worker)

    def check_earlier(self, deadline: float) -> None:
        """Check at ``deadline``: a worker has taken a message whose deadline comes before `next_check`."""
        self.next_check = deadline
        self._earlier.set()

    async def run(self) -> None:
        """Watch, until cancelled."""
        while True:
            self._earlier = anyio.Event()
            # By the time of a check, the message is usually answered. One needless check per ``msg_timeout``
            # is cheap; a check for each message would cost a quarter of its handling.
            if (now := anyio.current_time()) >= self.next_check:
                self.next_check = self._check(now)
            with anyio.move_on_after(self.next_check - now):
                await self._earlier.wait()

    def _check(self, now: float) -> float:
        """Cancel the overdue handlers, and return the earliest deadline of the others."""
        earliest = math.inf
        for worker in self._workers:
            # An answered message does not time out, even if its handler is still running.
            for message in worker.unanswered():
                deadline = message._arrival.deadline  # TOUCH may have moved it
                if deadline > now:
                    earliest = min(earliest, deadline)
                elif self._report is not None:
                    message._arrival.delegate.expire(now)
                    self._report(message)
                elif not worker.scope.cancel_called:
                    message._arrival.delegate.expire(now)
                    worker.scope.cancel()
        return earliest
