"""The recent trend of a topic or channel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .history import Series
from .snapshot import Key

LEAST_SECONDS = 45.0
"""A shorter time shows no trend: consumers fetch messages in bursts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """The recent trend of a topic or channel.

    :ivar seconds: its length in seconds
    :ivar depths: the mean depth in each step of the history that has one, the latest last
    :ivar ingress: mean messages received per second; this and the following rates are NaN if unknown
    :ivar egress: messages per second that were finished
    :ivar requeued: messages per second that were requeued
    :ivar timed_out: messages per second that timed out
    """

    seconds: float
    depths: Sequence[float]
    ingress: float = math.nan
    egress: float = math.nan
    requeued: float = math.nan
    timed_out: float = math.nan

    @property
    def growth(self) -> float:
        """By how many messages the depth grew; 0 if it did not grow steadily."""
        third = len(self.depths) // 3
        if not third or self.seconds < LEAST_SECONDS:
            return 0.0
        first, last = _mean(self.depths[:third]), _mean(self.depths[-third:])
        middle = _mean(self.depths[third:-third])
        return self.depths[-1] - self.depths[0] if first < middle < last else 0.0


TrendOf: TypeAlias = Callable[[Key, float], Trend | None]
"""Returns the trend of a channel over the last seconds, at most an hour; None where it is not known."""


def trend(series: Series, now: float) -> Trend | None:
    """Return the trend of a series up to ``now``, in Unix seconds; None if it is empty."""
    times, values = series.times, series.values
    depths, since = values["depth"], times[0] if times else now
    if math.isnan(sum(depths)):
        known = [(time, depth) for time, depth in zip(times, depths, strict=True) if not math.isnan(depth)]
        since, depths = known[0][0] if known else now, [depth for _, depth in known]
    if not depths:
        return None
    rates = {name: _mean(values[name]) for name in ("ingress", "egress", "requeued", "timed_out")}
    return Trend(seconds=now - since, depths=depths, **rates)


def _mean(values: Sequence[float]) -> float:
    if values and not math.isnan(total := sum(values)):
        return total / len(values)
    known = [each for each in values if not math.isnan(each)]
    return sum(known) / len(known) if known else math.nan
