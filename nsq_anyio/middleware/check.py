"""Checks the user's ``middleware`` before it is called for the first time."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TypeVar, cast

from ..errors import InvalidOption

SubjectT = TypeVar("SubjectT")

_REMEDY = "decorate an `async def` function that yields once with `@contextlib.asynccontextmanager`"


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
    """Return the error for middleware that has returned something else than an async context manager."""
    kind = type(returned).__name__
    return InvalidOption(
        f"middleware={middleware!r} is not valid, it returned {kind}, which is no async context "
        f"manager: {_REMEDY}"
    )
