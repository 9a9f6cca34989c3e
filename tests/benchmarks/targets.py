"""What must hold, as ratios within one run, so that the machine cancels out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .contenders import BARE, GO, NSQ_TO_HTTP, PEERS, Loop, ours
from .results import Run, Setting, Spread
from .workloads import FIRST, GROWTH, IDLE_CPU, P99, RATE, Metric

__all__ = ["TARGETS", "Target", "Verdict", "check"]

PYTHON_PEERS = tuple(contender.name for contender in PEERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A bound of a figure on one event loop, or of its ratio to the best of others.

    :ivar codec: whether it is set for this package with the compiled codec; else it is set for both
    :ivar beside: whom to compare with; nobody bounds the figure itself
    :ivar bound: the least where more is better, else the most
    """

    workload: str
    loop: Loop
    bound: float
    metric: Metric = RATE
    beside: tuple[str, ...] = (GO.name,)
    codec: bool = False

    def __str__(self) -> str:
        bound = f"{'>=' if self.metric.better == 'higher' else '<='} {self.bound:g}"
        whom = "the fastest peer" if self.beside == PYTHON_PEERS else " or ".join(self.beside)
        return f"{bound} x {whom}" if whom else f"{bound} {self.metric.unit}"

    def is_met(self, median: float) -> bool:
        """Whether a figure keeps the bound."""
        return median >= self.bound if self.metric.better == "higher" else median <= self.bound


@dataclass(frozen=True, slots=True)
class Verdict:
    """How this package on one event loop and one interpreter stands to a target.

    :ivar contender: its name
    :ivar found: the figure, by the pinning; only those that were measured
    """

    target: Target
    contender: str
    python: str
    found: dict[str, Spread]

    @property
    def holds(self) -> bool | None:
        """Whether the medians of all pinnings keep the bound; None if nothing was measured."""
        if not self.found:
            return None
        return all(self.target.is_met(spread.median) for spread in self.found.values())

    def as_json(self) -> dict[str, Any]:
        """Return what `Run.save` keeps."""
        return {
            "workload": self.target.workload,
            "metric": self.target.metric.key,
            "target": str(self.target),
            "contender": self.contender,
            "python": self.python,
            "found": {pinning: dataclasses.asdict(spread) for pinning, spread in self.found.items()},
            "holds": self.holds,
        }


def _each(
    workload: str,
    asyncio: float,
    trio: float,
    *,
    metric: Metric = RATE,
    beside: tuple[str, ...] = (GO.name,),
    codec: bool = False,
) -> tuple[Target, Target]:
    """Return the target of each event loop; uvloop has none, since not everybody has it."""
    bounds: tuple[tuple[Loop, float], ...] = (("asyncio", asyncio), ("trio", trio))
    first, second = (
        Target(workload=workload, loop=loop, bound=bound, metric=metric, beside=beside, codec=codec)
        for loop, bound in bounds
    )
    return first, second


TARGETS: tuple[Target, ...] = (
    *_each("iterate-rdy-2500", 3.2, 3.2, codec=True),
    *_each("iterate-rdy-2500", 0.93, 0.93, beside=(BARE.name,), codec=True),
    *_each("iterate-rdy-2500", 4, 4, beside=PYTHON_PEERS),
    *_each("iterate-rdy-200", 1.8, 1.8),
    *_each("iterate-rdy-10", 1.25, 1.15),
    *_each("iterate-rdy-1", 0.85, 0.75),
    *_each("run-10-rdy-10", 1.25, 1.1),
    *_each("run-100-rdy-2500", 2, 2),
    *_each("block-rdy-2500", 1.5, 1.5),
    *_each("publish-1", 0.9, 0.8),
    *_each("publish-100", 1.4, 1.1),
    *_each("publish-pipelined", 1.4, 1.1),
    *_each("publish-coalesced", 3, 2.2),
    *_each("publish-many", 1, 1),
    *_each("latency", 1.1, 1.15, metric=P99),
    *_each("latency-rdy-1", 1.1, 1.15, metric=P99),
    *_each("latency-buffered", 1.2, 1.2, metric=P99),
    *_each("to-http", 1, 0.8, beside=(NSQ_TO_HTTP.name,)),
    *_each("start", 100, 150, metric=FIRST, beside=()),
    *_each("idle", 3, 3, metric=IDLE_CPU, beside=()),
    *_each("memory", 10, 10, metric=GROWTH, beside=()),
    *_each("tls", 2, 2),
    *_each("snappy", 4, 4),
    *_each("deflate", 3.5, 3.5),
    *_each("tls-snappy", 4, 4),
)


def check(run: Run, targets: Iterable[Target] = TARGETS) -> list[Verdict]:
    """Hold a run against the targets of the workloads that it did, on each interpreter."""
    return [
        _verdict(run, target, name, python)
        for target in targets
        for python in dict.fromkeys(setting.python for setting in run.settings(target.workload))
        for name in _judged(run, target)
    ]


def _judged(run: Run, target: Target) -> list[str]:
    without, with_codec = ours(target.loop), ours(target.loop, codec=True)
    if target.codec:
        return [with_codec]
    return [without, *([with_codec] if with_codec in run.contenders(target.workload) else [])]


def _verdict(run: Run, target: Target, name: str, python: str) -> Verdict:
    found = {
        setting.pinning: spread
        for setting in run.settings(target.workload)
        if setting.python == python and (spread := _found(run, target, name, setting)) is not None
    }
    return Verdict(target, name, python, found)


def _found(run: Run, target: Target, name: str, setting: Setting) -> Spread | None:
    if not target.beside:
        return run.spread(target.workload, setting, name, target.metric)
    took_part = set(run.contenders(target.workload, setting))
    if not set(target.beside) <= took_part | run.could_not(target.workload, setting):
        return None  # a run with --client: the best of the others may be missing
    found = [run.ratios(target.workload, setting, target.metric, name, other) for other in target.beside]
    # The best of the others is whom the ratio is the worst with.
    worst = min if target.metric.better == "higher" else max
    return worst((ratio for ratio in found if ratio), key=lambda ratio: ratio.median, default=None)
