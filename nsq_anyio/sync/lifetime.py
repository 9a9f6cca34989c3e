"""The lifetime of a consumer or producer for plain functions: opened at its first use, closed once.

Nothing runs before the first use. So an object that is created when a module is imported survives a fork, and
each child opens it separately.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from threading import RLock
from types import TracebackType
from typing import ClassVar, Generic, NoReturn, Self, TypeVar

from ..errors import Closed, WouldDeadlock
from .loop_thread import Backend, LoopThread

BlockT = TypeVar("BlockT")
ResultT = TypeVar("ResultT")


class Lifetime(Generic[BlockT]):
    """An async block, held open by a thread of its own.

    :param block: the block; it must end in bounded time
    :param patience: the ``patience`` of the `LoopThread`
    :param ended: the ``ended`` of the `LoopThread`. It must not refer to this object, which would never be
        garbage-collected
    """

    _noun: ClassVar[str]
    _maker: ClassVar[str]

    def __init__(
        self,
        block: AbstractAsyncContextManager[BlockT],
        *,
        patience: float,
        backend: Backend,
        ended: Callable[[], object] = lambda: None,
    ) -> None:
        self._block = block
        self._ended = ended
        self._patience = patience
        self._backend: Backend = backend
        self._thread: LoopThread[BlockT] | None = None
        self._inner: BlockT | None = None
        self._closed = False

    def __enter__(self) -> Self:
        thread, _ = self._open()
        if self._closed:
            self._refuse(thread)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._leave(cancelled=not (error is None or isinstance(error, Exception)), raises=error is None)

    def close(self) -> None:
        """Do the same as the end of the ``with`` block.

        Further calls, and calls in a forked child, do nothing.

        :raises PermanentRefusal: from the first call, if an nsqd has refused permanently
        """
        self._leave(cancelled=False, raises=True)

    def __del__(self) -> None:
        thread: LoopThread[BlockT] | None = getattr(self, "_thread", None)
        if thread is None or thread.is_forked or thread.has_ended or self._closed:
            return
        thread.leave_soon()  # must not wait: the garbage collector runs in any thread, at any moment
        warnings.warn(
            f"{self!r} was dropped while it was open: use `with`, or call close()",
            ResourceWarning,
            source=self,
            stacklevel=1,
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {self._noun} has a thread and connections, and cannot be pickled: create one in each process"
        )

    def _open(self) -> tuple[LoopThread[BlockT], BlockT]:
        """Open the block if it is not open yet; return the thread and the object that the block yields."""
        thread, inner = self._thread, self._inner
        if thread is not None:
            thread.check_process()
        if thread is None or inner is None:
            with _opening:
                thread, inner = self._thread, self._inner
                if thread is None or inner is None:
                    thread, inner = self._start()
        return thread, inner

    def _start(self) -> tuple[LoopThread[BlockT], BlockT]:
        if self._closed:
            self._refuse_closed()
        if self._thread is not None:
            raise WouldDeadlock(
                f"a signal handler has interrupted the start of this {self._noun}, and cannot use it yet: "
                "open it with `with` before you install the handler"
            )
        self._thread = thread = LoopThread(
            self._block,
            patience=self._patience,
            backend=self._backend,
            noun=self._noun,
            ended=self._ended,
        )
        self._starts(thread)
        try:
            self._inner = inner = thread.start()
        except BaseException:
            self._closed = True
            raise
        return thread, inner

    def _starts(self, thread: LoopThread[BlockT]) -> None:
        """Called with the thread before it enters the block."""

    def _leave(self, *, cancelled: bool, raises: bool) -> None:
        was_closed, self._closed = self._closed, True
        thread = self._thread
        if thread is None:
            return
        thread.leave(cancelled=cancelled)
        if raises and not was_closed and not thread.is_forked and thread.failure is not None:
            raise thread.failure

    def _read(self, function: Callable[[BlockT], ResultT]) -> ResultT:
        """Call a function with the object of the block, in the event loop, and return its result."""
        thread, inner = self._open()
        try:
            return thread.read(lambda: function(inner))
        except Closed:
            self._refuse(thread)

    def _check_wait(self, thread: LoopThread[BlockT], remedy: str) -> None:
        if thread.is_current:
            raise WouldDeadlock(
                f"this call waits for the thread of the {self._noun}'s event loop, in which on_event is "
                f"called, and was made in that thread: {remedy}"
            )

    def _refuse(self, thread: LoopThread[BlockT]) -> NoReturn:
        """Raise the error that has ended the block, or `Closed`."""
        if not (self._closed or thread.is_current):
            thread.wait_for_end()  # it was not closed, so it is ending by itself; then `failure` says why
        if thread.failure is not None:
            raise thread.failure from None
        self._refuse_closed()

    def _refuse_closed(self) -> NoReturn:
        raise Closed(
            f"the {self._noun} is closed: use it inside `with nsq.sync.{self._maker}(...)`, or before close()"
        ) from None


# Held only while a thread starts. Reentrant, because a signal handler may interrupt the start.
_opening = RLock()


def _renew_lock() -> None:
    global _opening  # noqa: PLW0603 - another thread may have held it at the fork, and is not in the child
    _opening = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)
