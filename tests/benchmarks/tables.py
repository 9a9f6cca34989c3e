"""A run as tables of text, for the terminal and for the documentation: one for each question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .contenders import CONTENDERS
from .contenders import SHOWN as SHOWN_CLIENTS
from .results import Run, Setting, Spread, number
from .surroundings import SHARED
from .targets import LEAST, check
from .workloads import CPU, RATE, SHOWN, WORKLOADS, Metric, Workload

_TITLES = {contender.name: contender.title for contender in CONTENDERS}


@dataclass(frozen=True, slots=True)
class Table:
    """Text in rows; the cells of the columns from `figures` on are figures."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    figures: int = 1


def questions(run: Run) -> list[Table]:
    """Return a table for each workload that was measured."""
    done = run.workloads()
    return [question(run, workload) for workload in WORKLOADS if workload.name in done]


def question(run: Run, workload: Workload) -> Table:
    """Return who was how fast: a row for each client and interpreter, and columns for each pinning."""
    settings = run.settings(workload.name)
    pythons = list(dict.fromkeys(setting.python for setting in settings))
    pinnings = run.pinnings(workload.name)
    shown = [*workload.metrics, *([CPU] if RATE in workload.metrics else [])]
    header = ["client", *_python_column(pythons)]
    for pinning in pinnings:
        header += [f"{_heading(metric)}, {pinning}" for metric in shown]
        header.append(f"x {workload.reference}, {pinning}")
    rows: list[list[str]] = []
    for python in pythons:
        for name in _in_order(run, workload.name, python):
            row = [_TITLES[name], *([python] if _python_column(pythons) else [])]
            for pinning in pinnings:
                row += _cells(run, workload, Setting(python, pinning), name, shown)
            rows.append(row)
    return Table(workload.title, header, rows, figures=1 + len(_python_column(pythons)))


def shown(run: Run) -> Table:
    """Return what users want to know: rate and CPU at each workload, a column for each client.

    On the interpreter that is listed first, and on two cores that client and nsqd share.

    :raises ValueError: a workload was not measured
    """
    setting = Setting(run.pythons()[0], SHARED.name)
    done = {name for workload in SHOWN for name in run.contenders(workload, setting)}
    clients = [client for client in SHOWN_CLIENTS if client.name in done]
    rows: list[list[str]] = []
    for workload, title in SHOWN.items():
        if not run.contenders(workload, setting):
            raise ValueError(f"{workload} was not measured on {setting.python} with {setting.pinning}")
        rows.append([title, *(_rate_and_cpu(run, workload, setting, client.name) for client in clients)])
    return Table("Messages a second", ["workload", *(client.title for client in clients)], rows)


def _rate_and_cpu(run: Run, workload: str, setting: Setting, client: str) -> str:
    rate, cpu = (run.spread(workload, setting, client, metric) for metric in (RATE, CPU))
    return f"{number(rate.median)}<br>{number(cpu.median)}&nbsp;µs" if rate and cpu else ""


def targets(run: Run) -> Table:
    """Return which targets hold: a row for each workload, client and interpreter."""
    verdicts = check(run)
    python = _python_column(list(dict.fromkeys(verdict.python for verdict in verdicts)))
    rows = [
        [
            verdict.workload,
            _TITLES[verdict.contender],
            *([verdict.python] if python else []),
            *(_with_range(verdict.found.get(pinning)) for pinning in LEAST),
            "yes" if verdict.holds else "**no**",
        ]
        for verdict in verdicts
    ]
    bounds = [f"x go-nsq, {pinning} (>= {least})" for pinning, least in LEAST.items()]
    header = ["workload", "client", *python, *bounds, "holds"]
    return Table("Targets", header, rows, figures=2 + len(python))


def sessions(run: Run) -> Table:
    """Return what was measured with what."""
    rows: list[list[str]] = []
    for name, session in run.sessions.items():
        rounds: dict[tuple[str, str], int] = {}
        for sample in run.samples:
            if sample.session == name:
                what = sample.workload, sample.pinning
                rounds[what] = max(rounds.get(what, 0), sample.round + 1)
        fewest, most = min(rounds.values(), default=0), max(rounds.values(), default=0)
        others = ", ".join(
            f"{key} {value}"
            for key, value in session.about.items()
            if key not in {"rounds", "note", "system"}
        )
        system = ", ".join(session.about[key] for key in ("system", "note") if key in session.about)
        rounds_text = f"{most}" if fewest == most else f"{fewest} to {most}"
        rows.append([name, session.interpreter.description, others, system, rounds_text])
    return Table(
        "Measured with", ["session", "interpreter", "versions", "machine", "rounds"], rows, figures=5
    )


def _python_column(pythons: Sequence[str]) -> list[str]:
    """Return its heading where several interpreters are to be told apart."""
    return ["Python"] if len(pythons) > 1 else []


def _heading(metric: Metric) -> str:
    return f"{metric.title} {metric.unit}".strip()


def _in_order(run: Run, workload: str, python: str) -> list[str]:
    found: set[str] = set()
    for setting in run.settings(workload):
        if setting.python == python:
            found.update(run.contenders(workload, setting))
    return [contender.name for contender in CONTENDERS if contender.name in found]


def _cells(run: Run, workload: Workload, setting: Setting, name: str, shown: Sequence[Metric]) -> list[str]:
    spreads = [run.spread(workload.name, setting, name, metric) for metric in shown]
    ratio = (
        None
        if name == workload.reference
        else run.ratios(workload.name, setting, workload.metrics[0], name, workload.reference)
    )
    return [*(number(spread.median) if spread else "" for spread in spreads), _with_range(ratio)]


def _with_range(spread: Spread | None) -> str:
    if spread is None:
        return ""
    if spread.count == 1:
        return f"{spread.median:.2f}"
    return f"{spread.median:.2f} ({spread.low:.2f} to {spread.high:.2f})"
