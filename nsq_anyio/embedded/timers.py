"""Many deadlines, few of which are ever reached."""

from __future__ import annotations

import heapq
import math
from abc import ABC, abstractmethod
from collections.abc import Callable

_COMPACT_FROM = 1024


class Timer(ABC):
    """Something with a deadline: a message in flight or deferred, a heartbeat."""

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
