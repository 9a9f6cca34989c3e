"""The clock of a measured program; the same for all that are written in Python."""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from .task import Task

_NEVER = 2**62

_loading_seconds = 0.0


def load(name: str) -> Any:
    """Import a client, and remember how long that took.

    The result is untyped: where the types are checked, the other clients are not installed.
    """
    started_at = time.perf_counter()
    module = importlib.import_module(name)
    loaded_in(time.perf_counter() - started_at)
    return module


def loaded_in(seconds: float) -> None:
    """Remember how long the import of a client took."""
    global _loading_seconds  # noqa: PLW0603 - one program, one client
    _loading_seconds = seconds


class Meter:
    """Counts the messages of a task; its clock runs from the end of the warm-up to the last timed message.

    ::

        left = meter.begin()
        for each message:
            left -= 1
            if not left:
                left = meter.next()  # done when `meter.done`

    :param finished: called when the last message is counted
    """

    def __init__(self, task: Task, finished: Callable[[], None] | None = None) -> None:
        self._task = task
        self._finished = finished
        self._phases = iter([task.timed, *([task.surplus] if task.surplus else [])])
        self._marks: list[tuple[float, float, int]] = []
        self._first_message = 0.0
        self.done = False

    def begin(self) -> int:
        """Return how many messages come before the first `next`."""
        return self._task.warm_up

    def next(self) -> int:
        """Note the time, and return how many messages come before the `next` one."""
        if not self._marks and self._task.started:
            self._first_message = (time.time_ns() - self._task.started) / 1e9
        if len(self._marks) < 2:
            self._marks.append((time.perf_counter(), time.process_time(), peak_rss()))
        following = next(self._phases, None)
        if following is None:
            self.done = True
            if self._finished is not None:
                self._finished()
            return _NEVER
        return following

    def report(self, left: int, values: dict[str, float] | None = None) -> None:
        """Print the result.

        :param left: what the caller still counted down from: any message too many shows in it
        :param values: what else was measured
        """
        (started_at, cpu_before, rss_before), (ended_at, cpu_after, rss_after) = self._marks
        result = {
            "messages": self._task.messages + (_NEVER - left if self.done else 0),
            "timed": self._task.timed,
            "seconds": ended_at - started_at,
            "cpu_seconds": cpu_after - cpu_before,
            "peak_rss": rss_after,
            "values": {
                "rss_growth": float(rss_after - rss_before),
                "loading_seconds": _loading_seconds,
                "first_message_seconds": self._first_message,
                **(values or {}),
            },
        }
        sys.stdout.write(json.dumps(result) + "\n")


def peak_rss(pid: int | None = None) -> int:
    """Return the most memory that a process has had, in bytes: this one, or on Linux another."""
    # Linux keeps ru_maxrss across exec, where it still tells of the parent; VmHWM begins anew.
    try:
        # pathlib takes longer to import than a client that starts fast takes to start.
        with open(f"/proc/{pid or 'self'}/status", encoding="ascii") as status:  # noqa: PTH123
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except FileNotFoundError:
        if pid is not None:
            raise
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def percentiles(seconds: list[float]) -> dict[str, float]:
    """Return p50, p99 and p99.9 of latencies."""
    ordered = sorted(seconds)
    return {
        name: ordered[min(int(len(ordered) * part), len(ordered) - 1)]
        for name, part in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))
    }
