"""Middleware: the user's context managers around each handler call and each publish.

Under a cancellation, an ``await`` in a middleware's cleanup would raise at once. A shielded scope around the
cleanup alone would not nest properly with the scopes and task groups that the middleware has opened around
its ``yield``: it would be entered after them while they are still open, and be open when they are closed,
which AnyIO and Trio refuse. So `Around` opens a scope before it enters the first middleware, and turns it
into a shield with a deadline when a cancellation arrives. A scope that the middleware itself has cancelled,
such as the scope of `fail_after`, ends inside the middleware; `is_cancelled` distinguishes the two cases. In
an async generator, a block opens no such scope: if the generator is abandoned, the scope would stay open in
its caller's task.

A worker handles one message after another in one task, and a task has one context. The handler must see the
context variables that a middleware sets for its message, and the next message must not. So `in_own_context`
runs a coroutine in a copy of the context. With a task for each message, cancellations and exceptions would
have to be passed between that task and the worker, at a higher cost.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from contextvars import Context, copy_context
from functools import partial
from types import TracebackType, coroutine
from typing import Any, Generic, Protocol, TypeVar, cast

import anyio

from .errors import InvalidOption
from .exceptions import leaves
from .tasks import is_cancelled, is_stray

_REMEDY = "decorate an `async def` function that yields once with `@contextlib.asynccontextmanager`"

ResultT = TypeVar("ResultT")


class Subject(Protocol):
    """The argument of middleware: it describes the messages or the publish inside."""

    def _ended(self, error: BaseException | None) -> None:
        """Record how the code inside the next middleware has ended, before that middleware exits."""
        ...


SubjectT = TypeVar("SubjectT", bound=Subject)


class Around(Generic[SubjectT]):
    """The middleware around one subject: entered in order, exited in reverse.

    After a cancellation, the middleware exits under a shield, so that its cleanup can await.

    :param grace: the seconds that the cleanup may take, for all middleware together; None for no shield
    """

    __slots__ = ("_cancellation", "_grace", "_middleware", "_scope", "_stack", "subject")

    def __init__(
        self,
        middleware: Sequence[Callable[[SubjectT], AbstractAsyncContextManager[object]]],
        subject: SubjectT,
        grace: float | None,
    ) -> None:
        self.subject: SubjectT = subject
        self._middleware = middleware
        self._grace = grace
        self._scope = anyio.CancelScope()
        self._stack = AsyncExitStack()
        self._cancellation: BaseException | None = None

    async def __aenter__(self) -> SubjectT:
        stack = self._stack
        # Entered before the middleware, because scopes that a middleware opens must be nested in it.
        if self._grace is not None:
            stack.enter_context(self._scope)
        try:
            for make in self._middleware:
                context = make(self.subject)
                if not isinstance(context, AbstractAsyncContextManager):
                    raise no_context_manager(make, context)
                await stack.enter_async_context(context)
                stack.push(self._note)
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise  # even if a middleware suppresses it, because nothing has run inside
        return self.subject

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        """Exit all middleware; return whether one of them has suppressed the error.

        A cancellation of the task cannot be suppressed.
        """
        suppressed = await self._stack.__aexit__(kind, error, traceback)
        cancellation = self._cancellation
        if suppressed and cancellation is not None and is_cancelled(cancellation):
            if cancellation is error:
                return False
            raise cancellation
        return bool(suppressed)

    def _note(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.subject._ended(error)
        if self._cancellation is None and error is not None and _is_cancellation(error):
            self._cancellation = error
            if self._grace is None:
                return
            # A new scope around the cleanup would not nest with the scopes that the middleware has open.
            self._scope.shield = True
            self._scope.deadline = anyio.current_time() + self._grace


def _is_cancellation(error: BaseException) -> bool:
    cancelled = anyio.get_cancelled_exc_class()
    return not is_stray(error) and any(isinstance(leaf, cancelled) for leaf in leaves(error))


def check_middleware(
    middleware: Sequence[Callable[[SubjectT], AbstractAsyncContextManager[object]]],
) -> tuple[Callable[[SubjectT], AbstractAsyncContextManager[object]], ...]:
    """Return the middleware as a tuple.

    :raises InvalidOption: if it is not a sequence, or a member certainly returns no context manager
    """
    if not isinstance(middleware, Sequence) or isinstance(middleware, str | bytes):
        raise InvalidOption(
            f"middleware={middleware!r} is not valid: use a sequence of callables, such as [middleware]"
        )
    for place, each in enumerate(cast("Sequence[object]", middleware)):
        if not callable(each):
            raise InvalidOption(f"middleware[{place}]={each!r} is not valid, it cannot be called: {_REMEDY}")
        if inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each):
            raise InvalidOption(
                f"middleware[{place}]={each!r} is not valid, it returns no context manager: {_REMEDY}"
            )
    return tuple(middleware)


def no_context_manager(middleware: object, returned: object) -> InvalidOption:
    """Return the error for middleware that has returned something other than an async context manager."""
    kind = type(returned).__name__
    return InvalidOption(
        f"middleware={middleware!r} is not valid, it returned {kind}, which is no async context "
        f"manager: {_REMEDY}"
    )


@coroutine
def in_own_context(
    inner: Coroutine[Any, Any, ResultT], context: Context | None = None
) -> Generator[Any, Any, ResultT]:
    """Await a coroutine in a context of its own, so that its changes do not outlive it.

    The event loop sees only what the coroutine yields, so this works on every backend.

    :param context: the context; default: a copy of the current one
    """
    if context is None:
        context = copy_context()
    step: Callable[[], Any] = partial(inner.send, None)
    while True:
        try:
            yielded = context.run(step)
        except StopIteration as end:
            result: ResultT = end.value
            return result
        try:
            value = yield yielded
        except GeneratorExit:
            context.run(inner.close)
            raise
        except BaseException as error:  # noqa: BLE001 - passed to the coroutine
            step = partial(inner.throw, error)
        else:
            step = partial(inner.send, value)
