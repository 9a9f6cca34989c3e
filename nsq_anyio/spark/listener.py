"""Metrics of streaming queries that read NSQ, for Prometheus, from the driver.

::

    listener = NSQListener()  # in prometheus_client's default registry
    spark.streams.addListener(listener)

It needs prometheus-client: ``pip install 'nsq-anyio[prometheus]'``.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

try:
    from prometheus_client import REGISTRY, CollectorRegistry
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector
except ImportError as _missing:
    raise ImportError(
        f"nsq_anyio.spark.listener needs prometheus-client ({_missing}): pip install 'nsq-anyio[prometheus]'",
        name=_missing.name,
    ) from _missing

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from ..errors import NSQError
from .query_progress import KIND, QueryHistory
from .spool import Spool

__all__ = ["SPARK_METRICS", "NSQListener"]

_SOURCE = ("query", "topic", "channel")
_NSQD = (*_SOURCE, "nsqd")

SPARK_METRICS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "nsq_spark_depth": ("gauge", _NSQD, "Messages that wait in the channel."),
    "nsq_spark_lag": ("gauge", _SOURCE, "Messages that wait, are in flight or are deferred, on all nsqds."),
    "nsq_spark_published_per_second": ("gauge", _SOURCE, "Messages published to the topic, per second."),
    "nsq_spark_spool_bytes": ("gauge", _SOURCE, "Bytes of bodies in the spool that Spark has not committed."),
    "nsq_spark_paused": ("gauge", _NSQD, "1 where the channel or the topic is paused."),
    "nsq_spark_slowest_chunk_seconds": (
        "gauge",
        _SOURCE,
        "Time to store the last batch's slowest chunk.",
    ),
    "nsq_spark_last_progress_timestamp_seconds": (
        "gauge",
        ("query",),
        "When the query last reported progress.",
    ),
    "nsq_spark_batch_duration_seconds": ("gauge", ("query",), "Time that the last batch took."),
    "nsq_spark_batches": ("counter", ("query",), "Batches that had rows."),
    "nsq_spark_rows": ("counter", _SOURCE, "Rows that Spark has read."),
    "nsq_spark_bytes": ("counter", _SOURCE, "Bytes of bodies that were stored in the spool."),
    "nsq_spark_chunks": ("counter", _SOURCE, "Chunks that were stored in the spool."),
    "nsq_spark_chunk_store_seconds": ("counter", _SOURCE, "Time to store them, of all tasks together."),
    "nsq_spark_redelivered_rows": ("counter", _SOURCE, "Rows that nsqd had delivered before."),
    "nsq_spark_refused_rows": ("counter", _SOURCE, "Rows that were finished too late, and come again."),
    "nsq_spark_unreachable_partitions": ("counter", _NSQD, "Partitions that ended without their nsqd."),
    "nsq_spark_queries_failed": ("counter", ("query",), "Runs of the query that have ended with an error."),
}
"""The kind, the labels and the description of each metric; the names of counters get ``_total``."""

_LAST_BATCH = {
    "bytes": ("nsq_spark_bytes", 1.0),
    "chunks": ("nsq_spark_chunks", 1.0),
    "storeMs": ("nsq_spark_chunk_store_seconds", 1e-3),
    "redelivered": ("nsq_spark_redelivered_rows", 1.0),
    "refused": ("nsq_spark_refused_rows", 1.0),
}

_MOST_QUERIES = 1_000
"""Queries whose counts are kept; the oldest are forgotten first."""

Labels = tuple[str, ...]

_log = logging.getLogger("nsq_anyio.spark")


@dataclass(slots=True)
class _Query:
    """The values of one query, by metric and labels.

    :ivar seen: by source, the epoch of the last batch that was counted in this run
    :ivar unreachable: the unreachable partitions that this run has reported so far
    :ivar unreported: by source, the spoolDir and end offset of its last batch, until the source reports it
    """

    gauges: dict[str, dict[Labels, float]] = field(default_factory=lambda: defaultdict(dict))
    counters: dict[str, dict[Labels, float]] = field(default_factory=lambda: defaultdict(dict))
    seen: dict[Labels, int] = field(default_factory=dict[Labels, int])
    unreachable: dict[Labels, float] = field(default_factory=dict[Labels, float])
    unreported: dict[Labels, tuple[str, dict[str, Any]]] = field(
        default_factory=dict[Labels, tuple[str, dict[str, Any]]]
    )

    def count(self, metric: str, labels: Labels, more: float) -> None:
        self.counters[metric][labels] = self.counters[metric].get(labels, 0.0) + more

    def started(self) -> None:
        """Begin a new run, which counts its batches and unreachable nsqds from zero."""
        self.gauges.clear()
        self.seen.clear()
        self.unreachable.clear()
        self.unreported.clear()

    def count_unreported(self) -> None:
        """Count the last batches from their spools: a source reports a batch only when it plans another."""
        for labels, (spool_dir, end) in self.unreported.items():
            if not end["epoch"]:
                continue  # the first batch of a query, which Spark runs although nothing waits
            history = QueryHistory()
            history.begun(end["epoch"], end["plan"])
            try:
                history.count_batch(Spool.at(spool_dir, end["spool"]), end["epoch"])
            except NSQError as error:
                _log.warning("cannot count batch %d of %s/%s: %s", end["epoch"], *labels[1:], error)
                continue
            _record_batch(self, labels, history.last_batch)
            earlier = {nsqd: self.unreachable.get((*labels, nsqd), 0) for nsqd in history.unreachable}
            _record_unreachable(self, labels, history.unreachable + Counter(earlier))
        self.unreported.clear()


class NSQListener(StreamingQueryListener, Collector):
    """Listens to all streaming queries of a session, and exports the metrics of those that read NSQ.

    The label ``query`` is the name of the query (`queryName`), or its id if it has none. Gauges of a query
    disappear when it ends; its counts stay.

    :param registry: where the metrics are registered
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._lock = threading.Lock()
        self._queries: dict[str, _Query] = {}
        self._names: dict[str, str] = {}
        registry.register(self)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name, as are the next
        """Remember the query's name."""
        with self._lock:
            self._names[str(event.id)] = event.name or str(event.id)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Record the numbers of a batch."""
        progress = event.progress
        sources = [(source, _progress_of(source.latestOffset)) for source in progress.sources]
        if not any(shown for _, shown in sources):
            return
        name = progress.name or str(progress.id)
        with self._lock:
            self._names[str(progress.id)] = name
            query = self._query(name)
            query.gauges["nsq_spark_last_progress_timestamp_seconds"][name,] = time.time()
            if progress.numInputRows:
                duration = progress.durationMs.get("triggerExecution", progress.batchDuration)
                query.gauges["nsq_spark_batch_duration_seconds"][name,] = duration / 1e3
                query.count("nsq_spark_batches", (name,), 1)
            for source, shown in sources:
                if shown:
                    labels = (name, str(shown["topic"]), str(shown["channel"]))
                    query.count("nsq_spark_rows", labels, source.numInputRows)
                    _record(query, labels, shown)
                    if source.endOffset != source.startOffset:
                        query.unreported[labels] = shown["spoolDir"], json.loads(source.endOffset)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Record that the query is idle, which its source reports only with the next batch."""
        with self._lock:
            name = self._names.get(str(event.id), str(event.id))
            query = self._queries.get(name)
            if query is None:
                return
            query.gauges["nsq_spark_last_progress_timestamp_seconds"][name,] = time.time()
            for metric in ("nsq_spark_depth", "nsq_spark_lag"):
                query.gauges[metric] = dict.fromkeys(query.gauges[metric], 0)
            query.gauges["nsq_spark_published_per_second"].clear()
            query.count_unreported()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Forget the gauges of a query that has ended, and count an error."""
        with self._lock:
            name = self._names.pop(str(event.id), str(event.id))
            query = self._queries.get(name)
            if query is None:
                return
            query.count_unreported()
            query.started()
            if event.exception is not None:
                query.count("nsq_spark_queries_failed", (name,), 1)

    def collect(self) -> Iterator[Metric]:
        """Return the metrics, for prometheus_client."""
        with self._lock:
            queries = list(self._queries.values())
            values = {
                name: [
                    (labels, value)
                    for query in queries
                    for labels, value in (query.gauges if kind == "gauge" else query.counters)
                    .get(name, {})
                    .items()
                ]
                for name, (kind, _, _) in SPARK_METRICS.items()
            }
        for name, (kind, label_names, help_) in SPARK_METRICS.items():
            family = GaugeMetricFamily if kind == "gauge" else CounterMetricFamily
            metric = family(name, help_, labels=label_names)
            for labels, value in values[name]:
                metric.add_metric(labels, value)
            yield metric

    def _query(self, name: str) -> _Query:
        if name not in self._queries:
            while len(self._queries) >= _MOST_QUERIES:
                del self._queries[next(iter(self._queries))]
            self._queries[name] = _Query()
        return self._queries[name]


def _progress_of(offset: str | None) -> dict[str, Any]:
    """Return the progress of a source of this package; nothing for any other source."""
    try:
        found: Any = json.loads(offset or "null")
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    shown = cast("dict[str, Any]", found)
    return shown if shown.get("source") == KIND else {}


def _record(query: _Query, labels: Labels, shown: dict[str, Any]) -> None:
    """Record the progress of one source."""
    gauges = query.gauges
    for metric in ("nsq_spark_depth", "nsq_spark_paused"):
        # An nsqd that has left is no longer reported.
        gauges[metric] = {key: value for key, value in gauges[metric].items() if key[:3] != labels}
    for nsqd, rows in shown["depth"].items():
        gauges["nsq_spark_depth"][*labels, nsqd] = rows
        gauges["nsq_spark_paused"][*labels, nsqd] = nsqd in shown.get("paused", {})
    gauges["nsq_spark_lag"][labels] = shown["lag"]
    gauges["nsq_spark_spool_bytes"][labels] = shown["spoolBytes"]
    if "publishedPerSecond" in shown:
        gauges["nsq_spark_published_per_second"][labels] = shown["publishedPerSecond"]
    if batch := shown.get("lastBatch"):
        _record_batch(query, labels, batch)
    _record_unreachable(query, labels, shown.get("unreachable", {}))


def _record_batch(query: _Query, labels: Labels, batch: Mapping[str, int]) -> None:
    if query.seen.get(labels) != batch["epoch"]:
        query.seen[labels] = batch["epoch"]
        query.gauges["nsq_spark_slowest_chunk_seconds"][labels] = batch["slowestChunkMs"] / 1e3
        for key, (metric, factor) in _LAST_BATCH.items():
            query.count(metric, labels, batch[key] * factor)


def _record_unreachable(query: _Query, labels: Labels, unreachable: Mapping[str, float]) -> None:
    """Count the partitions that this run has not reported before."""
    for nsqd, partitions in unreachable.items():
        place = (*labels, nsqd)
        query.count("nsq_spark_unreachable_partitions", place, partitions - query.unreachable.get(place, 0.0))
        query.unreachable[place] = partitions
