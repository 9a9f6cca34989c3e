"""The handlers of `Consumer.run`, and the checks that they pass first.

An async handler runs in the event loop, a plain one in a thread. Both are checked before their first message.
Only a plain function that returns an awaitable cannot be recognised before it is called.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ..errors import InvalidOption
from ..options.checks import check_integer, check_seconds, other_parameters
from .batches import Batch
from .message import Message
from .rate import RateLimit

Handler = Callable[[Message], Awaitable[object] | object]
"""A function of one message, async or plain; a plain one is called in a thread. The message is finished when
the function returns and requeued when it raises, unless it raises `Requeue` or `Discard`."""

_REMEDY = "write `async def handler(message): ...`, or a plain function, which is called in a thread"


@dataclass(frozen=True, slots=True)
class BatchHandler:
    """A handler of batches, for `Consumer.run`, `serve` and ``nsq-anyio run``.

    ::

        await nsq.serve(nsq.BatchHandler(save, max_size=500), "clicks", "archive", nsqd="127.0.0.1:4150")

    The unanswered messages of the batch are finished when the function returns, and requeued when it raises,
    like a single message. The function may answer messages of the batch itself. Batches end as in
    `Consumer.batches`: a message that another failure would give up comes alone. An async function is
    cancelled when the first unanswered message of its batch times out, unless ``cancel_at_deadline`` is off.

    :param function: an async or plain function of one `Batch`; a plain one is called in a thread
    :param max_size: the most messages in a batch, 1 or more
    :param max_wait: seconds to wait for more messages after the first one, 0 or more; default 1
    :raises InvalidOption: if a value is out of range, or the function cannot be called
    """

    function: Callable[[Batch], Awaitable[object] | object]
    max_size: int
    max_wait: float = 1.0

    def __post_init__(self) -> None:
        is_async_handler(self.function, "batch")
        check_integer("max_size", self.max_size, 1)
        check_seconds("max_wait", self.max_wait, 0)


def check_handler(handler: object, max_per_second: float | RateLimit | None = None) -> None:
    """Check a handler before its first message.

    :raises InvalidOption: if it cannot be called, or not with one message; if it is a generator function; if
        it is a `BatchHandler` and there is a rate limit
    """
    if not isinstance(handler, BatchHandler):
        is_async_handler(handler)
    elif max_per_second is not None:
        raise InvalidOption(
            f"max_per_second={max_per_second!r} is not valid with a BatchHandler: it limits handlers of "
            "single messages"
        )


def is_async_handler(handler: object, argument: str = "message") -> bool:
    """Check a handler before its first message, and return whether to call it in the event loop.

    A plain wrapper that `functools.wraps` an async function counts as async.

    :param argument: the name of its argument, for the error
    :raises InvalidOption: if it cannot be called, or not with one argument, or is a generator function
    """
    remedy = _REMEDY.replace("message", argument)
    if not callable(handler):
        raise InvalidOption(f"handler={handler!r} is not valid, it is not callable: {remedy}")
    if (takes := other_parameters(handler)) is not None:
        raise InvalidOption(f"handler={handler!r} is not valid, it takes {takes}: {remedy}")
    if inspect.iscoroutinefunction(handler):  # or `inspect.markcoroutinefunction` has marked it
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
    """Return the name of a handler, for events and errors."""
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
            call := getattr(type(handler), "__call__", None)  # noqa: B004 - the function is wanted
        ):
            handler = call
    return handler
