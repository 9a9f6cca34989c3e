"""Look at what a collector shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from nsq_anyio.instrumentation.prometheus import NSQCollector


@dataclass(frozen=True, slots=True)
class Shown:
    """The samples of one scrape, by name and labels."""

    samples: Mapping[tuple[str, frozenset[tuple[str, str]]], float]

    def __call__(self, name: str, **labels: str) -> float:
        """Return the sum of the samples that have these labels, without the prefix ``nsq_`` of the name."""
        return sum(self.all(name, **labels))

    def all(self, name: str, **labels: str) -> list[float]:
        """Return the values of the samples that have these labels."""
        wanted = set(labels.items())
        return [
            value for (found, has), value in self.samples.items() if found == f"nsq_{name}" and wanted <= has
        ]


@dataclass(frozen=True, slots=True)
class Scraper:
    """A registry and its collector."""

    registry: CollectorRegistry
    collector: NSQCollector

    def __call__(self) -> Shown:
        """Scrape once, in this thread."""
        return Shown(
            {
                (sample.name, frozenset(sample.labels.items())): sample.value
                for family in self.registry.collect()
                for sample in family.samples
            }
        )
