"""A command that sends messages to HTTP servers: ``forward.py PROGRAM ARGUMENT... TASK``.

The command knows nothing of the measurement. The sink that it sends to tells when how many have arrived, and
then the command's CPU time is looked up: that needs Linux.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import IO

from .meter import peak_rss
from .task import Task, read_task


def forward(task: Task, command: Sequence[str]) -> None:
    """Run the command until all messages have arrived and are finished, and print the result."""
    # It ends before it is killed, so that it leaves no processes behind.
    signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, 0.9 * task.limit)
    with _running_sink(task) as (address, marks), _running_command(task, command, address) as process:
        begin, cpu_before = _await(marks, "warm"), _cpu_seconds(process.pid)
        end, cpu_after = _await(marks, "timed"), _cpu_seconds(process.pid)
        rss = peak_rss(process.pid)
        _await(marks, "all")
        process.terminate()
        if process.wait() != 0:
            sys.exit(f"{command[0]} ended with {process.returncode}")
    result: dict[str, object] = {
        "messages": task.messages,
        "timed": task.timed,
        "seconds": end - begin,
        "cpu_seconds": cpu_after - cpu_before,
        "peak_rss": rss,
        "values": {},
    }
    sys.stdout.write(json.dumps(result) + "\n")


@contextmanager
def _running_sink(task: Task) -> Generator[tuple[str, IO[str]]]:
    counts = [str(count) for count in (task.warm_up, task.timed, task.messages)]
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, task.server_cores or before)
    # It ends with its standard input, so also if this process is killed.
    sink = subprocess.Popen(
        [task.sink, *counts], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    os.sched_setaffinity(0, before)
    with sink:
        assert sink.stdout is not None and sink.stdin is not None  # noqa: PT018 - both are pipes
        yield _line(sink.stdout, "listening"), sink.stdout
        sink.stdin.close()


@contextmanager
def _running_command(task: Task, command: Sequence[str], address: str) -> Generator[subprocess.Popen[bytes]]:
    flags = {
        "--topic": task.topic,
        "--channel": task.channel,
        "--nsqd-tcp-address": task.nsqds[0],
        "--max-in-flight": str(task.max_in_flight),
        "--n": str(task.concurrency),
        "--post": f"http://{address}/",
        "--status-every": "0",
    }
    # What it logs is shown if it fails.
    process = subprocess.Popen(
        [*command, *(f"{name}={value}" for name, value in flags.items())], stdout=sys.stderr
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _await(marks: IO[str], name: str) -> float:
    return float(_line(marks, name))


def _line(lines: IO[str], name: str) -> str:
    found, _, value = lines.readline().rstrip().partition(" ")
    if found != name:
        raise ConnectionError(f"the sink wrote {found!r} instead of {name!r}")
    return value


def _cpu_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:  # noqa: PTH123 - as in `meter`
        # The name of the program is in brackets, and may have spaces; utime and stime are fields 14 and 15.
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _give_up(_number: int, _frame: object) -> None:
    raise TimeoutError("not all messages arrived in time")


if __name__ == "__main__":
    forward(read_task(), sys.argv[1:-1])
