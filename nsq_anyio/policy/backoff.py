"""Backoff: a consumer slows down while its handlers fail (building client libraries, "Backoff").

::

    RUNNING ──failure──> WAITING ──time is over──> PROBING ──one result──> WAITING or RUNNING

While WAITING, every connection has RDY 0, and results do not count. While PROBING, one connection has RDY 1,
and the first result decides. A failure raises the level, and the next wait is longer. A success lowers the
level, and the next wait is shorter; at level 0 the consumer runs again. After a neutral result the next wait
is as long as the last one. The wait is needed: a consumer that stayed PROBING might get no further message.

A message that is given up unhandled gives no result. RDY stays 1, and nsqd pushes the next message.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

from ..errors import InvalidOption

if TYPE_CHECKING:
    import random

Strategy = Callable[[int], float]
"""A function from the backoff level, 1 or more, to the seconds to wait."""


class BackoffState(Enum):
    """The state of backoff, which decides how much a consumer may receive."""

    RUNNING = "running"
    WAITING = "waiting"
    PROBING = "probing"


class Result(Enum):
    """The result of processing a message."""

    SUCCESS = "success"
    FAILURE = "failure"
    NEUTRAL = "neutral"


def exponential(multiplier: float) -> Strategy:
    """Wait ``multiplier`` times 2, 4, 8, ... seconds."""
    # 2**64 seconds exceed any maximum, and at some level a float would overflow.
    return lambda level: multiplier * 2.0 ** min(level, 64)


def full_jitter(multiplier: float, rng: random.Random) -> Strategy:
    """Wait a random part of the time that `exponential` waits, so that consumers do not resume together."""
    bound = exponential(multiplier)
    return lambda level: rng.uniform(0, bound(level))


class Backoff:
    """The backoff of one consumer, a state machine.

    :param strategy: seconds to wait at each level
    :param maximum: the longest wait in seconds; 0 switches backoff off
    :ivar level: the backoff level, 0 while RUNNING
    :ivar until: while WAITING, the time at which the wait is over
    """

    def __init__(self, strategy: Strategy, maximum: float) -> None:
        self._strategy = strategy
        self._maximum = maximum
        self.state: BackoffState = BackoffState.RUNNING
        self.level: int = 0
        self.until: float = 0.0
        self._at_maximum = False

    def result(self, result: Result, now: float) -> bool:
        """Take one result into account, and return whether the state has changed.

        :raises InvalidOption: if the strategy raises, or does not return seconds
        """
        if self.state is BackoffState.WAITING:
            return False
        if self.state is BackoffState.RUNNING and (result is not Result.FAILURE or not self._maximum):
            return False
        if result is Result.FAILURE:
            # Once the wait is at its maximum, a higher level would not lengthen it. It would only require one
            # more success on the way down.
            if not self._at_maximum:
                self.level += 1
        elif result is Result.SUCCESS:
            self.level -= 1
        if self.level == 0:
            self.state = BackoffState.RUNNING
            self._at_maximum = False
            return True
        self.state = BackoffState.WAITING
        self.until = now + self._wait()
        return True

    def end_wait(self, now: float) -> bool:
        """End the wait if it is over by ``now``; return whether it has ended, so that a probe may begin."""
        if self.state is not BackoffState.WAITING or now < self.until:
            return False
        self.state = BackoffState.PROBING
        return True

    def bound(self, budget: int) -> int:
        """Return the part of the budget that may be used in this state."""
        match self.state:
            case BackoffState.RUNNING:
                return budget
            case BackoffState.WAITING:
                return 0
            case BackoffState.PROBING:
                return min(budget, 1)

    def _wait(self) -> float:
        try:
            wanted = self._strategy(self.level)
        except Exception as error:
            raise InvalidOption(
                f"backoff_strategy raised {error!r} at level {self.level}: return seconds, 0 or more"
            ) from error
        if not (isinstance(wanted, int | float) and wanted >= 0):
            raise InvalidOption(
                f"backoff_strategy returned {wanted!r} at level {self.level}: return seconds, 0 or more"
            )
        self._at_maximum = wanted >= self._maximum
        return min(wanted, self._maximum)
