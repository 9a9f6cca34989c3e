"""Refuses handlers that are no async functions, before they are given a message.

A plain function does its work when it is called, and then there is nothing to await: the message would count
as failed, and be tried again, with all that the function does. Where the code of a function does not tell
what it returns, the first message does.
"""

from __future__ import annotations

import dis
import functools
import inspect
from types import CodeType

from ..errors import InvalidOption

__all__ = ["check_handler", "not_awaitable"]

_REMEDY = (
    "write `async def handler(message): ...`, and call blocking code in it with "
    "`await anyio.to_thread.run_sync(...)`"
)


def check_handler(handler: object) -> None:
    """Look at a handler before its first message.

    :raises InvalidOption: if it cannot be called, or certainly returns nothing to await
    """
    if not callable(handler):
        raise InvalidOption(f"handler={handler!r} is not valid, it cannot be called: {_REMEDY}")
    function = _function_of(handler)
    if not inspect.isfunction(function) or inspect.iscoroutinefunction(function):
        return
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        if not function.__code__.co_flags & inspect.CO_ITERABLE_COROUTINE:  # of types.coroutine
            raise InvalidOption(f"handler={handler!r} is not valid, it is a generator: {_REMEDY}")
    elif _returns_constants(function.__code__):
        raise InvalidOption(f"handler={handler!r} is not valid, it is not async: {_REMEDY}")


def not_awaitable(handler: object, returned: object) -> InvalidOption | None:
    """The error for a handler that has returned something that cannot be awaited; None where it can be."""
    if inspect.isawaitable(returned):
        return None
    kind = type(returned).__name__
    return InvalidOption(
        f"handler={handler!r} is not valid, it returned {kind} and nothing to await: {_REMEDY}"
    )


def _function_of(handler: object) -> object:
    """What is called in the end: behind `functools.partial`, a bound method, or ``__call__``."""
    while True:
        if isinstance(handler, functools.partial):
            handler = handler.func
        elif inspect.ismethod(handler):
            handler = handler.__func__
        elif not (inspect.isroutine(handler) or inspect.isclass(handler)) and inspect.isfunction(
            getattr(type(handler), "__call__", None)  # noqa: B004 - not whether, but which
        ):
            return type(handler).__call__
        else:
            return handler


def _returns_constants(code: CodeType) -> bool:
    """Whether each ``return`` is of a constant, None for the most part: nothing that can be awaited."""
    returns = False
    before = ""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "RETURN_VALUE":
            if before != "LOAD_CONST" or instruction.is_jump_target:  # which may bring another value
                return False
            returns = True
        elif instruction.opname == "RETURN_CONST":  # of Python 3.12 and 3.13
            returns = True
        before = instruction.opname
    return returns
