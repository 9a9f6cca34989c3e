"""How many messages nsqd may have unanswered on a connection whose RDY count was lowered.

nsqd does not say when it has handled a RDY. Until then it goes by the old count, and what it pushed by that
comes later still. Two things bound it:

- nsqd executes commands in order, so under the old count it knew of no answers but those sent before the RDY.
  It has pushed no more messages, in all, than those answers and the old count together. So each answer sent
  since then takes one off: when as many are sent as the count was lowered by, only the new count is left.
- What nsqd pushed before it saw the RDY arrives within a round trip. When nothing arrives for longer than
  that, nothing is on its way.
"""

from __future__ import annotations

import math

__all__ = ["Outstanding"]

_SLACK = 0.05
"""Seconds beyond two round trips in which nothing may arrive: for an nsqd that is busy."""

_LONGEST_QUIET = 2.0
"""Bound in seconds: the measured round trip holds what nsqd did meanwhile, such as asking its nsqlookupds."""


class Outstanding:
    """What is outstanding beyond the RDY count that was sent last, on one connection."""

    __slots__ = ("_lowered_at", "_most", "_quiet")

    def __init__(self) -> None:
        self._most = 0  # messages that may have come in all, counted from the beginning of the connection
        self._lowered_at = -math.inf
        self._quiet = _LONGEST_QUIET

    def note_round_trip(self, round_trip: float) -> None:
        """Note how long nsqd took to answer a command."""
        self._quiet = min(2 * round_trip + _SLACK, _LONGEST_QUIET)

    def note_lowered(self, rdy: int, answered: int, now: float) -> None:
        """Note that a RDY count below ``rdy``, the one in force, was sent after ``answered`` answers."""
        self._most = max(self._most, answered + rdy)
        self._lowered_at = now

    def needed_slots(self, answered: int) -> int:
        """For how many messages there must be room, whatever RDY is now; 0 or less for none."""
        return self._most - answered if self._most else 0

    def settles_at(self, answered: int, last_arrival: float) -> float | None:
        """When it is quiet for long enough, unless more arrives; None while nothing is outstanding.

        :param last_arrival: when anything came on this connection
        """
        if self.needed_slots(answered) <= 0:
            return None
        return max(self._lowered_at, last_arrival) + self._quiet

    def settle(self, answered: int, last_arrival: float, now: float) -> bool:
        """Whether something was outstanding until now, and is not any more."""
        at = self.settles_at(answered, last_arrival)
        if at is None or now < at:
            return False
        self._most = 0
        return True
