"""The outcome of a call in the event loop, for the threads that wait for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, TypeVar, cast

from .waiters import Waiters

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
        """Call a function, and set what it returns or raises as the outcome."""
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
