"""Checks of the caller: async tests run in an event loop, plain tests do not."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import anyio

P = ParamSpec("P")
T = TypeVar("T")


def is_in_event_loop() -> bool:
    """Return whether the caller is in an event loop of asyncio or Trio."""
    try:
        anyio.current_time()
    except anyio.NoEventLoopError:
        return False
    return True


def awaited(method: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Refuse calls of an async method outside of an event loop.

    Nothing would await the coroutine there, and the test would pass without a check.

    :raises RuntimeError: by the decorated method, when it is called outside of an event loop
    """

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        if not is_in_event_loop():
            name = method.__name__
            raise RuntimeError(f"{name}() is async, and called outside of an event loop: call sync.{name}()")
        return method(*args, **kwargs)

    return call
