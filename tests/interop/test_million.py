"""A million messages, each once, at a rate that stands beside a bare socket's."""

import sys
from dataclasses import replace

import pytest

from ..benchmarks.contenders import BARE, OURS
from ..benchmarks.interpreter import MeasuredPython
from ..benchmarks.measure import measure
from ..benchmarks.nsqds import running_nsqds
from ..benchmarks.surroundings import SHARED
from ..benchmarks.workloads import WORKLOADS

LEAST_RATIO = 0.2
"""Of the bare socket's rate: far below what is usual, for machines that do other work meanwhile."""


@pytest.mark.timeout(180)
def test_a_million_messages_each_once(capsys: pytest.CaptureFixture[str]) -> None:
    (named,) = [workload for workload in WORKLOADS if workload.name == "iterate-rdy-2500"]
    workload = replace(named, timed=1_000_000)
    rates: dict[str, float] = {}
    python = MeasuredPython.ask(sys.executable)
    ours = [contender for contender in OURS if not contender.codec]
    with running_nsqds() as nsqds:
        for number, contender in enumerate((BARE, *ours)):
            # It raises unless nsqd has delivered each message once and got each answer.
            command = contender.prepare(python)
            figures = measure(workload, contender, command, nsqds, SHARED, f"million_{number}")
            rates[contender.name] = figures["rate"]
    with capsys.disabled():
        lines = (f"{name:<18} {rate:>9,.0f} msg/s" for name, rate in rates.items())
        print("", *lines, sep="\n")  # noqa: T201 - for the log of CI
    for contender in ours:
        assert rates[contender.name] >= LEAST_RATIO * rates[BARE.name], contender.name
