"""Measures: all contenders of a workload in turn, round after round, on the same nsqds."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import version

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from .contenders import Contender
from .environments import Unavailable
from .measure import Failed, measure
from .nsqds import Miscounted, running_nsqds
from .report import number
from .results import Failure, Run, Sample
from .workloads import Workload

__all__ = ["run_all"]

Ready = list[tuple[Contender, list[str]]]


def run_all(
    workloads: Sequence[Workload],
    contenders: Sequence[Contender],
    *,
    rounds: int,
    cores: int,
    console: Console,
) -> Run:
    """Prepare the contenders, and let each do each workload `rounds` times.

    :param cores: how many cores everything shares, nsqd included; 0 for all there are
    """
    run = Run(about=_about(rounds, cores))
    ready = _prepare(contenders, run, console)
    _keep_to(cores)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("", total=rounds * sum(len(_taking_part(ready, work)) for work in workloads))
        for workload in workloads:
            progress.update(bar, description=workload.name)
            for outcome in _measure_workload(workload, _taking_part(ready, workload), rounds, run):
                progress.update(bar, advance=1)
                if outcome is not None:
                    progress.console.print(
                        _line(workload, outcome), markup=False, highlight=False, soft_wrap=True
                    )
    return run


def _measure_workload(
    workload: Workload, ready: Ready, rounds: int, run: Run
) -> Iterable[Sample | Failure | None]:
    """Add to `run` what each contender does in each round, and yield it; None for one that failed before."""
    failed: set[str] = set()
    with running_nsqds(workload.nsqds, tls=workload.tls) as nsqds:
        for number in range(rounds):
            # Another one is the first in each round, and each follows another.
            first = number % max(len(ready), 1)
            for place, (contender, command) in enumerate([*ready[first:], *ready[:first]]):
                if contender.name in failed:
                    yield None
                    continue
                try:
                    values = measure(workload, contender, command, nsqds, f"bench_{number}_{place}")
                except (Failed, Miscounted) as error:
                    failed.add(contender.name)
                    run.failures.append(Failure(workload.name, contender.name, str(error)))
                    yield run.failures[-1]
                else:
                    run.samples.append(Sample(workload.name, contender.name, number, values))
                    yield run.samples[-1]


def _line(workload: Workload, outcome: Sample | Failure) -> str:
    what = f"{workload.name:<18} {outcome.contender:<18}"
    if isinstance(outcome, Failure):
        return f"{what} FAILED: {outcome.reason}"
    figures = (
        f"{number(outcome.values[metric.key])} {metric.unit}"
        for metric in workload.metrics
        if metric.key in outcome.values
    )
    return f"{what} {', '.join(figures)}"


def _prepare(contenders: Iterable[Contender], run: Run, console: Console) -> Ready:
    ready: Ready = []
    for contender in contenders:
        with console.status(f"preparing {contender.name}"):
            try:
                ready.append((contender, contender.prepare()))
            except Unavailable as error:
                run.unavailable[contender.name] = str(error)
    return ready


def _taking_part(ready: Ready, workload: Workload) -> Ready:
    return [(contender, command) for contender, command in ready if contender.takes_part(workload)]


def _keep_to(cores: int) -> None:
    # nsqd and the clients inherit it. Other systems than Linux have no such call.
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])


def _about(rounds: int, cores: int) -> dict[str, str]:
    return {
        "nsq-anyio": version("nsq-anyio"),
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "anyio": version("anyio"),
        "nsqd": "1.3.0",
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(cores or os.cpu_count()),
        "rounds": str(rounds),
    }
