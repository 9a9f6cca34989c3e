"""The ends of all publishes' time, watched by one task: a timer for each would cost more than all else."""

from __future__ import annotations

import math
from collections.abc import Callable

import anyio

from .publication import Publication

__all__ = ["Deadlines"]

_RESOLUTION = 0.01
"""Seconds by which a deadline may be noticed late, so that those close to each other are looked at once."""


class Deadlines:
    """The publications under way.

    :param expired: called with each whose deadline has passed, and the time; it may set a later one
    :ivar live: them, as keys; publications may be taken out freely
    """

    def __init__(self, expired: Callable[[Publication, float], None]) -> None:
        self.live: dict[Publication, None] = {}
        self._expired = expired
        self._first = math.inf  # the deadline that `watch` waits for
        self._earlier = anyio.Event()

    def add(self, publication: Publication) -> None:
        """Watch one."""
        self.live[publication] = None
        if publication.deadline < self._first:  # rare: nearly all have the same timeout
            self._first = publication.deadline
            self._earlier.set()

    async def watch(self) -> None:
        """Watch until cancelled."""
        while True:
            self._earlier = anyio.Event()
            now = anyio.current_time()
            for publication in [each for each in self.live if each.deadline <= now]:
                self._expired(publication, now)
            self._first = min((each.deadline for each in self.live), default=math.inf)
            with anyio.move_on_after(max(self._first - now, _RESOLUTION)):
                await self._earlier.wait()
