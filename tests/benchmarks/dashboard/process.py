"""The CPU time and the memory of a process, as Linux counts them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Usage", "usage"]

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
