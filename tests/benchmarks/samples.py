"""Runs of plain values, for the tests of what is computed from them."""

from __future__ import annotations

from .interpreter import Interpreter
from .results import Run, Sample, Session, Setting
from .workloads import P99, RATE

NEW = Interpreter(version="3.14.2", pgo=True, lto=True)
OLD = Interpreter(version="3.11.9", pgo=True, lto=True)
ONE_CORE = Setting("3.14", "one core")
TWO_CORES = Setting("3.14", "two cores")


def sample(
    contender: str,
    value: float,
    number: int = 0,
    *,
    workload: str = "iterate-rdy-1",
    pinning: str = "one core",
    session: str = "new",
) -> Sample:
    """Return a sample with one figure: the p99 of latencies, else a rate."""
    metric = P99 if workload.startswith("latency") else RATE
    return Sample(
        session=session,
        pinning=pinning,
        workload=workload,
        contender=contender,
        round=number,
        values={metric.key: value},
    )


def run_of(*samples: Sample) -> Run:
    """Return them as a run of sessions ``new``, ``new again`` and ``old``, those that they name."""
    interpreters = {"new": NEW, "new again": NEW, "old": OLD}
    names = dict.fromkeys(each.session for each in samples)
    about = {"date": "2026-11-27"}
    return Run({name: Session(interpreters[name], about) for name in names}, list(samples))
