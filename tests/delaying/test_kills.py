"""kill -9 at each step of the service: nothing is lost, or published twice but where it cannot be helped."""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest

import nsq_anyio as nsq

pytestmark = pytest.mark.anyio

MESSAGES = 20
LIMIT = 30.0
SERVICE = """
import functools, os, signal, sys
import anyio
import nsq_anyio as nsq
from nsq_anyio.delaying import DelayFile

backend, path, nsqd, step, moment = sys.argv[1:]

def kill_at(now):
    if now == moment:
        os.kill(os.getpid(), signal.SIGKILL)

def killed(owner, name):
    original = getattr(owner, name)

    @functools.wraps(original)
    def call(*arguments):
        kill_at("before")
        result = original(*arguments)
        kill_at("after")
        return result

    @functools.wraps(original)
    async def call_async(*arguments):
        kill_at("before")
        await original(*arguments)
        kill_at("after")

    setattr(owner, name, call_async if name == "publish_many" else call)

owners = {"store": DelayFile, "delete": DelayFile, "put_off": DelayFile, "finish": nsq.Message}
killed(owners.get(step, nsq.Producer), step)

async def main():
    publishing = nsq.ProducerOptions(max_msg_size=1000)
    held = nsq.ConnectionOptions(msg_timeout=1.0)  # what is not finished comes again then
    async with nsq.delays(path, nsqd=nsqd, publishing=publishing, connection=held):
        await anyio.sleep_forever()

anyio.run(main, backend=backend)
"""


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    backend: str = request.param
    return backend


@pytest.mark.parametrize(
    ("step", "moment", "least", "most"),
    [
        ("store", "before", 1, 1),
        # nsqd delivers again what is not finished, maybe after it was published and deleted.
        ("store", "after", 1, 2),
        ("finish", "before", 1, 2),
        ("finish", "after", 1, 2),
        ("publish_many", "before", 1, 1),
        # nsqd has the messages, and the file still does.
        ("publish_many", "after", 2, 2),
        ("delete", "before", 2, 2),
        ("delete", "after", 1, 1),
        ("put_off", "before", 1, 1),
        ("put_off", "after", 1, 1),
    ],
)
async def test_kill_9(
    anyio_backend: str, tmp_path: Path, step: str, moment: str, least: int, most: int
) -> None:
    """Each message arrives at least ``least`` times, and at most ``most`` times."""
    path = tmp_path / "delays"
    async with nsq.embedded.nsqd() as nsqd:
        address = nsqd.tcp_address
        async with nsq.produce(address, delays="nsq.delays") as producer:
            at = datetime.fromtimestamp(time.time() + 0.5, UTC)
            # The service of the first process refuses to publish larger messages itself.
            size = 2000 if step == "put_off" else 10
            bodies = {b"%*d" % (size, number) for number in range(MESSAGES)}
            for body in bodies:
                await producer.publish("t", body, at=at, durable=True)
        command = [sys.executable, "-c", SERVICE, anyio_backend, str(path), address, step, moment]
        with anyio.fail_after(LIMIT):
            killed = await anyio.run_process(command, check=False, stdout=None, stderr=None)
        assert killed.returncode == -signal.SIGKILL
        arrived: Counter[bytes] = Counter()
        async with (
            nsq.delays(path, nsqd=address) as delays,
            nsq.consume("t", "c", nsqd=address) as consumer,
        ):
            with anyio.fail_after(LIMIT):
                while len(arrived) < MESSAGES or (await delays.statistics()).waiting:
                    async with await anext(consumer) as message:
                        arrived[message.body] += 1
            assert time.time() >= at.timestamp()
            assert arrived.keys() == bodies
            async with nsq.http.Nsqd(nsqd.http_url) as client:
                (topic,) = (await client.stats(topic="t")).topics
            assert least * MESSAGES <= topic.message_count <= most * MESSAGES
