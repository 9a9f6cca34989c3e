"""The scheduler of an nsqd: the single task that distributes messages and fires timers."""

from __future__ import annotations

import heapq
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

import anyio

_COMPACT_FROM = 1024


class Timer(ABC):
    """The base of objects with a deadline: messages in flight or deferred, and heartbeats."""

    __slots__ = ("timer_entry",)

    def __init__(self) -> None:
        self.timer_entry: int = 0
        """For `Timers` only: the number of its valid heap entry; 0 if it has none."""

    @abstractmethod
    def fire(self, now: float, /) -> None:
        """Called when the deadline is reached."""


class CallbackTimer(Timer):
    """Calls ``callback(now)``."""

    __slots__ = ("_callback",)

    def __init__(self, callback: Callable[[float], None]) -> None:
        super().__init__()
        self._callback = callback

    def fire(self, now: float, /) -> None:
        self._callback(now)


class Timers:
    """A heap of timers.

    A cancelled timer leaves its entry in the heap, so cancelling is cheap enough for each FIN. When stale
    entries outnumber the others they are removed, so the heap stays in proportion to the running timers.
    """

    __slots__ = ("_entries", "_last", "_stale")

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, Timer]] = []
        self._last = 0
        self._stale = 0

    def __len__(self) -> int:
        return len(self._entries) - self._stale

    @property
    def next_deadline(self) -> float:
        """When the next timer is due; infinity if there is none."""
        entries = self._entries
        while entries and entries[0][1] != entries[0][2].timer_entry:
            heapq.heappop(entries)
            self._stale -= 1
        return entries[0][0] if entries else math.inf

    def set(self, timer: Timer, deadline: float) -> None:
        """Let ``timer`` fire at ``deadline``; an earlier setting is dropped."""
        self.cancel(timer)
        self._last += 1
        timer.timer_entry = self._last
        heapq.heappush(self._entries, (deadline, self._last, timer))

    def cancel(self, timer: Timer) -> None:
        """Stop ``timer`` from firing."""
        if not timer.timer_entry:
            return
        timer.timer_entry = 0
        self._stale += 1
        if self._stale > _COMPACT_FROM and self._stale * 2 > len(self._entries):
            self._entries = [entry for entry in self._entries if entry[1] == entry[2].timer_entry]
            heapq.heapify(self._entries)
            self._stale = 0

    def fire_due(self, now: float) -> None:
        """Fire the timers whose deadlines are reached; each may set or cancel others."""
        while self.next_deadline <= now:
            timer = heapq.heappop(self._entries)[2]
            timer.timer_entry = 0
            timer.fire(now)


class Dispatchable(Protocol):
    """A channel or topic, as the scheduler sees it."""

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
        self._timers.cancel(timer)

    @property
    def next_deadline(self) -> float:
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
