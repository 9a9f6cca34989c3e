"""The values of metrics at one moment; they can be added up and exposed."""

from __future__ import annotations

import math
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family

from .histogram import Histogram
from .metrics import METRICS, Metric

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
        """Return what stays after the end of consumers and producers: counters and histograms."""
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
