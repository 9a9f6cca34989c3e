"""One measurement: a contender does a workload's task in a process of its own."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from . import go_program
from .clients.task import Task
from .contenders import Contender
from .nsqds import Nsqds
from .surroundings import ROOT, Pinning, pinned_to, plain_environment
from .workloads import Workload

_LEAST_RATE = 2000.0
"""Messages a second, below which a contender counts as stuck; it gets `_PATIENCE` more."""
_PATIENCE = 60.0
_MIB = 1024 * 1024


class Failed(Exception):
    """A contender did not do its task; the text says how it ended."""


def task_for(
    workload: Workload, contender: Contender, nsqds: Nsqds, topic: str, server_cores: Sequence[int] = ()
) -> Task:
    """Return what the contender is told to do. The slow ones get a share of the messages."""
    timed = workload.timed
    if workload.kind in {"consume", "publish"}:
        timed = max(int(timed * contender.share) // workload.batch, 1) * workload.batch
    # Every nsqd gets the same number.
    left = (workload.warm_up + timed + workload.surplus) % len(nsqds.servers)
    return Task(
        kind=workload.kind,
        nsqds=nsqds.addresses,
        topic=topic,
        channel="bench",
        warm_up=workload.warm_up,
        timed=timed,
        surplus=workload.surplus + (len(nsqds.servers) - left if left else 0),
        size=workload.size,
        max_in_flight=workload.max_in_flight,
        style=workload.style,
        concurrency=workload.concurrency,
        batch=workload.batch,
        coalesce=workload.coalesce,
        rate=workload.rate,
        connections=workload.connections,
        ca_file=nsqds.ca_file,
        compression=workload.compression,
        output_buffer_size=workload.output_buffer_size,
        sink=str(go_program.SINK) if workload.kind == "to-http" else "",
        server_cores=list(server_cores),
        limit=_limit(workload, timed),
    )


def _limit(workload: Workload, timed: int) -> float:
    """Return the seconds after which a contender counts as stuck."""
    if workload.kind == "idle":
        return _PATIENCE + timed / 1000
    return _PATIENCE + (workload.warm_up + timed + workload.surplus) / (workload.rate or _LEAST_RATE)


def measure(
    workload: Workload,
    contender: Contender,
    command: Sequence[str],
    nsqds: Nsqds,
    pinning: Pinning,
    topic: str,
) -> dict[str, float]:
    """Let the contender do its task on a topic of its own, and check that no message was lost or came twice.

    Nothing is published while it consumes.

    :return: the figures of the workload's metrics, and the CPU time and memory that it took
    :raises Failed: it did not end well
    :raises Miscounted: messages did not go or come exactly once
    """
    task = task_for(workload, contender, nsqds, topic, pinning.cores(pinning.servers))
    try:
        prepare_topic(task, nsqds)
        with pinned_to(pinning.cores(pinning.client)):
            result = _run(command, task, contender.environment)
        match task.kind:
            case "consume" | "latency" | "to-http":
                nsqds.check_consumed(
                    topic, task.channel, result["messages"], task.messages, answered=contender.answers_all
                )
            case "publish":
                nsqds.check_published(topic, task.messages)
            case "idle":
                pass
    finally:
        nsqds.delete(topic)
    return _figures(result)


def prepare_topic(task: Task, nsqds: Nsqds) -> None:
    """Create what the task needs, and publish what it consumes."""
    nsqds.create(task.topic, "" if task.kind == "publish" else task.channel)
    if task.kind in {"consume", "to-http"}:
        nsqds.fill(task.topic, task.channel, task.messages, task.size)


def start_command(command: Sequence[str], task: Task) -> list[str]:
    """Return what runs a task, now: the task says when it was started."""
    return [*command, json.dumps(asdict(task) | {"started": time.time_ns()})]


def _run(command: Sequence[str], task: Task, environment: dict[str, str]) -> dict[str, Any]:
    try:
        done = subprocess.run(
            start_command(command, task),
            cwd=ROOT,
            env=plain_environment(**environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=task.limit,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Failed(f"did not end within {task.limit:.0f} s; it wrote {_tail(error.stderr)}") from error
    if done.returncode != 0 or not done.stdout:
        raise Failed(f"ended with {done.returncode} and wrote {_tail(done.stderr)}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def _tail(text: str | bytes | None) -> str:
    decoded = text.decode(errors="replace") if isinstance(text, bytes) else text or "nothing"
    return " | ".join(decoded.strip().splitlines()[-4:])


def _figures(result: dict[str, Any]) -> dict[str, float]:
    seconds, timed, values = result["seconds"], result["timed"], result["values"]
    figures = {
        "seconds": seconds,
        "rate": timed / seconds,
        "cpu_us": result["cpu_seconds"] / timed * 1e6,
        "cpu_percent": result["cpu_seconds"] / seconds * 100,
        "peak_rss": result["peak_rss"] / _MIB,
    }
    if "rss_growth" in values:
        figures["rss_growth"] = values["rss_growth"] / _MIB
    in_milliseconds = {"first_message": "first_message_seconds", "loading": "loading_seconds"}
    for name in ("p50", "p99", "p99.9", *in_milliseconds):
        if seconds_taken := values.get(in_milliseconds.get(name, name)):
            figures[name] = seconds_taken * 1e3
    return figures
