"""Expire publications at their deadlines.

One task watches all of them: a timer for each would cost more than its publish.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import anyio

from .publication import Publication

_RESOLUTION = 0.01
"""Seconds by which a deadline may be handled late, so that close deadlines are handled together."""


class Deadlines:
    """Watches publications.

    :param pending: those without an outcome; whoever adds one calls `check_earlier` if its deadline
        comes before `next_check`
    :param expire: called with each publication whose deadline has passed, and with the time
    :ivar next_check: the deadline at which the publications are checked next
    """

    def __init__(self, pending: Iterable[Publication], expire: Callable[[Publication, float], None]) -> None:
        self.next_check: float = math.inf
        self._pending = pending
        self._expire = expire
        self._earlier = anyio.Event()

    def check_earlier(self, deadline: float) -> None:
        """Check at ``deadline``, which comes before `next_check`. Rare: nearly all have the same timeout."""
        self.next_check = deadline
        self._earlier.set()

    async def run(self) -> None:
        """Watch, until cancelled."""
        while True:
            self._earlier = anyio.Event()
            now = anyio.current_time()
            for publication in [each for each in self._pending if each.deadline <= now]:
                self._expire(publication, now)
            self.next_check = min((each.deadline for each in self._pending), default=math.inf)
            with anyio.move_on_after(max(self.next_check - now, _RESOLUTION)):
                await self._earlier.wait()
