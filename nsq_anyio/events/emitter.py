"""Hands records to the log and to the user."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from .consuming import HandlerFailed
from .record import Event

__all__ = ["Emitter", "EventHook"]

EventHook = Callable[[Event], None]
"""A plain function that takes one event. What it raises is logged and suppressed."""


class Emitter:
    """Logs events and hands them to the user's hook."""

    def __init__(self, logger: str, hook: EventHook | None) -> None:
        self._logger = logging.getLogger(logger)
        self._hook = hook

    def __call__(self, event: Event) -> None:
        self._logger.log(
            event.level, "%s", event, exc_info=event.error if isinstance(event, HandlerFailed) else None
        )
        self.to_hook(event)

    @property
    def has_hook(self) -> bool:
        """Whether there is a hook. Without one, the events of single messages need not be made."""
        return self._hook is not None

    def to_hook(self, event: Event) -> None:
        """Hand an event to the hook, without logging it."""
        if self._hook is None:
            return
        try:
            self._hook(event)
        except (Exception, asyncio.CancelledError):  # the latter from result() of a cancelled task
            self._logger.exception("the on_event hook raised on %r", event)
