"""The metrics of the service's consumers, together with the program's own metrics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio.to_thread

from ..consumer import Consumer
from ..errors import InvalidOption
from .endpoint import MetricsUnavailable

if TYPE_CHECKING:
    from prometheus_client import Metric

    from ..instrumentation.prometheus import NSQCollector

_MISSING = "prometheus_client is not installed: pip install 'nsq-anyio[prometheus]'"


class Metrics:
    """Collects the metrics of consumers, if the extra ``prometheus`` is installed."""

    def __init__(self) -> None:
        self._collector: NSQCollector | None = None
        try:
            from ..instrumentation.prometheus import NSQCollector  # noqa: PLC0415 - needs the extra
        except ImportError:
            return
        self._collector = NSQCollector(registry=None)

    def add(self, consumer: Consumer) -> None:
        """Collect the metrics of a consumer, unless a collector of the program already does."""
        if self._collector is not None:
            with suppress(InvalidOption):
                self._collector.add(consumer)

    async def text(self) -> bytes:
        """Return these metrics and those of prometheus_client's default registry, in Prometheus' text format.

        :raises MetricsUnavailable: if the extra is not installed
        """
        if self._collector is None:
            raise MetricsUnavailable(_MISSING)
        # In a thread, because the collectors may wait for event loops, or for anything else.
        return await anyio.to_thread.run_sync(self._collect, self._collector)

    def _collect(self, collector: NSQCollector) -> bytes:
        from prometheus_client import REGISTRY  # noqa: PLC0415 - needs the extra

        families = Families()
        for family in (*collector.collect(), *REGISTRY.collect()):
            families.add(family)
        return families.text()


class Families:
    """Metrics of several sources, each family and each sample once, as the text format requires."""

    def __init__(self) -> None:
        self._families: dict[str, Metric] = {}

    def add(self, family: Metric) -> None:
        """Add the samples of a family."""
        known = self._families.setdefault(family.name, family)
        if known is not family:
            there = {(sample.name, *sample.labels.items()) for sample in known.samples}
            new = [each for each in family.samples if (each.name, *each.labels.items()) not in there]
            known.samples = [*known.samples, *new]

    def collect(self) -> Iterator[Metric]:
        """Yield the families, as `generate_latest` expects of a registry."""
        yield from self._families.values()

    def text(self) -> bytes:
        """Return all families in Prometheus' text format.

        :raises MetricsUnavailable: if the extra is not installed
        """
        try:
            from prometheus_client import generate_latest  # noqa: PLC0415 - needs the extra
        except ModuleNotFoundError as error:
            raise MetricsUnavailable(_MISSING) from error
        return generate_latest(self)
