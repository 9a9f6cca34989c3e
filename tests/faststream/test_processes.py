"""``faststream run`` on a real nsqd: a ledger of what processes did that were killed, or told to end."""

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

from ..interop.cluster import Cluster, Server
from ..interop.observe import until
from ..interop.own_group import in_own_group, lines, restart
from .running import broker_of, first_of, until_empty

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

LONG = os.environ.get("NSQ_ANYIO_LEDGER") == "long"

LIMIT = 90.0
COUNT = 20

SERVICE = """
import asyncio
import os

import nsq_anyio as nsq
from faststream import FastStream
from faststream_nsq import NsqBroker, NsqMessage

broker = NsqBroker(
    os.environ["NSQD"],
    connection=nsq.ConnectionOptions(msg_timeout=2.0),
    consumer=nsq.ConsumerOptions(max_attempts=0, reconnect_delay=0.1, requeue_delay=0.1),
)
app = FastStream(broker)


def note(name, text):
    with open(name, "a") as file:
        file.write(f"{text}\\n")


@broker.subscriber("slow", "c", max_workers=20)
@broker.publisher("slow.out")
async def slow(number: int, message: NsqMessage) -> int:
    note("begun", f"{number} {os.getpid()}")
    if message.raw_message.attempts == 1:
        await asyncio.sleep(600)
    note("done", number)
    return number


@broker.subscriber("batches", "c", batch=True, max_size=20, max_wait=0.2)
async def batches(numbers: list[int], message: NsqMessage):
    for number in numbers:
        note("begun", f"{number} {os.getpid()}")
    if message.raw_message[0].attempts == 1:
        await asyncio.sleep(600)
    for number in numbers:
        note("done", number)


patient = nsq.ConsumerOptions(reconnect_delay=0.1, requeue_delay=0.1, max_backoff_duration=0.1)


@broker.subscriber("ledger", "c", max_workers=int(os.environ["WORKERS"]), max_in_flight=100, options=patient)
async def ledger(number: int):
    await asyncio.sleep(0.25)
    if number == 13:
        raise ValueError("unlucky")
    note("done", number)


@broker.subscriber("work", "c", max_workers=5)
async def work(number: int):
    note("begun", f"{number} {os.getpid()}")
    await asyncio.sleep(0.5)
    note("done", number)
"""


@pytest.fixture
async def nsqd(cluster: Cluster) -> Server:
    """A real one, which has the channels from its start: of new ones it learns every 5 s only."""
    return await cluster.nsqd(
        "real", channels={topic: ["c"] for topic in ("slow", "batches", "ledger", "work")}
    )


@contextmanager
def service(nsqd: Server, directory: Path, workers: int = 1) -> Generator[subprocess.Popen[bytes]]:
    """Run the service in a directory; it is killed at the end."""
    (directory / "service.py").write_text(SERVICE)
    command = [sys.executable, "-m", "faststream", "run", "service:app"]
    with in_own_group(command, directory, {"NSQD": nsqd.tcp_address, "WORKERS": str(workers)}) as process:
        yield process


async def publish(nsqd: Server, topic: str, numbers: range) -> None:
    async with broker_of(nsqd) as broker:
        await broker.publish_batch(*numbers, topic=topic)


async def test_a_killed_process_loses_nothing(nsqd: Server, tmp_path: Path) -> None:
    await publish(nsqd, "slow", range(COUNT))
    await publish(nsqd, "batches", range(COUNT, 2 * COUNT))
    begun, done = tmp_path / "begun", tmp_path / "done"
    with service(nsqd, tmp_path) as first:
        await until(lambda: len(lines(begun)) == 2 * COUNT, limit=LIMIT)
        os.killpg(first.pid, signal.SIGKILL)
    assert not lines(done)
    with service(nsqd, tmp_path):
        # It gets the messages once their msg_timeout has passed.
        await until(lambda: len(lines(done)) == 2 * COUNT, limit=LIMIT)
    assert {*map(int, lines(done))} == {*range(2 * COUNT)}
    assert len({line.split()[1] for line in lines(begun)}) == 2
    assert (await first_of(nsqd, "slow.out")).headers["content-type"] == "application/json"


async def test_a_process_that_is_told_to_end_lets_handlers_end(nsqd: Server, tmp_path: Path) -> None:
    await publish(nsqd, "work", range(COUNT))
    begun, done = tmp_path / "begun", tmp_path / "done"
    with service(nsqd, tmp_path) as process:
        await until(lambda: len(lines(begun)) >= 5, limit=LIMIT)
        process.send_signal(signal.SIGTERM)
        with anyio.fail_after(LIMIT):
            assert await anyio.to_thread.run_sync(process.wait) == 0
    # What had begun was finished, and the rest is in nsqd.
    assert sorted(line.split()[0] for line in lines(begun)) == sorted(lines(done))
    channel = await nsqd.channel("work", "c")
    assert (channel.depth, channel.in_flight_count) == (COUNT - len(lines(done)), 0)
    assert channel.depth > 0


async def test_restarts_give_up_no_message_that_was_not_handled(nsqd: Server, tmp_path: Path) -> None:
    """Each process prefetches messages, which a later one gets with more attempts."""
    count, times = (2_000, 30) if LONG else (100, 6)
    await publish(nsqd, "ledger", range(count))
    done = tmp_path / "done"
    await restart(lambda: service(nsqd, tmp_path), lambda: len(lines(done)), times=times, limit=LIMIT)
    with service(nsqd, tmp_path, workers=50):
        await until(lambda: len({*lines(done)}) == count - 1, limit=4 * LIMIT)
        await until_empty(nsqd, "ledger", "c")
    assert {*map(int, lines(done))} == {*range(count)} - {13}
    letter = await first_of(nsqd, "ledger.dead")
    assert letter.payload == b"13"
    assert "unlucky" in str(letter.headers)
    assert (await nsqd.channel("ledger.dead", "look")).message_count == 1
