"""What must hold, as ratios within one run, so that the machine cancels out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .contenders import BARE, GO, OURS, PEERS
from .results import Run, Spread

__all__ = ["TARGETS", "Target", "Verdict", "check"]

ON = tuple(contender.name for contender in OURS if "uvloop" not in contender.name)
"""The targets are set without uvloop."""
PYTHON_PEERS = tuple(contender.name for contender in PEERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A bound of a figure, or of its ratio to the best of others.

    :ivar beside: whom to compare with; nobody bounds the figure itself
    :ivar at_least: or `at_most`
    """

    workload: str
    metric: str = "rate"
    beside: tuple[str, ...] = (GO.name,)
    at_least: float | None = None
    at_most: float | None = None

    def __str__(self) -> str:
        bound = f">= {self.at_least:g}" if self.at_least is not None else f"<= {self.at_most:g}"
        whom = "the fastest peer" if self.beside == PYTHON_PEERS else " or ".join(self.beside)
        return f"{bound} x {whom}" if whom else bound


@dataclass(frozen=True, slots=True)
class Verdict:
    """How this package on one event loop stands to a target."""

    target: Target
    contender: str
    found: Spread | None

    @property
    def holds(self) -> bool | None:
        """Whether the median keeps the bound; None if one of the two was not measured."""
        if self.found is None:
            return None
        target = self.target
        return (target.at_least is None or self.found.median >= target.at_least) and (
            target.at_most is None or self.found.median <= target.at_most
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "workload": self.target.workload,
            "metric": self.target.metric,
            "target": str(self.target),
            "contender": self.contender,
            "found": dataclasses.asdict(self.found) if self.found else None,
            "holds": self.holds,
        }


TARGETS: tuple[Target, ...] = (
    Target(workload="iterate-rdy-2500", at_least=2.2),
    Target(workload="iterate-rdy-2500", at_least=4, beside=PYTHON_PEERS),
    Target(workload="iterate-rdy-2500", at_least=0.6, beside=(BARE.name,)),
    Target(workload="iterate-rdy-200", at_least=1.8),
    Target(workload="iterate-rdy-10", at_least=1.2),
    Target(workload="iterate-rdy-1", at_least=0.8),
    Target(workload="run-100-rdy-2500", at_least=2.0),
    Target(workload="block-rdy-2500", at_least=1.5),
    Target(workload="publish-100", at_least=1.0),
    Target(workload="publish-coalesced", at_least=3),
    Target(workload="publish-many", at_least=1.0),
    Target(workload="tls", at_least=2),
    Target(workload="snappy", at_least=4),
    Target(workload="deflate", at_least=3.5),
    Target(workload="tls-snappy", at_least=4),
    Target(workload="latency", metric="p99", at_most=1.2),
    Target(workload="latency-rdy-1", metric="p99", at_most=1.2),
    Target(workload="latency-buffered", metric="p99", at_most=1.2),
    Target(workload="memory", metric="rss_growth", beside=(), at_most=10),
    Target(workload="idle", metric="cpu_percent", beside=(), at_most=3),
)


def check(run: Run, targets: Iterable[Target] = TARGETS) -> list[Verdict]:
    """Hold a run against the targets of the workloads that it did."""
    done = set(run.workloads())
    return [
        Verdict(target, name, _found(run, target, name))
        for target in targets
        if target.workload in done
        for name in ON
    ]


def _found(run: Run, target: Target, name: str) -> Spread | None:
    if not target.beside:
        return run.spread(target.workload, name, target.metric)
    took_part = set(run.contenders(target.workload))
    could_not = {failure.contender for failure in run.failures if failure.workload == target.workload}
    if not set(target.beside) <= took_part | could_not | set(run.unavailable):
        return None  # a run with --client: the best of the others may be missing
    found = [run.ratios(target.workload, target.metric, name, other) for other in target.beside]
    # The best of the others is whom the ratio is the worst with.
    worst = min if target.at_least is not None else max
    return worst((ratio for ratio in found if ratio), key=lambda ratio: ratio.median, default=None)
