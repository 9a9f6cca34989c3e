"""Print the figures: ``python -m tests.benchmarks.spark [NAME]...``; without names, all of them.

Figures of a machine that does other work say little; CPU seconds say more than times.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from ...spark.nsqds import running_nsqd
from ..dashboard.answers import Cluster
from ..surroundings import ROOT
from .cluster import plan_over
from .idle import wait_idle
from .large import read_by_bytes
from .listing import list_spool, make_spool
from .partitions import read_in_parts

__all__: list[str] = []

_MIB = 1024 * 1024
_MESSAGES = 300_000
_IN_MEMORY = ["--mem-queue-size=1000000"]
_console = Console(highlight=False, soft_wrap=True)


def _large(directory: Path) -> None:
    cases = {
        "1 MiB each": [b"x" * _MIB] * 64,
        "1 MiB and 10 KiB in turn": [b"x" * _MIB, b"x" * 10_240] * 48,
        "48 of 10 KiB, then 48 of 1 MiB": [b"x" * 10_240] * 48 + [b"x" * _MIB] * 48,
    }
    with running_nsqd("real") as nsqd:
        for number, (name, bodies) in enumerate(cases.items()):
            topic = nsqd.topic(f"large-{number}")
            for first in range(0, len(bodies), 4):
                topic.publish(bodies[first : first + 4])
            found = read_by_bytes(topic, directory / str(number), max_bytes=10 * _MIB, partitions=2)
            _tell(f"large: {name}, 10 MiB a batch: {found.sent / found.kept:.4f} x the bytes kept were sent")


def _cluster(directory: Path) -> None:
    cluster = Cluster(nsqds=50, topics=500, spread=50, clients=10, active=0)
    found = plan_over(cluster, directory, triggers=6)
    times = ", ".join(f"{seconds:.3f}" for seconds in found.seconds)
    used = ", ".join(f"{seconds:.3f}" for seconds in found.cpu_seconds)
    _tell(f"cluster: {found.partitions} nsqds of {cluster.topics} topics: plans took {times} s, CPU {used} s")


def _partitions(directory: Path) -> None:
    for count in (1, 2, 4, 8):
        with running_nsqd("real", _IN_MEMORY) as nsqd:
            topic = nsqd.topic("parts")
            topic.publish([b"x" * 100] * _MESSAGES)
            tasks = read_in_parts(
                topic, directory / str(count), rows=_MESSAGES, partitions=count, max_wait=30.0
            )
        seconds = max(task.ended_at for task in tasks) - min(task.began_at for task in tasks)
        rows = sum(task.rows for task in tasks)
        used = sum(task.cpu_seconds for task in tasks)
        lag = max(task.ended_at for task in tasks) - min(task.ended_at for task in tasks)
        _tell(
            f"partitions: {count}: {rows:,} rows in {seconds:.2f} s, {rows / seconds:,.0f} rows/s, "
            f"CPU {used:.2f} s, the last one ended {lag:.2f} s after the first"
        )


def _listing(directory: Path) -> None:
    make_spool(directory, 10_000)
    for check in (False, True):
        found = list_spool(directory, check=check)
        _tell(
            f"listing: 10,000 chunks{' read' if check else ''}: {found.info.rows:,} rows, "
            f"{found.info.state}, {found.seconds:.2f} s, CPU {found.cpu_seconds:.2f} s"
        )


def _idle(directory: Path) -> None:
    with running_nsqd("real") as nsqd:
        found = wait_idle(nsqd.topic("idle"), directory, triggers=60)
    _tell(
        f"idle: {found.triggers} triggers in {found.seconds:.0f} s, CPU {found.cpu_seconds:.3f} s, "
        f"{found.share:.2%} of a core"
    )


def _first(directory: Path) -> None:
    del directory
    bare = _in_new_session({"options": None, "runs": 2, "idle": 0.0})
    for name, query in zip(("first", "second"), bare["queries"], strict=True):
        _tell(f"first: of a source that does nothing, {name} query: a batch after {query['seconds']:.2f} s")
    with running_nsqd("real") as nsqd:
        topic = nsqd.topic("first", "first0")
        nsqd.topic("first", "first1")
        topic.publish([b"x" * 100] * 1_000)
        options = {**topic.options, "channel": "first"}
        found = _in_new_session({"options": options, "runs": 2, "idle": 20.0})
    _tell(f"first: the session took {found['session']:.2f} s")
    for name, query in zip(("first", "second"), found["queries"], strict=True):
        used = ", ".join(f"{part} {seconds:.2f}" for part, seconds in query["cpu_seconds"].items())
        _tell(f"first: {name} query: a batch after {query['seconds']:.2f} s, {query['batch_ms']}")
        _tell(f"first: {name} query: CPU so far: {used}")
    shares = ", ".join(f"{part} {share:.2%}" for part, share in found["queries"][-1]["idle_share"].items())
    _tell(f"first: without messages, of a core: {shares}")


def _in_new_session(task: dict[str, Any]) -> dict[str, Any]:
    """Run `first.main`, in a process of its own; exit with its errors if it fails."""
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    # Without bytecode, each of Spark's processes would compile what it imports.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "tests.benchmarks.spark.first", json.dumps(task)]
    with tempfile.TemporaryFile() as errors:
        program = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors, check=False
        )
        if program.returncode:
            errors.seek(0)
            sys.exit(errors.read().decode(errors="replace"))
    found: dict[str, Any] = json.loads(program.stdout.splitlines()[-1])
    return found


_MEASURES: dict[str, Callable[[Path], None]] = {
    "large": _large,
    "cluster": _cluster,
    "partitions": _partitions,
    "listing": _listing,
    "idle": _idle,
    "first": _first,
}


def _tell(text: str) -> None:
    _console.print(text)


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.spark", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(_MEASURES)}")
    names = parser.parse_args().names or list(_MEASURES)
    if unknown := sorted(set(names) - set(_MEASURES)):
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(_MEASURES)}")
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    _tell(f"CPython {platform.python_version()}, {os.cpu_count()} cores, load {load}")
    for name in names:
        with tempfile.TemporaryDirectory(prefix=f"spark-{name}-") as directory:
            _MEASURES[name](Path(directory))


if __name__ == "__main__":
    main()
