"""The outcome of a call in the event loop, and the future of a publish, for the threads that wait."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from threading import Thread
from typing import Any, Generic, TypeVar, cast

from .waiters import Waiters

_log = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")


class Outcome(Generic[ResultT]):
    """A result or an error, set once by the thread of the event loop.

    A `concurrent.futures.Future` has a lock, for which the event loop would have to wait (see `Waiters`).

    :param then: called in the event loop's thread with the outcome
    :ivar is_there: whether there is a result or an error
    """

    def __init__(self, then: Callable[[Outcome[ResultT]], object] | None = None) -> None:
        self.is_there: bool = False
        self._result: ResultT | None = None
        self._error: BaseException | None = None
        self._then = then
        self._waiters = Waiters()

    # In the thread of the event loop

    def succeed(self, result: ResultT) -> None:
        """Set the result, unless there is an outcome already."""
        if not self.is_there:
            self._result = result
            self._tell()

    def fail(self, error: BaseException) -> None:
        """Set the error, unless there is an outcome already."""
        if not self.is_there:
            self._error = error
            self._tell()

    def settle(self, function: Callable[[], ResultT]) -> None:
        """Call a function, and set its result or error as the outcome."""
        try:
            result = function()
        except Exception as error:  # noqa: BLE001 - raised where the result is awaited
            self.fail(error)
        else:
            self.succeed(result)

    # In any thread

    def result(self, timeout: float | None = None) -> ResultT:
        """Wait for the outcome; return the result, or raise the error.

        :param timeout: seconds; None to wait for ever
        :raises TimeoutError: if there is no outcome within ``timeout``
        """
        error = self.error(timeout)
        if error is None:
            return cast(ResultT, self._result)
        try:
            raise error
        finally:
            del error  # or its traceback would keep this frame alive, and the frame the error

    def error(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the outcome as `result` does; return the error, or None."""
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self._waiters.wait_for(lambda: self.is_there, deadline):
            raise TimeoutError
        return self._error

    def _tell(self) -> None:
        self.is_there = True
        self._waiters.wake_all()
        then, self._then = self._then, None  # it may refer to this object
        if then is not None:
            then(self)


class PublishFuture(Future[None]):
    """A future for which the event loop never waits.

    `Future` has a lock. A signal handler may interrupt a thread that holds it, and wait for the event loop,
    which would wait for the lock. Here waits and callbacks do not take the lock. The rest of the class and
    `concurrent.futures.wait` need it, so the event loop takes it only when no thread holds it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._outcome: Outcome[None] | None = None
        self._callbacks: deque[Callable[[Future[None]], object]] = deque()
        self._blocked = Waiters()

    # In the event loop

    def take(self, outcome: Outcome[None]) -> None:
        """Take over an outcome, unless the future was cancelled."""
        if not self._condition.acquire(blocking=False):
            Thread(target=self._take, args=(outcome,), name="nsq-anyio outcome", daemon=True).start()
            return
        try:
            taken = self._settle(outcome)
        finally:
            self._condition.release()
        self._tell(taken)

    # In any thread

    def done(self) -> bool:
        """Return whether the future has an outcome, or was cancelled."""
        return self._outcome is not None

    def cancel(self) -> bool:
        """Cancel the publish."""
        cancelled = super().cancel()
        if cancelled:
            self._tell(_cancelled())
        return cancelled

    def result(self, timeout: float | None = None) -> None:
        return self._wait(timeout).result()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        error = self._wait(timeout).error()
        if isinstance(error, CancelledError):
            raise error
        return error

    def add_done_callback(self, fn: Callable[[Future[None]], Any]) -> None:
        self._callbacks.append(fn)
        if self.done():
            self._call_back()

    def _wait(self, timeout: float | None) -> Outcome[None]:
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self._blocked.wait_for(self.done, deadline):
            raise TimeoutError
        assert self._outcome is not None  # noqa: S101
        return self._outcome

    def _take(self, outcome: Outcome[None]) -> None:
        self._tell(self._settle(outcome))

    def _settle(self, outcome: Outcome[None]) -> Outcome[None]:
        if not self.running() and not self.set_running_or_notify_cancel():
            return _cancelled()
        if (error := outcome.error()) is not None:
            self.set_exception(error)
        else:
            self.set_result(None)
        return outcome

    def _tell(self, outcome: Outcome[None]) -> None:
        self._outcome = self._outcome or outcome
        self._blocked.wake_all()
        self._call_back()

    def _call_back(self) -> None:
        while self._callbacks:
            try:
                callback = self._callbacks.popleft()
            except IndexError:  # another thread was faster
                return
            try:
                callback(self)
            except Exception:  # noqa: BLE001 - the callback is the caller's, and the event loop goes on
                _log.exception("a callback of a publish failed: %r", callback)


def _cancelled() -> Outcome[None]:
    outcome: Outcome[None] = Outcome()
    outcome.fail(CancelledError())
    return outcome
