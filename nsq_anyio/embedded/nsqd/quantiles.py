"""Estimates of a few quantiles of a stream of values, in little memory.

The algorithm is that of targeted quantiles, by Cormode, Korn, Muthukrishnan and Srivastava: "Effective
Computation of Biased Quantiles over Data Streams" (2005). nsqd uses it with the same parameters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

_ERROR = 0.01
_FRESH_LIMIT = 500

Entry: TypeAlias = tuple[int, int, int]
"""Several values: the largest of them; their number, called the width; and the spread.

The rank of the largest is at least the sum of the widths up to its own, and exceeds it by the spread at most.
"""


class TargetedQuantiles:
    """A summary of whole numbers, precise at the given quantiles.

    For quantiles from 0.01 on, the rank of a result differs from the exact one by at most 3 % of the number
    of values, plus four. For fewer than 500 values, the results are the same as nsqd's.

    :param quantiles: more than 0, at most 1
    """

    __slots__ = ("_entries", "_fresh", "_quantiles", "_weight")

    def __init__(self, quantiles: Sequence[float]) -> None:
        self._quantiles = quantiles
        self._entries: list[Entry] = []
        self._fresh: list[int] = []  # values without an entry so far
        self._weight = 0  # the number of values in entries

    @property
    def count(self) -> int:
        """The number of values."""
        return self._weight + len(self._fresh)

    def insert(self, value: int) -> None:
        """Add a value."""
        self._fresh.append(value)
        if len(self._fresh) == _FRESH_LIMIT:
            self._take_fresh()
            self._compress()

    def merge(self, entries: Sequence[Entry]) -> None:
        """Add the values of another summary.

        :param entries: from `entries`
        """
        self._entries = _merged(self._entries, entries)
        self._weight += sum(width for _, width, _ in entries)

    def entries(self) -> list[Entry]:
        """Return the entries to merge into another summary, in ascending order."""
        if not self._entries:
            return _exact(self._fresh)
        self._take_fresh()
        if len(self._entries) > 2:
            self._compress()
        return self._entries

    def query(self, quantile: float) -> int:
        """Return the value at one of the quantiles; 0 if there is no value."""
        self._take_fresh()
        if not self._entries:
            return 0
        wanted = math.ceil(quantile * self._weight)
        wanted += math.ceil(self._tolerance(wanted) / 2)
        # As in nsqd, the width of the entry found so far does not count, so results tend to be too high.
        rank = 0
        found, found_width, _ = self._entries[0]
        for value, width, spread in self._entries[1:]:
            if rank + width + spread > wanted:
                break
            rank += found_width
            found, found_width = value, width
        return found

    def clear(self) -> None:
        """Forget all values."""
        self._entries = []
        self._fresh = []
        self._weight = 0

    def _take_fresh(self) -> None:
        fresh, self._fresh = self._fresh, []
        self.merge(_exact(fresh))

    def _tolerance(self, rank: int) -> float:
        """Return how wide an entry may be at ``rank``, together with its spread."""
        weight = self._weight
        tolerance = math.inf
        for quantile in self._quantiles:
            if quantile * weight <= rank:
                own = 2 * _ERROR * rank / quantile
            elif quantile < 1:
                own = 2 * _ERROR * (weight - rank) / (1 - quantile)
            else:  # the largest value keeps its entry in any case
                continue
            tolerance = min(tolerance, own)
        return tolerance

    def _compress(self) -> None:
        """Join neighbours as long as the tolerance allows it.

        The largest and the smallest value remain, so that the ranks of later values below the smallest are
        exact.
        """
        smallest, *others, (value, width, spread) = self._entries
        rank = self._weight - 1 - width
        kept: list[Entry] = []
        for entry in reversed(others):
            joined = width + entry[1]
            if joined + spread <= self._tolerance(rank):
                width = joined
            else:
                kept.append((value, width, spread))
                value, width, spread = entry
            rank -= entry[1]
        kept += [(value, width, spread), smallest]
        kept.reverse()
        self._entries = kept


def _exact(values: Sequence[int]) -> list[Entry]:
    return [(value, 1, 0) for value in sorted(values)]


def _merged(ours: Sequence[Entry], theirs: Sequence[Entry]) -> list[Entry]:
    """Merge two summaries in ascending order.

    It is unknown how many values in the next entry of the other summary are smaller; their possible number is
    added to the spread of an entry. nsqd adds the tolerance instead, which may exceed the number of values.
    So its percentiles of two halves of a window, or of several channels, can be far off.
    """
    merged: list[Entry] = []
    i = j = 0
    while i < len(ours) and j < len(theirs):
        value, width, spread = ours[i]
        other, other_width, other_spread = theirs[j]
        if value <= other:
            merged.append((value, width, spread + other_width + other_spread - 1))
            i += 1
        else:
            merged.append((other, other_width, other_spread + width + spread - 1))
            j += 1
    return [*merged, *ours[i:], *theirs[j:]]
