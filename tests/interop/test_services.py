"""Services on a real nsqd: nothing is lost by a killed process or a restarted nsqd."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import anyio
import pytest

import nsq_anyio as nsq

from ..processes import ending
from .cluster import Cluster, Kind
from .observe import PROMPT, until, until_told

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"]),
    pytest.mark.timeout(180),
]

MESSAGES = 400
KILLS = 3
LIMIT = 90.0
ROOT = Path(__file__).parents[2]

HANDLERS = """
import os
import anyio

async def handle(message):
    with open("begun", "a") as begun:
        begun.write(f"{os.getpid()}\\n")
    await anyio.sleep(0.05)
    with open("done", "a") as done:
        done.write(message.body.decode() + "\\n")
"""


@pytest.mark.parametrize("kind", ["embedded", "real"])
async def test_a_service_survives_a_restart_of_its_nsqd(cluster: Cluster, kind: Kind, tmp_path: Path) -> None:
    seen: set[bytes] = set()
    restarted = anyio.Event()

    async def handle(message: nsq.Message) -> None:
        if restarted.is_set() or len(seen) < 10:
            seen.add(message.body)

    nsqd = await cluster.nsqd(kind, channels={"t": ["c"]}, data_path=tmp_path if kind == "real" else None)
    await nsqd.publish("t", *[b"%d" % number for number in range(10)])
    stop = anyio.Event()
    options = nsq.ConsumerOptions(reconnect_delay=0.05, max_reconnect_delay=0.2)
    serve = partial(nsq.serve, handle, "t", "c", stop=stop, options=options, connection=PROMPT, concurrency=4)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(serve, nsqd=nsqd.tcp_address))
        await until(lambda: len(seen) == 10)
        await nsqd.stop()
        restarted.set()
        data_path = tmp_path if kind == "real" else None
        nsqd = await cluster.nsqd(kind, channels={"t": ["c"]}, data_path=data_path, succeeding=nsqd)
        await nsqd.publish("t", *[b"%d" % number for number in range(10, 20)])
        await until(lambda: len(seen) == 20)
        stop.set()


@pytest.mark.skipif(sys.platform == "win32", reason="--processes needs another system")
async def test_processes_that_are_killed_lose_nothing(
    cluster: Cluster, tmp_path: Path, anyio_backend: str
) -> None:
    (tmp_path / "tasks.py").write_text(HANDLERS)
    nsqd = await cluster.nsqd("real", channels={"t": ["c"]})
    bodies = [b"%d" % number for number in range(MESSAGES)]
    await nsqd.publish("t", *bodies)
    chance = random.Random(3)

    def lines(name: str) -> list[str]:
        path = tmp_path / name
        return path.read_text().splitlines() if path.exists() else []

    def has_lines(name: str, count: int) -> bool:
        return len(lines(name)) >= count

    flags = [
        *("--topic", "t", "--channel", "c", "--nsqd-tcp-address", nsqd.tcp_address),
        *("--processes", "2", "--concurrency", "5", "--backend", anyio_backend),
        *("--consumer-opt", "msg_timeout,2s", "--consumer-opt", "max_attempts,0"),
    ]
    with (tmp_path / "log").open("wb") as log:
        process = await anyio.open_process(
            [sys.executable, "-m", "nsq_anyio", "run", "tasks:handle", *flags],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    async with ending(process):
        for kill in range(1, KILLS + 1):
            await until(partial(has_lines, "done", kill * MESSAGES // 10), LIMIT)
            victim = int(lines("begun")[-1 - chance.randrange(3)])
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                continue  # it was the last victim
            await until(partial(has_lines, "begun", len(lines("begun")) + 1), LIMIT)

        async def is_done() -> bool:
            channel = await nsqd.channel("t", "c")
            return not (channel.depth or channel.in_flight_count or channel.deferred_count)

        await until_told(is_done, LIMIT)
        process.send_signal(signal.SIGTERM)
        with anyio.fail_after(LIMIT):
            assert await process.wait() == 0, (tmp_path / "log").read_text()
    assert {line.encode() for line in lines("done")} == set(bodies)
    assert "was ended by SIGKILL; starting it again" in (tmp_path / "log").read_text()
