"""A batch of messages, and a block that answers all of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import Self

from ..errors import Discard, Requeue
from ..middleware import Around
from ..unwrapping import only_error
from .message import Handling, Message, finish_all
from .wrapping import Wrapping, entered, is_in_generator, left


class Batch(list[Message]):
    """A list of messages. Made by `Consumer.batches`.

    At its end, an ``async with batch:`` block answers the messages that are still unanswered: FIN when the
    block ends normally, REQ when it raises. `Requeue` and `Discard` apply to each of them, and do not leave
    the block; any other exception does.
    """

    __slots__ = ("_around", "_entered", "_wrapping")

    def __init__(self, messages: Iterable[Message] = (), wrapping: Wrapping | None = None) -> None:
        super().__init__(messages)
        self._wrapping = wrapping
        self._around: Around[Handling] | None = None
        self._entered: tuple[Message, ...] = ()

    @asynccontextmanager
    async def keep_alive(self) -> AsyncGenerator[Self]:
        """Touch the unanswered messages while a block runs, as `Message.keep_alive` does for one.

        ::

            async with batch, batch.keep_alive():
                await something_long(batch)
        """
        async with AsyncExitStack() as stack:
            for message in self:
                await stack.enter_async_context(message.keep_alive())
            yield self

    async def __aenter__(self) -> Self:
        self._entered = tuple(self)
        if self._wrapping is not None and self._entered:
            around = self._wrapping.around(self._entered, in_generator=is_in_generator())
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

    async def _end_block(self, error: BaseException | None) -> bool:
        if error is None:
            finish_all([message for message in self._entered if not message.responded])
            return False
        left = list(self._entered)
        try:
            while left:
                await left[0].end_block(error)
                left.pop(0)
        except BaseException as cut_short:  # while a dead letter was being published
            for message in left:
                message.answer_for(cut_short)
            raise
        return isinstance(only_error(error), Requeue | Discard)
