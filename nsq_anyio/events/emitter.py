"""The emitter of events, to the log and to the user's hook."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TypedDict

from ..options.checks import check_hook
from .event import Event

EventHook = Callable[[Event], None]
"""A plain function of one event. An `Exception` that it raises is logged and suppressed; `SystemExit` and
`KeyboardInterrupt` end the block and are raised from it."""


class Source(TypedDict):
    """The fields of each event of a consumer."""

    topic: str
    channel: str


class ConnectionSource(TypedDict):
    """The fields of each event of a connection or lookup."""

    topic: str | None
    channel: str | None


class _Frequent:
    """The events of one class, of which at most one a second is logged."""

    def __init__(self) -> None:
        self.next_line_at = 0.0
        self.last: Event | None = None  # the last event that was not logged yet
        self.unlogged = 0


class Emitter:
    """Logs events and hands them to the user's hook.

    :param end: takes `SystemExit` and `KeyboardInterrupt` of the hook, and ends the block with them. Raised
        from a task of a connection, they would abort asyncio's event loop. None to raise them
    :ivar source: the consumer's topic and channel; empty in a producer
    :ivar connection_source: the same for events that producers emit too; its values are None in a producer
    """

    def __init__(
        self,
        logger: str,
        hook: EventHook | None,
        topic: str = "",
        channel: str = "",
        *,
        end: Callable[[BaseException], None] | None = None,
    ) -> None:
        self.source: Source = {"topic": topic, "channel": channel}
        self.connection_source: ConnectionSource = {"topic": topic or None, "channel": channel or None}
        self._logger = logging.getLogger(logger)
        check_hook("on_event", hook, "event")
        self._hook = hook
        self._end = end
        self._observer: EventHook | None = None
        self._frequent: dict[type[Event], _Frequent] = {}

    def __call__(self, event: Event) -> None:
        self.to_log(event)
        self.to_hook(event)

    def to_log(self, event: Event) -> None:
        """Log an event, without handing it to the hook. Any thread may do so."""
        self._logger.log(event.level, "%s", event, exc_info=event.logged_error)

    def seldom(self, event: Event) -> None:
        """Report a frequent event: at most one of its class a second is logged, with their number."""
        kind = self._frequent.setdefault(type(event), _Frequent())
        kind.last = event
        kind.unlogged += 1
        self.log_the_rest()
        self.to_hook(event)

    def log_the_rest(self, *, at_once: bool = False) -> None:
        """Log, a second after the last line, the last unlogged event of each class with the number of others.

        :param at_once: whether not to wait for that second
        """
        now = time.monotonic()
        for kind in self._frequent.values():
            if kind.last is not None and (at_once or now >= kind.next_line_at):
                more = f" (and {kind.unlogged - 1} more like it)" if kind.unlogged > 1 else ""
                self._logger.log(kind.last.level, "%s%s", kind.last, more)
                kind.last, kind.unlogged = None, 0
                kind.next_line_at = now + 1.0

    @property
    def has_hook(self) -> bool:
        """Whether there is a hook. Without one, the events of single messages need not be created."""
        return self._hook is not None

    def observe(self, observer: EventHook) -> None:
        """Also pass events to ``observer``, which counts them for metrics and must not raise.

        An observer does not make `has_hook` true, because it does not need the events that only a hook gets.
        """
        self._observer = observer

    def to_hook(self, event: Event) -> None:
        """Hand an event to the hook, without logging it."""
        if self._observer is not None:
            self._observer(event)
        if self._hook is None:
            return
        try:
            self._hook(event)
        except (SystemExit, KeyboardInterrupt) as error:
            if self._end is None:
                raise
            self._end(error)
        except (Exception, asyncio.CancelledError):  # the latter from result() of a cancelled task
            self._logger.exception("the on_event hook raised on %r", event)
