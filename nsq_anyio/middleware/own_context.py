"""Runs a coroutine in a copy of the context, without a task of its own.

A worker handles one message after another in one task. The handler must see the context variables that a
middleware sets for its message, and the next message must not. A task for each message would have its own
context too, but would cost more, and cancellation would have to be passed on to it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from functools import partial
from types import coroutine
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


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
