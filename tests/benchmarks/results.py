"""What a run has measured: samples, their medians and spread, and the JSON they are kept in."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Failure", "Run", "Sample", "Spread", "spread_of"]


@dataclass(frozen=True, slots=True)
class Sample:
    """The figures of one measurement; those with the same `round` were taken one after the other."""

    workload: str
    contender: str
    round: int
    values: dict[str, float]


@dataclass(frozen=True, slots=True)
class Failure:
    """A contender that did not do a workload, or did it wrong."""

    workload: str
    contender: str
    reason: str


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of some figures, the least, and the greatest."""

    median: float
    low: float
    high: float
    count: int


def spread_of(figures: Iterable[float]) -> Spread | None:
    """Return the spread, or None of nothing."""
    found = sorted(figures)
    if not found:
        return None
    return Spread(statistics.median(found), found[0], found[-1], len(found))


@dataclass(slots=True)
class Run:
    """All that one run has found.

    :ivar about: the machine, the versions and the settings
    :ivar unavailable: why contenders could not take part, by their names
    """

    about: dict[str, str] = field(default_factory=dict[str, str])
    samples: list[Sample] = field(default_factory=list[Sample])
    failures: list[Failure] = field(default_factory=list[Failure])
    unavailable: dict[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def merged(cls, runs: Iterable[Run]) -> Run:
        """Put runs of different workloads together; of a workload that several have, the last run counts."""
        whole = cls()
        for run in runs:
            new = set(run.workloads()) | {failure.workload for failure in run.failures}
            whole.samples = [each for each in whole.samples if each.workload not in new] + run.samples
            whole.failures = [each for each in whole.failures if each.workload not in new] + run.failures
            whole.about.update(run.about)
            whole.unavailable.update(run.unavailable)
        return whole

    def workloads(self) -> list[str]:
        """Return the names of the workloads that anybody did, in their order."""
        return list(dict.fromkeys(sample.workload for sample in self.samples))

    def contenders(self, workload: str) -> list[str]:
        """Return who did a workload."""
        return list(dict.fromkeys(sample.contender for sample in self.samples if sample.workload == workload))

    def spread(self, workload: str, contender: str, metric: str) -> Spread | None:
        """Return the spread over the rounds, or None if it was not measured."""
        return spread_of(
            sample.values[metric]
            for sample in self.samples
            if (sample.workload, sample.contender) == (workload, contender) and metric in sample.values
        )

    def ratios(self, workload: str, metric: str, ours: str, beside: str) -> Spread | None:
        """Return the ratios of two contenders, each within one round: what slows the machine slows both."""
        by_round: dict[int, dict[str, float]] = {}
        for sample in self.samples:
            if sample.workload == workload and metric in sample.values:
                by_round.setdefault(sample.round, {})[sample.contender] = sample.values[metric]
        return spread_of(
            found[ours] / found[beside] for found in by_round.values() if ours in found and found.get(beside)
        )

    def save(self, path: Path, targets: list[dict[str, Any]]) -> None:
        """Write everything as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self) | {"targets": targets}, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Run:
        """Read what `save` wrote."""
        found = json.loads(path.read_text(encoding="utf-8"))
        return cls(
            about=found["about"],
            samples=[Sample(**sample) for sample in found["samples"]],
            failures=[Failure(**failure) for failure in found["failures"]],
            unavailable=found["unavailable"],
        )
