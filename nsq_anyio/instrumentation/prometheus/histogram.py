"""A histogram that is cheap to write to, for one event loop."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from ...errors import InvalidOption


class Histogram:
    """Counts values in buckets. It takes no lock, so only one thread may write at a time.

    :param bounds: the highest value of each bucket, ascending; the last bucket has no bound
    """

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    @property
    def sum(self) -> float:
        """The sum of all values."""
        return self._sum

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def observe_many(self, value: float, count: int) -> None:
        """Count a value several times."""
        self._counts[bisect_left(self._bounds, value)] += count
        self._sum += value * count

    def observe_all(self, values: Sequence[float]) -> None:
        """Count several values; with many at once, each costs little."""
        ordered = sorted(values)
        below = 0
        for bucket, bound in enumerate(self._bounds):
            up_to = bisect_right(ordered, bound, below)
            self._counts[bucket] += up_to - below
            below = up_to
        self._counts[-1] += len(ordered) - below
        self._sum += sum(ordered)

    def add(self, other: Histogram) -> None:
        """Add what another histogram with the same bounds has counted."""
        self._counts = [own + more for own, more in zip(self._counts, other._counts, strict=True)]
        self._sum += other._sum

    def copy(self) -> Histogram:
        """Return a histogram with the same counts."""
        copied = Histogram(self._bounds)
        copied.add(self)
        return copied

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """Yield the bound of each bucket, the last one infinite, with the number of values up to it."""
        total = 0
        for bound, count in zip((*self._bounds, math.inf), self._counts, strict=True):
            total += count
            yield bound, total


def check_buckets(buckets: Sequence[float]) -> tuple[float, ...]:
    """Return the bounds of buckets for durations.

    :raises InvalidOption: if they are not ascending seconds, more than 0
    """
    bounds = tuple(map(float, buckets))
    ascending = all(low < high for low, high in zip((0.0, *bounds), (*bounds, math.inf), strict=True))
    if not bounds or not ascending:
        raise InvalidOption(f"duration_buckets={buckets!r} is not valid: use ascending seconds, more than 0")
    return bounds
