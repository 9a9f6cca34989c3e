"""The processes that answer, and the CPU time and the memory of one, as Linux counts them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..surroundings import ROOT

_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process has used.

    :ivar cpu_seconds: in user and in system mode, so far
    :ivar rss: resident memory, in MiB
    :ivar peak_rss: the most so far
    """

    cpu_seconds: float
    rss: float
    peak_rss: float


def usage(pid: int) -> Usage:
    """Return what a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    status = Path(f"/proc/{pid}/status").read_text()
    resident, peak = (int(re.findall(rf"{name}:\s+(\d+)", status)[0]) / 1024 for name in ("VmRSS", "VmHWM"))
    return Usage((int(fields[11]) + int(fields[12])) / _TICK, resident, peak)


@contextmanager
def running_server(task: dict[str, Any]) -> Generator[list[int]]:
    """Run `server` for the length of the block; yield its ports.

    :param task: what it answers for
    """
    command = [sys.executable, "-m", "tests.benchmarks.dashboard.server", json.dumps(task)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.stdin.close()
            process.terminate()
