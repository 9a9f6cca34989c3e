"""``taskiq worker`` started again and again: a ledger of what its tasks did."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nsq_anyio.contrib.taskiq import NsqBroker
from nsq_anyio.embedded import EmbeddedNsqd

from ...interop.observe import until
from ...interop.own_group import in_own_group, lines, restart
from .working import channel_of, first_of, until_finished

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

LONG = os.environ.get("NSQ_ANYIO_LEDGER") == "long"
LIMIT = 60.0

TASKS = """
import asyncio
import os

import nsq_anyio as nsq
from nsq_anyio.contrib.taskiq import NsqBroker, NsqRetryMiddleware

broker = NsqBroker(
    os.environ["NSQD"],
    connection=nsq.ConnectionOptions(msg_timeout=2.0),
    consumer=nsq.ConsumerOptions(reconnect_delay=0.1, requeue_delay=0.1),
).with_middlewares(NsqRetryMiddleware(default_retry_label=True))


@broker.task(task_name="work")
async def work(number: int) -> None:
    await asyncio.sleep(0.25)
    if number == 13:
        raise ValueError("unlucky")
    with open("done", "a") as file:
        file.write(f"{number}\\n")
"""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop: the workers are processes of their own."""
    return "asyncio"


@contextmanager
def worker(nsqd: EmbeddedNsqd, directory: Path, tasks: int = 1) -> Generator[subprocess.Popen[bytes]]:
    """Run a worker that does so many tasks at a time, and holds a hundred messages."""
    (directory / "jobs.py").write_text(TASKS)
    command = [
        sys.executable,
        "-m",
        "taskiq",
        "worker",
        "jobs:broker",
        "--workers",
        "1",
        "--max-async-tasks",
        str(tasks),
    ]
    with in_own_group(command, directory, {"NSQD": nsqd.tcp_address}) as process:
        yield process


async def test_restarts_give_up_no_task_that_did_not_run(nsqd: EmbeddedNsqd, tmp_path: Path) -> None:
    count, times = (2_000, 30) if LONG else (100, 6)
    broker = NsqBroker(nsqd.tcp_address)

    @broker.task(task_name="work")
    async def work(number: int) -> None: ...

    async with broker:
        for number in range(count):
            await work.kiq(number)
    done = tmp_path / "done"
    await restart(lambda: worker(nsqd, tmp_path), lambda: len(lines(done)), times=times, limit=LIMIT)
    with worker(nsqd, tmp_path, tasks=50):
        await until(lambda: len({*lines(done)}) == count - 1, limit=4 * LIMIT)
        await until_finished(nsqd.http_url)
    assert {*map(int, lines(done))} == {*range(count)} - {13}
    letter = await first_of(nsqd.tcp_address)
    assert b'"args":[13]' in letter.payload.replace(b" ", b"")
    assert "unlucky" in str(letter.headers)
    assert (await channel_of(nsqd.http_url, "taskiq.dead", "look")).message_count == 1
