"""Giving up messages: whether a failure is a message's last, and what happens then.

The end of a handler or of an ``async with`` block can wait, and gives the message up there. `Message.requeue`
cannot wait: it leaves the message to the inbox, where the next task that takes messages gives it up, or else
the consumer's shutdown.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable

from ..errors import Discard
from ..events import Emitter, HandlerFailed
from ..middleware import in_own_context
from ..tasks import is_stray
from .dead_letter import DISCARDED, GAVE_UP, DeadLetters
from .message import Message, about
from .wrapping import Wrapping

GiveUp = Callable[[Message], Awaitable[object] | object]
"""A plain or async function, called with a message before it is given up. If it raises, the message is
requeued."""


class GivingUp:
    """Gives up messages: calls the user's ``on_give_up``, publishes the dead letter, and finishes them.

    :param max_attempts: from this attempt on, a message whose handling fails is given up; 0 for never
    :param on_give_up: the user's function or None; if it answers the message itself, there is no dead letter
    :param wrapping: the middleware around ``on_give_up``; None if there is none
    :param dead_letters: publishes dead letters; None if there are none
    """

    def __init__(
        self,
        max_attempts: int,
        on_give_up: GiveUp | None,
        emit: Emitter,
        wrapping: Wrapping | None,
        dead_letters: DeadLetters | None,
    ) -> None:
        self._max_attempts: float = max_attempts or math.inf
        self._on_give_up = on_give_up
        self._emit = emit
        self._dead_letters = dead_letters
        self._begun: set[Message] = set()
        self._wrapped = None if wrapping is None else wrapping.handler(self._call_user, gives_up=True)

    def is_last(self, message: Message) -> bool:
        return message.attempts >= self._max_attempts and message not in self._begun

    def buries(self, error: BaseException) -> bool:
        return self._dead_letters is not None and isinstance(error, Discard)

    async def may_answer(self, message: Message, error: BaseException) -> bool:
        if isinstance(error, Discard):
            return self._dead_letters is None or await self._dead_letters.bury(message, DISCARDED, error)
        if not self.is_last(message) or not (isinstance(error, Exception) or is_stray(error)):
            return True
        await self.give_up(message, error)
        return False

    async def give_up(self, message: Message, error: BaseException | None) -> None:
        """Finish the message; requeue it if ``on_give_up``, a middleware or the dead letter fails.

        :param error: the failure of its last attempt, or a `Discard`; None if no handler was called, because
            it was delivered too often
        """
        if not message._arrival.delegate.holds(message):
            return  # it has timed out meanwhile, and nsqd delivers it again
        message._reopen()
        if isinstance(error, Discard):
            await message._settle(error)
            return
        self._begun.add(message)
        try:
            await self._give_up(message, error)
        finally:
            self._begun.remove(message)

    async def _give_up(self, message: Message, failure: BaseException | None) -> None:
        try:
            await (self._wrapped(message) if self._wrapped else in_own_context(self._call_user(message)))
        except BaseException as error:
            failed = isinstance(error, Exception) or is_stray(error)
            if failed:
                message._arrival.delegate.failed(message)
                self._emit(HandlerFailed(error=error, **about(message)))
            message._answer_for(error)  # requeue the message rather than lose it
            if not failed:
                raise
            return
        letters = self._dead_letters
        if letters is None or message.responded or await letters.bury(message, GAVE_UP, failure):
            message._give_up(failure)

    async def _call_user(self, message: Message) -> None:
        if self._on_give_up is not None:
            result = self._on_give_up(message)
            if inspect.isawaitable(result):
                await result
