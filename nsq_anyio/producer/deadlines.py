"""The ends of all publishes' time, watched by one task: a timer for each would cost more than all else."""

from __future__ import annotations

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
        self._some: anyio.Event | None = None

    def add(self, publication: Publication) -> None:
        """Watch one. Its deadline must not be the first of all, unless there was none."""
        self.live[publication] = None
        if self._some is not None:
            self._some.set()
            self._some = None

    async def watch(self) -> None:
        """Watch until cancelled."""
        while True:
            if not self.live:
                self._some = anyio.Event()
                await self._some.wait()
                continue
            now = anyio.current_time()
            for publication in [each for each in self.live if each.deadline <= now]:
                self._expired(publication, now)
            # Those that come meanwhile are due later than any that is here: all have the same timeout.
            first = min((each.deadline for each in self.live), default=now)
            await anyio.sleep(max(first - now, _RESOLUTION))
