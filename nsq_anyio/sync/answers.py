"""Carries answers from the threads that handle messages to the event loop, which sends them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ..consumer import Message as AsyncMessage
from ..consumer.message import finish_all


class Answers:
    """Answers that wait for a turn of the event loop.

    The first answer wakes the event loop, which takes all answers that have come by then.

    :param wake: schedules a function in the event loop, and does not wait for it
    """

    def __init__(self, wake: Callable[[Callable[[], object]], object]) -> None:
        self._wake = wake
        self._waiting: deque[AsyncMessage | Callable[[], object]] = deque()
        self._woken = False

    def finish(self, message: AsyncMessage) -> None:
        """Finish a message, unless it was answered before."""
        self._waiting.append(message)
        if not self._woken:
            self._wake_loop()

    def call(self, function: Callable[[], object]) -> None:
        """Call a function in the event loop, after all earlier answers. It must not raise."""
        self._waiting.append(function)
        if not self._woken:
            self._wake_loop()

    def settle(self) -> None:
        """Pass all answers to the consumer. Called in the event loop."""
        self._woken = False  # first, so that an answer that comes meanwhile wakes the loop again
        waiting = self._waiting
        finished: list[AsyncMessage] = []
        while waiting:
            answer = waiting.popleft()
            if isinstance(answer, AsyncMessage):
                if not answer.responded:
                    finished.append(answer)
                continue
            finish_all(finished)
            finished.clear()
            answer()
        finish_all(finished)

    def _wake_loop(self) -> None:
        try:
            self._woken = True
            self._wake(self.settle)
        except BaseException:  # the loop has ended, or a signal handler has raised
            self._woken = False
            raise
