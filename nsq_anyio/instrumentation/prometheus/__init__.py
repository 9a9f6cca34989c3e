"""Metrics of consumers, producers and clusters for Prometheus.

::

    from nsq_anyio.instrumentation.prometheus import NSQCollector

    collector = NSQCollector()  # in prometheus_client's default registry

    async with nsq.consume("clicks", "archive", nsqd="127.0.0.1:4150") as consumer:
        collector.add(consumer)
        await consumer.run(handle)

It needs prometheus-client: ``pip install 'nsq-anyio[prometheus]'``.
"""

from __future__ import annotations

import importlib

try:
    importlib.import_module("prometheus_client")
except ImportError as _missing:
    raise ImportError(
        f"nsq_anyio.instrumentation.prometheus needs prometheus-client ({_missing}): "
        "pip install 'nsq-anyio[prometheus]'",
        name=_missing.name,
    ) from _missing

from .cluster_collector import ClusterCollector, ClusterLabels
from .cluster_metrics import CLUSTER_METRICS
from .collector import NSQCollector
from .exposition import Exposition
from .metrics import METRICS, Metric

__all__ = [
    "CLUSTER_METRICS",
    "METRICS",
    "ClusterCollector",
    "ClusterLabels",
    "Exposition",
    "Metric",
    "NSQCollector",
]
