"""A block that stays open between two calls, which may come from different tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

from ..errors import Closed

ValueT = TypeVar("ValueT")


class Held(Generic[ValueT]):
    """An ``async with`` block in its own task.

    AnyIO's blocks begin and end in the same task. A framework starts a broker in one task, takes each message
    in another, and shuts the broker down in a third.

    :param block: the block to hold open
    :param body: a function to run in the block; when it returns, the block stays open until `close`
    :param when_ended: called when the block has ended
    """

    def __init__(
        self,
        block: AbstractAsyncContextManager[ValueT],
        body: Callable[[ValueT], Awaitable[None]] | None = None,
        when_ended: Callable[[], None] | None = None,
    ) -> None:
        self._block = block
        self._body = body
        self._when_ended = when_ended
        self._value: ValueT | None = None
        self._closing = asyncio.Event()
        self._settled = asyncio.Event()  # the block was entered, or has failed
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> ValueT:
        """Enter the block, and return the object that it yields.

        :raises Exception: the exception of entering the block
        """
        self._task = asyncio.create_task(self._hold(), name="nsq_anyio.contrib")
        if (when_ended := self._when_ended) is not None:
            self._task.add_done_callback(lambda _: when_ended())
        try:
            await self._settled.wait()
        except asyncio.CancelledError:
            await self.close()
            raise
        return self.value

    @property
    def value(self) -> ValueT:
        """The object that the block yields.

        :raises Exception: the exception that has ended the block
        :raises Closed: if the block has ended
        """
        if (error := self.failure) is not None:
            raise error
        if self._value is None or self._closing.is_set() or self.loop_is_closed:
            raise Closed("the broker is shut down: start it first")
        return self._value

    @property
    def loop_is_closed(self) -> bool:
        """Whether the event loop in which the block was opened has ended, and the block with it."""
        return self._task is not None and self._task.get_loop().is_closed()

    @property
    def failure(self) -> BaseException | None:
        """The exception that has ended the block; None if it is open or was closed."""
        task = self._task
        return task.exception() if task is not None and task.done() and not task.cancelled() else None

    def close_soon(self) -> None:
        """Let the block end by itself."""
        self._closing.set()

    async def close(self) -> None:
        """End the block, and wait for its end. A cancellation cuts the end of the block short.

        :raises Exception: the exception that has ended the block before
        """
        self._closing.set()
        if (task := self._task) is None or self.loop_is_closed:
            return
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task})  # bounded: the block ends at once when it is cancelled
            raise
        if (error := self.failure) is not None:
            raise error

    async def _hold(self) -> None:
        try:
            async with self._block as self._value:
                self._settled.set()
                if self._body is not None:
                    await self._body(self._value)
                await self._closing.wait()
        finally:
            self._settled.set()
