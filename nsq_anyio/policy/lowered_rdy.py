"""A bound on the messages that nsqd may have unanswered on a connection whose RDY count was lowered.

nsqd does not say when it has handled a RDY. Until it has, it goes by the old count, and messages that it
pushes meanwhile arrive even later. No other command shows it: another goroutine sends heartbeats, a FIN has
no answer, and a TOUCH that fails on purpose would be an error in nsqd's log each time. Two things bound the
number of these messages:

- nsqd executes commands in order. Until it handles the RDY, it has seen only the answers that were sent
  before it. So in all it has pushed at most as many messages as those answers and the old count together.
  Each answer sent after the RDY frees one of these slots, until only the new count is left.
- Messages that nsqd pushed before it handled the RDY arrive within a round trip. When nothing has arrived for
  longer than that, none is on its way.
"""

from __future__ import annotations

import math

_SLACK = 0.05
"""Seconds to wait beyond two round trips without an arrival, as nsqd may be busy."""

_LONGEST_QUIET = 2.0
"""The most seconds to wait: a round trip may include other work of nsqd, such as asking nsqlookupds."""


class LoweredRdy:
    """Counts the messages that may be outstanding on one connection beyond the RDY count sent last."""

    __slots__ = ("_lowered_at", "_most", "_quiet")

    def __init__(self) -> None:
        self._most = 0  # messages that nsqd may have pushed since the connection began
        self._lowered_at = -math.inf
        self._quiet = _LONGEST_QUIET

    def note_round_trip(self, round_trip: float) -> None:
        """Note how long nsqd took to answer a command."""
        self._quiet = min(2 * round_trip + _SLACK, _LONGEST_QUIET)

    def note_lowered(self, rdy: int, answered: int, now: float) -> None:
        """Note that the RDY count was lowered from ``rdy``, after ``answered`` answers were sent."""
        self._most = max(self._most, answered + rdy)
        self._lowered_at = now

    def needed_slots(self, answered: int) -> int:
        """Return the slots that former RDY counts still need; 0 or less for none."""
        return self._most - answered if self._most else 0

    def settles_at(self, answered: int, last_arrival: float) -> float | None:
        """Return when nothing can be outstanding any more if no bytes arrive; None if nothing is outstanding.

        :param last_arrival: when any bytes last arrived on this connection
        """
        if self.needed_slots(answered) <= 0:
            return None
        return max(self._lowered_at, last_arrival) + self._quiet

    def settle(self, answered: int, last_arrival: float, now: float) -> bool:
        """Forget the former RDY counts once they have no effect; return whether they were just forgotten."""
        at = self.settles_at(answered, last_arrival)
        if at is None or now < at:
            return False
        self._most = 0
        return True
