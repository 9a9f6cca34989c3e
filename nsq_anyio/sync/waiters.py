"""The waits of threads, and the calls that wake them, without a lock that two threads need.

`threading.Condition` would not be safe here. A thread holds its lock while it checks whether it has to wait,
and a signal handler may interrupt the thread at that point. If the handler then waits for the event loop, and
the event loop waits for the lock, both wait for ever. If the handler raises, the lock may stay locked. The
queues of culsans and aiologic that have a lock fail in the same way, and both libraries take a tenth of a
second to import. With `Waiters`, no thread holds a lock that another one waits for.

A signal handler can miss the moment in which its own thread begins to wait, so only the event loop ends
waits.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import TIMEOUT_MAX, Lock, current_thread, main_thread

_SECONDS_WITHOUT_SIGNALS = 0.5
"""The longest wait of the main thread, in which Python calls signal handlers between two instructions. A
signal that arrives when the thread is about to sleep does not wake it. Its handler runs at the next
wake-up."""


class Waiters:
    """Threads that wait for something to become true.

    Each thread waits for a locked lock of its own. To wake the thread, another one takes the lock from the
    queue and releases it. Any thread and any signal handler may call these methods; only `wait_for` waits.
    """

    def __init__(self) -> None:
        self._locks: deque[Lock] = deque()

    def __len__(self) -> int:
        """Return the number of threads that wait and have not been woken."""
        return len(self._locks)

    def wait_for(
        self,
        is_true: Callable[[], bool],
        deadline: float | None = None,
        begins: Callable[[], object] | None = None,
    ) -> bool:
        """Wait until ``is_true`` returns true; return False if ``deadline`` passes first.

        :param is_true: called before each wait; code that makes it true must wake this thread afterwards
        :param deadline: on `time.monotonic`'s clock; None to wait for ever
        :param begins: called before each wait, when this thread can already be woken
        """
        try:
            while not is_true():
                left = -1.0 if deadline is None else min(deadline - time.monotonic(), TIMEOUT_MAX)
                if deadline is not None and left <= 0:
                    return False
                self._wait(is_true, left, begins)
        except BaseException:
            self.wake()  # this thread may have been woken in place of another
            raise
        return True

    def wake(self, most: int = 1) -> None:
        """Wake up to ``most`` threads."""
        with suppress(IndexError):
            for _ in range(most):
                self._locks.popleft().release()

    def wake_all(self) -> None:
        """Wake all threads that wait now."""
        self.wake(len(self._locks))

    def _wait(self, is_true: Callable[[], bool], seconds: float, begins: Callable[[], object] | None) -> None:
        if current_thread() is main_thread():
            seconds = _SECONDS_WITHOUT_SIGNALS if seconds < 0 else min(seconds, _SECONDS_WITHOUT_SIGNALS)
        lock = Lock()
        lock.acquire()
        try:
            self._locks.append(lock)
            if begins is not None:
                begins()
            if not is_true():  # it may have become true before the lock was in the queue
                lock.acquire(timeout=seconds)
        finally:
            with suppress(ValueError):  # the thread that has woken this one has taken it
                self._locks.remove(lock)
