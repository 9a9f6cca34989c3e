"""Signals and the end of the event loop: each cell is run as a program.

All programs of a group run in one subprocess, one after the other (`programs`): a signal may hit any point of
the code, which must not be one of pytest's, and a cell that hangs can be killed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from .loops import LOOPS, Loop
from .programs import ALL_OVER, AS_EXPECTED, KINDS

BOUND = 50.0
"""Seconds for a group."""

GROUPS = [
    pytest.param(*loop.values, kind, id=f"{loop.id}-{kind}", marks=loop.marks)
    for loop in LOOPS
    for kind in KINDS
    # On Trio a nursery does not end before its tasks. And what the handler of another signal than SIGINT
    # raises may hit Trio itself, which that breaks: `trio.open_signal_receiver` is the way there. uvloop does
    # not survive an exception amid its own start or end, which the second of two signals may hit.
    if loop.id not in {"trio", "uvloop"}
    or (loop.id == "trio" and kind.startswith("interrupt"))
    or (loop.id == "uvloop" and not kind.endswith("twice"))
]


@pytest.mark.skipif(sys.platform == "win32", reason="it has no signals that interrupt a wait")
@pytest.mark.parametrize(("loop", "kind"), GROUPS)
def test_each_cell_ends(loop: Loop, kind: str) -> None:
    command = [sys.executable, "-W", "error", "-m", "tests.endings.programs", loop.name, kind]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            output, errors = process.communicate(timeout=BOUND)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, errors = process.communicate()
    outcomes: dict[str, str] = dict(map(json.loads, output.splitlines()))
    wrong = [f"== {name}\n{outcome}" for name, outcome in outcomes.items() if outcome != AS_EXPECTED]
    assert not wrong, "\n\n".join([*wrong, errors])
    assert ALL_OVER in outcomes, f"after {', '.join(list(outcomes)[-1:])} one hangs:\n{errors}"
