"""Measures: all contenders of a workload in turn, round after round, on the same nsqds."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from . import go_program
from .contenders import Contender
from .environments import Unavailable
from .interpreter import MeasuredPython
from .measure import Failed, measure
from .nsqds import Miscounted, running_nsqds
from .results import Failure, Run, Sample, Session, number
from .surroundings import Pinning
from .workloads import CPU, RATE, Workload

Ready = list[tuple[Contender, list[str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be measured.

    :ivar session: the name of the session that the samples belong to
    """

    session: str
    python: MeasuredPython
    workloads: Sequence[Workload]
    contenders: Sequence[Contender]
    pinnings: Sequence[Pinning]
    rounds: int

    def pinnings_of(self, workload: Workload) -> Sequence[Pinning]:
        """Return how a workload is pinned: those that are not main in the first way alone."""
        return self.pinnings if workload.main else self.pinnings[:1]

    def takes_part(self, contender: Contender, workload: Workload, pinning: Pinning) -> bool:
        """Whether it is measured; the other Python clients are with the first pinning alone."""
        return contender.takes_part(workload) and (not contender.peer or pinning == self.pinnings[0])


def new_session(python: MeasuredPython, rounds: int, date: str) -> Session:
    """Return a session that has measured nothing yet."""
    about = {
        "date": date,
        **python.packages,
        "nsqd": "1.3.0",
        "go-nsq": "1.1.0",
        "system": f"{platform.system()} {platform.machine()}",
        "rounds": str(rounds),
    }
    return Session(python.interpreter, about)


def run_all(plan: Plan, run: Run, console: Console, save: Callable[[], None]) -> None:
    """Add to `run` what the plan asks for and it lacks.

    :param run: has the plan's session
    :param save: called after each complete round
    """
    ready = _prepare(plan, run.sessions[plan.session], console)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    steps = [(workload, pinning) for workload in plan.workloads for pinning in plan.pinnings_of(workload)]
    total = plan.rounds * sum(len(_taking_part(plan, ready, *step)) for step in steps)
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("", total=total)
        for workload, pinning in steps:
            progress.update(bar, description=f"{workload.name}, {pinning.name}")
            taking_part = _taking_part(plan, ready, workload, pinning)
            left = rounds_left(run, plan, workload, pinning, [contender for contender, _ in taking_part])
            progress.update(bar, advance=(plan.rounds - len(left)) * len(taking_part))
            for outcome in _measure(plan, workload, pinning, taking_part, left, run, save):
                progress.update(bar, advance=1)
                if outcome is not None:
                    line = _line(workload, outcome)
                    progress.console.print(line, markup=False, highlight=False, soft_wrap=True)


def rounds_left(
    run: Run, plan: Plan, workload: Workload, pinning: Pinning, contenders: Sequence[Contender]
) -> list[int]:
    """Return the rounds that are not complete, and forget what they have: ratios are taken within a round."""
    here = (plan.session, pinning.name, workload.name)
    failed = {
        failure.contender
        for failure in run.failures
        if (failure.session, failure.pinning, failure.workload) == here
    }
    expected = {contender.name for contender in contenders} - failed
    found: dict[int, set[str]] = {number: set() for number in range(plan.rounds)}
    for sample in run.samples:
        if (sample.session, sample.pinning, sample.workload) == here:
            found.setdefault(sample.round, set()).add(sample.contender)
    left = [number for number in range(plan.rounds) if not expected <= found[number]]
    run.samples = [
        sample
        for sample in run.samples
        if (sample.session, sample.pinning, sample.workload) != here or sample.round not in left
    ]
    return left


def _measure(
    plan: Plan,
    workload: Workload,
    pinning: Pinning,
    ready: Ready,
    rounds: Sequence[int],
    run: Run,
    save: Callable[[], None],
) -> Iterator[Sample | Failure | None]:
    """Add to `run` what each contender does in each round, and yield it; None for one that failed before."""
    if not rounds:
        return
    failed = {
        failure.contender
        for failure in run.failures
        if (failure.session, failure.pinning, failure.workload) == (plan.session, pinning.name, workload.name)
    }
    cores = pinning.cores(pinning.servers)
    with running_nsqds(workload.nsqds, tls=workload.tls, cores=cores) as nsqds:
        for number_ in rounds:
            # Another one is the first in each round, and each follows another.
            first = number_ % max(len(ready), 1)
            for place, (contender, command) in enumerate([*ready[first:], *ready[:first]]):
                if contender.name in failed:
                    yield None
                    continue
                where = {
                    "session": plan.session,
                    "pinning": pinning.name,
                    "workload": workload.name,
                    "contender": contender.name,
                }
                topic = f"bench_{number_}_{place}"
                try:
                    values = measure(workload, contender, command, nsqds, pinning, topic)
                except (Failed, Miscounted) as error:
                    failed.add(contender.name)
                    run.failures.append(Failure(**where, reason=str(error)))
                    yield run.failures[-1]
                else:
                    run.samples.append(Sample(**where, round=number_, values=values))
                    yield run.samples[-1]
            save()


def _line(workload: Workload, outcome: Sample | Failure) -> str:
    what = f"{workload.name:<18} {outcome.pinning:<16} {outcome.contender:<34}"
    if isinstance(outcome, Failure):
        return f"{what} FAILED: {outcome.reason}"
    shown = [*workload.metrics, *([CPU] if RATE in workload.metrics else [])]
    figures = (
        f"{number(outcome.values[metric.key])} {metric.unit}"
        for metric in shown
        if metric.key in outcome.values
    )
    return f"{what} {', '.join(figures)}"


def _prepare(plan: Plan, session: Session, console: Console) -> Ready:
    ready: Ready = []
    needed = [each for each in plan.contenders if any(map(each.takes_part, plan.workloads))]
    for contender in needed:
        with console.status(f"preparing {contender.name}"):
            try:
                command = contender.prepare(plan.python)
                if "to-http" in contender.can:
                    go_program.build()  # the sink
            except Unavailable as error:
                session.unavailable[contender.name] = str(error)
            else:
                session.unavailable.pop(contender.name, None)
                ready.append((contender, command))
    return ready


def _taking_part(plan: Plan, ready: Ready, workload: Workload, pinning: Pinning) -> Ready:
    return [each for each in ready if plan.takes_part(each[0], workload, pinning)]
