"""The single task of an nsqd that distributes messages and fires timers."""

from __future__ import annotations

import math
from typing import Protocol

import anyio

from .timers import Timer, Timers


class Dispatchable(Protocol):
    """A channel, as the scheduler sees it."""

    def dispatch(self, now: float) -> None:
        """Send messages until none is left, or no client is ready."""
        ...


class Scheduler:
    """Dispatches each channel at most once in an iteration of the event loop, however often it was woken.

    So a chunk of a thousand FINs, or a publish of a thousand messages, costs one dispatch.
    """

    def __init__(self) -> None:
        self._timers = Timers()
        self._woken: dict[Dispatchable, None] = {}
        self._event = anyio.Event()
        self._sleeping_until = -math.inf

    def wake(self, channel: Dispatchable) -> None:
        """Dispatch ``channel`` in the next iteration."""
        if not self._woken:
            self._event.set()
        self._woken[channel] = None

    def set_timer(self, timer: Timer, deadline: float) -> None:
        """Let ``timer`` fire at ``deadline``, on the clock of `anyio.current_time`."""
        self._timers.set(timer, deadline)
        if deadline < self._sleeping_until:
            self._event.set()

    def cancel_timer(self, timer: Timer) -> None:
        """Stop ``timer`` from firing."""
        self._timers.cancel(timer)

    @property
    def next_deadline(self) -> float:
        """When the next timer is due; infinity if there is none."""
        return self._timers.next_deadline

    def turn(self, now: float) -> None:
        """Fire the timers that are due, and dispatch the channels that were woken."""
        self._timers.fire_due(now)
        woken, self._woken = self._woken, {}
        for channel in woken:
            channel.dispatch(now)

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            self.turn(anyio.current_time())
            self._event = anyio.Event()
            self._sleeping_until = self.next_deadline
            if self._woken:
                self._event.set()
            with anyio.CancelScope(deadline=self._sleeping_until):
                await self._event.wait()
            self._sleeping_until = -math.inf
