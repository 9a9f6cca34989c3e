"""A ring of means over equal steps of time."""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Sequence
from typing import NamedTuple


class RingState(NamedTuple):
    """The stored state of a `Ring`.

    :ivar last: the number of the latest step
    :ivar counted: how many values the means of the latest step include
    :ivar values: the means of all steps, as 32-bit floats in little-endian order
    """

    last: int
    counted: int
    values: bytes


class Ring:
    """Keeps the means of several measures, as 32-bit floats, for the latest steps of time.

    The memory of a ring is allocated when it is created, and never grows. A measure that is not known is NaN.

    :param step: seconds, more than 0
    :param capacity: how many steps are kept, 1 or more
    :param width: how many measures there are
    :ivar last: the number of the latest step, counted from the epoch; -1 before the first
    """

    __slots__ = ("_count", "_values", "capacity", "last", "step", "width")

    def __init__(self, step: float, capacity: int, width: int) -> None:
        self.step: float = step
        self.capacity: int = capacity
        self.width: int = width
        self.last: int = -1
        self._count = 0
        self._values = array("f", [math.nan]) * (capacity * width)

    def add(self, time: float, values: Sequence[float]) -> tuple[float, Sequence[float]] | None:
        """Add measured values.

        A time before the latest step counts as a part of it. If it is so much earlier that the clock must
        have been set back, the ring starts over.

        :param time: in Unix seconds
        :return: the time and the means of the step that these values ended; None if they ended none
        """
        number = int(time // self.step)
        if number < self.last - self.capacity:
            self._clear(self.capacity)
            self.last = -1
        ended = None
        if number > self.last:
            if self.last >= 0:
                ended = self.last * self.step, self.at(self.last)
                self._clear(min(number - self.last, self.capacity), number)
            self.last = number
            self._count = 0
        self._count += 1
        begin = self.last % self.capacity * self.width
        for index, value in enumerate(values, begin):
            known = self._values[index]
            if math.isnan(known):
                self._values[index] = value
            elif not math.isnan(value):
                self._values[index] = known + (value - known) / self._count
        return ended

    def at(self, number: int) -> Sequence[float]:
        """Return the means of a step; all NaN if the ring does not have it."""
        if not self.last - self.capacity < number <= self.last or number < 0:
            return [math.nan] * self.width
        begin = number % self.capacity * self.width
        return self._values[begin : begin + self.width]

    def columns(self, first: int) -> list[Sequence[float]]:
        """Return the means of each measure, from step ``first`` to the latest one.

        :param first: one of the steps that the ring has
        """
        begin, end = first % self.capacity * self.width, (self.last % self.capacity + 1) * self.width
        values = self._values
        found = values[begin:end] if begin < end else values[begin:] + values[:end]
        return [found[index :: self.width] for index in range(self.width)]

    def state(self) -> RingState:
        """Return the whole content of the ring, to be stored."""
        return RingState(self.last, self._count, _little_endian(self._values).tobytes())

    def restore(self, state: RingState) -> bool:
        """Restore a state; return False, and change nothing, if its size differs."""
        values = array("f")
        if len(state.values) != len(self._values) * values.itemsize:
            return False
        values.frombytes(state.values)
        self.last, self._count, self._values = state.last, state.counted, _little_endian(values)
        return True

    def _clear(self, count: int, last: int = 0) -> None:
        """Forget ``count`` steps, the last of which is ``last``."""
        nothing = array("f", [math.nan]) * self.width
        for number in range(last, last - count, -1):
            begin = number % self.capacity * self.width
            self._values[begin : begin + self.width] = nothing


def _little_endian(values: array[float]) -> array[float]:
    """Convert values between this machine's byte order and that of stored states."""
    if sys.byteorder == "little":
        return values
    swapped = array("f", values)
    swapped.byteswap()
    return swapped
