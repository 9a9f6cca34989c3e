"""The values of metrics at one moment; they can be added up and exposed."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family

from ...errors import InvalidOption
from .metrics import METRICS, Metric


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
        """Add the counts of another histogram with the same bounds."""
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


_Series = tuple[Metric, tuple[str, ...]]


class Samples:
    """Values by metric and labels."""

    def __init__(self) -> None:
        self._values: dict[_Series, float] = {}
        self._histograms: dict[_Series, Histogram] = {}

    def add(self, metric: Metric, value: float, *labels: str) -> None:
        """Add to a counter or gauge; a gauge that shows the highest value keeps the higher one."""
        series = metric, labels
        if metric.highest:
            self._values[series] = max(value, self._values.get(series, value))
        else:
            self._values[series] = self._values.get(series, 0) + value

    def add_histogram(self, metric: Metric, histogram: Histogram, *labels: str) -> None:
        """Add the counts of a histogram."""
        series = metric, labels
        if (found := self._histograms.get(series)) is None:
            self._histograms[series] = histogram.copy()
        else:
            found.add(histogram)

    def merge(self, other: Samples) -> None:
        """Add the values of ``other``."""
        for (metric, labels), value in other._values.items():
            self.add(metric, value, *labels)
        for (metric, labels), histogram in other._histograms.items():
            self.add_histogram(metric, histogram, *labels)

    def without_gauges(self) -> Samples:
        """Return the values that outlive consumers and producers: counters and histograms."""
        kept = Samples()
        for (metric, labels), value in self._values.items():
            if metric.kind == "counter":
                kept.add(metric, value, *labels)
        kept._histograms = dict(self._histograms)
        return kept

    def families(self) -> list[Family]:
        """Return all metrics as prometheus_client exposes them."""
        found = {metric: empty_family(metric) for metric in METRICS}
        for (metric, labels), value in self._values.items():
            family = found[metric]
            assert isinstance(family, CounterMetricFamily | GaugeMetricFamily)  # noqa: S101
            family.add_metric(labels, value)
        for (metric, labels), histogram in self._histograms.items():
            family = found[metric]
            assert isinstance(family, HistogramMetricFamily)  # noqa: S101
            buckets = [(_bound(bound), count) for bound, count in histogram.cumulative()]
            family.add_metric(labels, buckets, histogram.sum)
        return list(found.values())


def families() -> Iterator[Family]:
    """Yield all metrics, without values."""
    return map(empty_family, METRICS)


def _bound(value: float) -> str:
    return "+Inf" if math.isinf(value) else str(float(value))


def empty_family(metric: Metric) -> Family:
    """Return a metric without values, as prometheus_client exposes it."""
    match metric.kind:
        case "counter":
            return CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
        case "gauge":
            return GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
        case "histogram":
            return HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        case "summary":
            # prometheus_client's own family insists on a sum and a count, which nsqd does not measure.
            return Family(metric.name, metric.help, "summary")
