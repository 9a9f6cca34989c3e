"""Gives up messages that were delivered too often."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

from ..connection.stray import is_stray
from ..events import Emitter, HandlerFailed
from .about import about
from .dead_letter import GAVE_UP, DeadLetters
from .message import Message
from .wrapping import Wrapping

__all__ = ["GiveUp", "GivingUp"]

GiveUp = Callable[[Message], Awaitable[object] | object]
"""A plain or async function, called with a message before it is given up. If it raises, the message is
requeued."""


class GivingUp:
    """Calls the user's ``on_give_up``, publishes the dead letter, and finishes the message.

    :param on_give_up: the user's function or None; if it answers the message itself, there is no dead letter
    :param wrapping: the middleware around ``on_give_up``; None if there is none
    :param dead_letters: publishes dead letters; None if there are none
    """

    def __init__(
        self,
        on_give_up: GiveUp | None,
        emit: Emitter,
        wrapping: Wrapping | None,
        dead_letters: DeadLetters | None,
    ) -> None:
        self._on_give_up = on_give_up
        self._emit = emit
        self._dead_letters = dead_letters
        self._call = self._tell if wrapping is None else wrapping.handler(self._tell, gives_up=True)

    async def give_up(self, message: Message) -> None:
        """Finish the message; requeue it if ``on_give_up``, a middleware or the dead letter fails."""
        try:
            await self._call(message)
        except BaseException as error:
            failed = isinstance(error, Exception) or is_stray(error)
            if failed:
                message.delivery.delegate.failed(message)
                self._emit(HandlerFailed(error=error, **about(message)))
            message.answer_for(error)  # requeue the message rather than lose it
            if not failed:
                raise
            return
        letters = self._dead_letters
        if letters is None or message.responded or await letters.bury(message, GAVE_UP):
            message.give_up()

    async def _tell(self, message: Message) -> None:
        if self._on_give_up is not None:
            result = self._on_give_up(message)
            if inspect.isawaitable(result):
                await result
