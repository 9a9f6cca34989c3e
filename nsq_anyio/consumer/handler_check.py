"""Tell async handlers from plain ones, and refuse anything else before it gets a message.

An async handler runs in the event loop, a plain one in a thread. A plain function that returns an awaitable
cannot be recognised before it is called; its first message shows what it is.
"""

from __future__ import annotations

import functools
import inspect

from ..checks import other_parameters
from ..errors import InvalidOption

_REMEDY = "write `async def handler(message): ...`, or a plain function, which is called in a thread"


def is_async_handler(handler: object, argument: str = "message") -> bool:
    """Check a handler before its first message, and return whether to call it in the event loop.

    A plain wrapper that `functools.wraps` an async function counts as async.

    :param argument: what it takes, for the error
    :raises InvalidOption: if it cannot be called, or not with one argument, or is a generator function
    """
    remedy = _REMEDY.replace("message", argument)
    if not callable(handler):
        raise InvalidOption(f"handler={handler!r} is not valid, it is not callable: {remedy}")
    if (takes := other_parameters(handler)) is not None:
        raise InvalidOption(f"handler={handler!r} is not valid, it takes {takes}: {remedy}")
    if inspect.iscoroutinefunction(handler):  # it knows the mark of `inspect.markcoroutinefunction`, too
        return True
    function = _function_of(handler)
    if inspect.iscoroutinefunction(function):
        return True
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        if function.__code__.co_flags & inspect.CO_ITERABLE_COROUTINE:  # of types.coroutine
            return True
        raise InvalidOption(f"handler={handler!r} is not valid, it is a generator: {remedy}")
    return False


def not_awaitable(handler: object, returned: object) -> InvalidOption | None:
    """Return the error for an async handler whose return value cannot be awaited; None if it can."""
    if inspect.isawaitable(returned):
        return None
    kind = type(returned).__name__
    return InvalidOption(
        f"handler={handler!r} is not valid, it wraps an async function, but returned {kind}, which cannot be "
        f"awaited: {_REMEDY}"
    )


def returned_awaitable(handler: object, returned: object) -> InvalidOption:
    """Return the error for a plain handler that returned an awaitable, which its thread cannot await."""
    kind = type(returned).__name__
    return InvalidOption(
        f"handler={handler!r} is not valid, it is a plain function and was called in a thread, but returned "
        f"an awaitable ({kind}): write `async def handler(message): ...`, or pass the async function itself"
    )


def name_of(handler: object) -> str:
    """Return the name of a handler, for people."""
    name: object = getattr(_function_of(handler), "__qualname__", None)
    return name if isinstance(name, str) else repr(handler)


def _function_of(handler: object) -> object:
    """Return the function behind a partial, a method, a ``__call__`` or a wrapper."""
    seen: set[int] = set()
    while id(handler) not in seen:  # a wrapper may name itself
        seen.add(id(handler))
        if isinstance(handler, functools.partial):
            handler = handler.func
        elif inspect.ismethod(handler):
            handler = handler.__func__
        elif inspect.isfunction(handler):
            handler = getattr(handler, "__wrapped__", handler)
        elif not (inspect.isroutine(handler) or inspect.isclass(handler)) and inspect.isfunction(
            call := getattr(type(handler), "__call__", None)  # noqa: B004 - not whether, but which
        ):
            handler = call
    return handler
