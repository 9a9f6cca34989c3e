"""How often a cluster is polled, so that polling takes little of the processor."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

_MOST_STRETCHED = 60.0
_REMEMBERED = 3


class Pace:
    """Stretches an interval to what the polls cost.

    A poll's cost is the CPU time of the process from its beginning to its end, and what `charge` adds for the
    work on its result. Other work of the process during the poll counts, too, so the cheapest of the last
    three polls is what counts; and not the first poll, which reads everything.

    :param interval: the seconds that were asked for
    :param most_cpu: the share of a core that polls may take, more than 0; the interval is stretched to keep
        it, up to a minute, or up to ``interval`` if that is longer. None stretches nothing
    :param clock: returns the CPU seconds of the process so far
    """

    def __init__(
        self, interval: float, most_cpu: float | None, clock: Callable[[], float] = time.process_time
    ) -> None:
        self._asked = interval
        self._most_cpu = most_cpu
        self._clock = clock
        self._began = 0.0
        self._charged = 0.0
        self._polls = 0
        self._costs: deque[float] = deque(maxlen=_REMEMBERED)

    def begin(self) -> None:
        """Note that a poll begins."""
        self._began = self._clock() - self._charged
        self._charged = 0.0

    def charge(self, seconds: float) -> None:
        """Add the CPU seconds of work on the result of the last poll to the cost of the next one."""
        self._charged += seconds

    def end(self) -> float:
        """Note that a poll ends, and return the seconds from its beginning to that of the next one."""
        self._polls += 1
        self._charged = 0.0  # the process's CPU time has it already
        if self._polls > 1:
            self._costs.append(self._clock() - self._began)
        if self._most_cpu is None or not self._costs:
            return self._asked
        needed = min(self._costs) / self._most_cpu
        return max(self._asked, min(needed, _MOST_STRETCHED))
