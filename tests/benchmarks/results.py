"""What runs have measured: samples, their medians and spread, and the JSON they are kept in."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from .interpreter import Interpreter
from .surroundings import PINNINGS
from .workloads import Metric


class Setting(NamedTuple):
    """What a column or a group of rows is about.

    :ivar python: an interpreter's label
    :ivar pinning: the name of a `Pinning`
    """

    python: str
    pinning: str


@dataclass(frozen=True, slots=True)
class Session:
    """One run, on one machine, on one day, with one interpreter.

    :ivar about: the versions, the system, and how often each was measured
    :ivar unavailable: why contenders could not take part, by their names
    """

    interpreter: Interpreter
    about: dict[str, str] = field(default_factory=dict[str, str])
    unavailable: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The figures of one measurement; those with the same `round` were taken one after the other."""

    session: str
    pinning: str
    workload: str
    contender: str
    round: int
    values: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A contender that did not do a workload, or did it wrong."""

    session: str
    pinning: str
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
    """All that one session has found, or several.

    :ivar sessions: by their names
    """

    sessions: dict[str, Session] = field(default_factory=dict[str, Session])
    samples: list[Sample] = field(default_factory=list[Sample])
    failures: list[Failure] = field(default_factory=list[Failure])

    @classmethod
    def merged(cls, runs: Iterable[Run]) -> Run:
        """Put runs together; of what several have measured on the same interpreter, the last one counts."""
        whole = cls()
        for run in runs:
            new = {*map(run._measured, run.samples), *map(run._measured, run.failures)}
            whole.samples = [each for each in whole.samples if whole._measured(each) not in new]
            whole.failures = [each for each in whole.failures if whole._measured(each) not in new]
            whole.samples += run.samples
            whole.failures += run.failures
            whole.sessions |= run.sessions
        used = {sample.session for sample in whole.samples}
        used |= {failure.session for failure in whole.failures}
        whole.sessions = {name: each for name, each in whole.sessions.items() if name in used}
        return whole

    def workloads(self) -> list[str]:
        """Return the names of the workloads that anybody did, in their order."""
        return list(dict.fromkeys(sample.workload for sample in self.samples))

    def pythons(self) -> list[str]:
        """Return the labels of the interpreters, the one to be judged by first: optimised, and the newest."""
        ranks = {each.interpreter.label: each.interpreter.rank for each in self.sessions.values()}
        return sorted(ranks, key=lambda label: ranks[label], reverse=True)

    def settings(self, workload: str | None = None) -> list[Setting]:
        """Return the settings that a workload, or any, was measured in, in the order of the tables."""
        labels = {name: session.interpreter.label for name, session in self.sessions.items()}
        found = dict.fromkeys(
            Setting(labels[sample.session], sample.pinning)
            for sample in self.samples
            if workload in {None, sample.workload}
        )
        pythons, pinnings = self.pythons(), [pinning.name for pinning in PINNINGS]
        return sorted(found, key=lambda each: (pythons.index(each.python), pinnings.index(each.pinning)))

    def pinnings(self, workload: str | None = None) -> list[str]:
        """Return the names of the pinnings that a workload, or any, was measured with."""
        return list(dict.fromkeys(setting.pinning for setting in self.settings(workload)))

    def contenders(self, workload: str, setting: Setting | None = None) -> list[str]:
        """Return who did a workload."""
        chosen = self.samples if setting is None else self._of(workload, setting)
        return list(dict.fromkeys(sample.contender for sample in chosen if sample.workload == workload))

    def spread(self, workload: str, setting: Setting, contender: str, metric: Metric) -> Spread | None:
        """Return the spread over the rounds, or None if it was not measured."""
        return spread_of(
            sample.values[metric.key]
            for sample in self._of(workload, setting)
            if sample.contender == contender and metric.key in sample.values
        )

    def ratios(
        self, workload: str, setting: Setting, metric: Metric, ours: str, beside: str
    ) -> Spread | None:
        """Return the ratios of two contenders, each within one round: what slows the machine slows both."""
        rounds: dict[tuple[str, int], dict[str, float]] = {}
        for sample in self._of(workload, setting):
            if metric.key in sample.values:
                round_ = rounds.setdefault((sample.session, sample.round), {})
                round_[sample.contender] = sample.values[metric.key]
        return spread_of(
            found[ours] / found[beside] for found in rounds.values() if ours in found and found.get(beside)
        )

    def save(self, path: Path) -> None:
        """Write everything as JSON, a sample a line."""
        parts = {
            "sessions": _lines("{}", (f'"{name}": {_json(asdict(s))}' for name, s in self.sessions.items())),
            "samples": _lines("[]", (_json(asdict(sample)) for sample in self.samples)),
            "failures": _lines("[]", (_json(asdict(failure)) for failure in self.failures)),
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "{\n" + ",\n".join(f'"{name}": {part}' for name, part in parts.items()) + "\n}\n"
        # A measurement that is interrupted while it writes keeps what it had.
        aside = path.with_name(path.name + ".new")
        aside.write_text(text, encoding="utf-8")
        aside.replace(path)

    @classmethod
    def load(cls, path: Path) -> Run:
        """Read what `save` wrote."""
        found = json.loads(path.read_text(encoding="utf-8"))
        sessions = {
            name: Session(Interpreter(**fields.pop("interpreter")), **fields)
            for name, fields in found["sessions"].items()
        }
        return cls(
            sessions=sessions,
            samples=[Sample(**sample) for sample in found["samples"]],
            failures=[Failure(**failure) for failure in found["failures"]],
        )

    def _of(self, workload: str, setting: Setting) -> Iterator[Sample]:
        for sample in self.samples:
            if (sample.workload, sample.pinning) == (workload, setting.pinning) and self._label(
                sample.session
            ) == setting.python:
                yield sample

    def _measured(self, what: Sample | Failure) -> tuple[str, str, str]:
        return self._label(what.session), what.pinning, what.workload

    def _label(self, session: str) -> str:
        return self.sessions[session].interpreter.label


def number(value: float) -> str:
    """Return a figure with what digits tell something."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _lines(brackets: str, items: Iterable[str]) -> str:
    inner = ",\n".join(f" {item}" for item in items)
    return f"{brackets[0]}\n{inner}\n{brackets[1]}" if inner else brackets
