"""Refuse handlers that are not async functions, before they receive a message.

A plain function does its work when it is called, and returns nothing to await. The message would count as
failed, and the next attempt would repeat the work. If a function's code does not show what it returns, its
first call does.
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
    """Check a handler before its first message.

    :raises InvalidOption: if it cannot be called, or certainly does not return an awaitable
    """
    if not callable(handler):
        raise InvalidOption(f"handler={handler!r} is not valid, it is not callable: {_REMEDY}")
    function = _function_of(handler)
    if not inspect.isfunction(function) or inspect.iscoroutinefunction(function):
        return
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        if not function.__code__.co_flags & inspect.CO_ITERABLE_COROUTINE:  # of types.coroutine
            raise InvalidOption(f"handler={handler!r} is not valid, it is a generator: {_REMEDY}")
    elif _returns_constants(function.__code__):
        raise InvalidOption(f"handler={handler!r} is not valid, it is not async: {_REMEDY}")


def not_awaitable(handler: object, returned: object) -> InvalidOption | None:
    """Return the error for a handler whose return value cannot be awaited; None if it can."""
    if inspect.isawaitable(returned):
        return None
    kind = type(returned).__name__
    return InvalidOption(
        f"handler={handler!r} is not valid, it returned {kind} and nothing to await: {_REMEDY}"
    )


def _function_of(handler: object) -> object:
    """Return the function behind `functools.partial`, a bound method or ``__call__``."""
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
    """Return whether each ``return`` returns a constant, most often None, which cannot be awaited."""
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
