"""What must hold where each message is a round trip: rates beside go-nsq's of the same round."""

from __future__ import annotations

from dataclasses import dataclass

from .contenders import GO, ours
from .results import Run, Setting, Spread
from .surroundings import ONE_CORE, SHARED, TWO_CORES
from .workloads import RATE

ROUND_TRIPS = ("iterate-rdy-1", "iterate-rdy-10", "run-10-rdy-10", "publish-1")
LEAST = {SHARED.name: 1.0, TWO_CORES.name: 1.0, ONE_CORE.name: 0.9}
"""The least ratio to go-nsq's rate, by the pinning."""
JUDGED = tuple(ours(loop, codec=codec) for loop in ("asyncio", "trio") for codec in (False, True))
"""uvloop is not among them, since not everybody has it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How this package stands to the targets at one workload.

    :ivar found: the ratio to go-nsq's rate, by the pinning; only those that were measured
    """

    workload: str
    contender: str
    python: str
    found: dict[str, Spread]

    @property
    def holds(self) -> bool:
        """Whether the medians of all pinnings keep the bounds."""
        return all(spread.median >= LEAST[pinning] for pinning, spread in self.found.items())


def check(run: Run) -> list[Verdict]:
    """Hold what a run has measured against the targets, on each interpreter."""
    return [
        Verdict(workload, contender, python, found)
        for workload in ROUND_TRIPS
        for python in run.pythons()
        for contender in JUDGED
        if (found := _found(run, workload, contender, python))
    ]


def _found(run: Run, workload: str, contender: str, python: str) -> dict[str, Spread]:
    ratios = {
        pinning: run.ratios(workload, Setting(python, pinning), RATE, contender, GO.name) for pinning in LEAST
    }
    return {pinning: spread for pinning, spread in ratios.items() if spread is not None}
