"""``taskiq worker`` on a real nsqd: nothing is lost by a killed worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from nsq_anyio.contrib.taskiq import NsqBroker

from .cluster import Server
from .observe import until
from .own_group import in_own_group, lines

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="module"),  # taskiq knows no other
    pytest.mark.timeout(180),
]

LIMIT = 90.0

TASKS = """
import asyncio
import os

import nsq_anyio as nsq
from nsq_anyio.contrib.taskiq import NsqBroker, NsqRetryMiddleware, delivered

broker = NsqBroker(
    os.environ["NSQD"],
    topic=os.environ["TOPIC"],
    connection=nsq.ConnectionOptions(msg_timeout=2.0),
    consumer=nsq.ConsumerOptions(max_attempts=0, reconnect_delay=0.1, requeue_delay=0.1),
).with_middlewares(NsqRetryMiddleware())


def note(name, text):
    with open(name, "a") as file:
        file.write(f"{text}\\n")


@broker.task(task_name="slow")
async def slow(number):
    note("begun", f"{number} {os.getpid()}")
    if delivered().attempts == 1:
        await asyncio.sleep(600)
    note("done", number)


@broker.task(task_name="work")
async def work(number):
    note("begun", f"{number} {os.getpid()}")
    await asyncio.sleep(1)
    note("done", number)


@broker.task(task_name="failing", retry_on_error=True, max_retries=3)
def failing(number):
    note("begun", f"{number} {os.getpid()}")
    if delivered().attempts < 3:
        raise ValueError(number)
    note("done", number)
"""


@contextmanager
def worker(nsqd: Server, topic: str, directory: Path, *options: str) -> Generator[subprocess.Popen[bytes]]:
    """Run ``taskiq worker`` in a directory; it and its processes are killed at the end."""
    (directory / "tasks.py").write_text(TASKS)
    environment = {"NSQD": nsqd.tcp_address, "TOPIC": topic}
    command = [sys.executable, "-m", "taskiq", "worker", "tasks:broker", *options]
    with in_own_group(command, directory, environment) as process:
        yield process


async def kick(nsqd: Server, topic: str, name: str, numbers: range) -> None:
    broker = NsqBroker(nsqd.tcp_address, topic=topic)

    @broker.task(task_name=name)
    async def task(number: int) -> None: ...

    async with broker:
        for number in numbers:
            kicker = task.kicker()
            if name == "failing":
                kicker = kicker.with_labels(retry_on_error=True, max_retries=3)
            await kicker.kiq(number)


async def test_a_killed_worker_loses_nothing(nsqd: Server, topic: str, tmp_path: Path) -> None:
    await kick(nsqd, topic, "slow", range(20))
    begun, done = tmp_path / "begun", tmp_path / "done"
    with worker(nsqd, topic, tmp_path, "--workers", "1"):
        await until(lambda: len(lines(begun)) == 20, limit=LIMIT)
        (pid,) = {int(line.split()[1]) for line in lines(begun)}
        os.kill(pid, signal.SIGKILL)
        # taskiq starts another process, which gets the messages once their msg_timeout has passed.
        await until(lambda: {*map(int, lines(done))} == {*range(20)}, limit=LIMIT)
    assert len({line.split()[1] for line in lines(begun)}) == 2
    assert len(lines(done)) == 20


async def test_workers_share_a_topic_and_end_gently(nsqd: Server, topic: str, tmp_path: Path) -> None:
    await kick(nsqd, topic, "work", range(30))
    begun, done = tmp_path / "begun", tmp_path / "done"
    with worker(nsqd, topic, tmp_path, "--workers", "2", "--max-async-tasks", "5") as process:
        await until(lambda: len(lines(begun)) >= 5, limit=LIMIT)
        process.send_signal(signal.SIGTERM)
        with anyio.fail_after(LIMIT):
            await anyio.to_thread.run_sync(process.wait)
    # What had begun was finished, and the rest handed back: each number is once here, or once in nsqd.
    assert sorted(line.split()[0] for line in lines(begun)) == sorted(lines(done))
    with worker(nsqd, topic, tmp_path, "--workers", "2"):
        await until(lambda: len(lines(done)) == 30, limit=LIMIT)
    assert sorted(map(int, lines(done))) == [*range(30)]


async def test_failed_tasks_are_retried_by_nsqd(nsqd: Server, topic: str, tmp_path: Path) -> None:
    await kick(nsqd, topic, "failing", range(5))
    with worker(nsqd, topic, tmp_path, "--workers", "1"):
        await until(lambda: len(lines(tmp_path / "done")) == 5, limit=LIMIT)
    assert len(lines(tmp_path / "begun")) == 15
