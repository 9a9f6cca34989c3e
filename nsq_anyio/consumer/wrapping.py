"""The middleware around handlers, and around the blocks of single messages."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Self

from ..middleware import Around, in_own_context
from .message import Arrival, ConsumerMiddleware, Handling, MakeMessage, Message


class Wrapping:
    """The middleware of one consumer.

    :param grace: the seconds that the middleware's cleanup may take after its handler was cancelled
    """

    def __init__(self, middleware: Sequence[ConsumerMiddleware], grace: float) -> None:
        self._middleware = middleware
        self._grace = grace
        self.make_message: MakeMessage = partial(WrappedMessage, self)

    def around(
        self, messages: tuple[Message, ...], *, gives_up: bool = False, in_generator: bool = False
    ) -> Around[Handling]:
        """Return the middleware around ``messages``; their own blocks are not wrapped again.

        :param in_generator: whether the block is in an async generator, where there is no shield
        """
        for message in messages:
            if isinstance(message, WrappedMessage):
                message._is_wrapped = True
        return Around(
            self._middleware, Handling(messages, gives_up=gives_up), None if in_generator else self._grace
        )

    def handler(
        self, handler: Callable[[Message], Awaitable[object]], *, gives_up: bool = False
    ) -> Callable[[Message], Awaitable[object]]:
        """Return ``handler`` with the middleware around it; each call of both has its own context."""

        async def handle(message: Message) -> object:
            async with self.around((message,), gives_up=gives_up):
                return await handler(message)
            return None  # a middleware has suppressed the handler's exception

        return lambda message: in_own_context(handle(message))


class WrappedMessage(Message):
    """A message of a consumer with middleware, whose ``async with message:`` block enters the middleware."""

    __slots__ = ("_around", "_is_wrapped", "_wrapping")

    def __init__(
        self,
        wrapping: Wrapping,
        arrival: Arrival,
        timestamp: int,
        attempts: int,
        message_id: bytes,
        body: bytes,
    ) -> None:
        super().__init__(arrival, timestamp, attempts, message_id, body)
        self._is_wrapped: bool = False  # whether the middleware already wraps its handler or batch
        self._wrapping = wrapping
        self._around: Around[Handling] | None = None

    async def __aenter__(self) -> Self:
        if not (self._is_wrapped or self.responded):
            around = self._wrapping.around((self,), in_generator=is_in_generator())
            self._around = await entered(around, self._end_block)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        around, self._around = self._around, None
        return await left(around, exc_type, exc, traceback, self._end_block)


def is_in_generator() -> bool:
    """Return whether the caller, an ``__aenter__``, is called by an async generator."""
    caller = sys._getframe(2)
    return bool(caller.f_code.co_flags & inspect.CO_ASYNC_GENERATOR)


async def entered(
    around: Around[Handling], end: Callable[[BaseException], Awaitable[bool]]
) -> Around[Handling]:
    """Enter the middleware around a block, and return it. If it raises, ``end`` answers for the error."""
    try:
        await around.__aenter__()
    except BaseException as error:
        await end(error)
        raise
    return around


async def left(
    around: Around[Handling] | None,
    exc_type: type[BaseException] | None,
    exc: BaseException | None,
    traceback: TracebackType | None,
    end: Callable[[BaseException | None], Awaitable[bool]],
) -> bool:
    """Exit the middleware around a block; then ``end`` answers according to how both have ended.

    :param end: returns whether to suppress the error
    :returns: whether the exception of the block is suppressed
    """
    suppressed = False
    if around is not None:
        try:
            suppressed = await around.__aexit__(exc_type, exc, traceback)
        except BaseException as error:
            if not await end(error):
                raise
            return True
    return await end(None if suppressed else exc) or suppressed
