"""Dead letters while the real nsqd is killed, restarted or frozen: what is reported is true.

`NSQ_ANYIO_LEDGER=long` takes twenty moments for each fault. By default there is one, as CI has little time.
"""

import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio import envelope
from nsq_anyio.dead_letters import ChannelScan, Filter, LetterProcessor
from nsq_anyio.testing import fault_proxy
from tests.real_servers import RealServer, real_nsqd

pytestmark = pytest.mark.anyio

COUNT = 400
IS_LONG = os.environ.get("NSQ_ANYIO_LEDGER") == "long"
MOMENTS = range(20) if IS_LONG else (7,)
RECONNECT_DELAYS = {"command": 0.1, "job": 30.0}
"""The dashboard's jobs do not connect again."""
FAULTS = ("kill", "restart", "freeze", "pause")


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param


class Stage:
    """A real nsqd with letters, and its successors on the same ports and data."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.servers = AsyncExitStack()
        self.nsqd: RealServer

    async def start(self, tcp_port: int = 0, http_port: int = 0) -> None:
        server = real_nsqd(tcp_port=tcp_port, http_port=http_port, data_path=self.path)
        self.nsqd = await self.servers.enter_async_context(server)

    async def restart(self) -> None:
        before = self.nsqd
        await before.stop()
        await self.start(before.tcp_port, before.http_port)

    async def break_down(self, fault: str) -> None:
        process = self.nsqd.process
        match fault:
            case "kill":
                await self.nsqd.kill()
            case "restart":
                await self.restart()
            case _:
                process.send_signal(signal.SIGSTOP)
        if fault == "pause":
            await anyio.sleep(0.3)
            process.send_signal(signal.SIGCONT)

    async def recover(self) -> None:
        if self.nsqd.process.returncode is None:
            self.nsqd.process.send_signal(signal.SIGCONT)
        await self.restart()  # what was in flight waits again

    async def depth(self, topic: str, channel: str) -> int:
        async with nsq.http.Nsqd(self.nsqd.http_url) as http:
            stats = await http.stats(topic=topic)
        found = [each for row in stats.topics for each in row.channels if each.channel_name == channel]
        assert all(each.in_flight_count == each.deferred_count == 0 for each in found)
        return sum(each.depth for each in found)


@asynccontextmanager
async def stage(path: Path) -> AsyncGenerator[Stage]:
    on = Stage(path)
    async with on.servers:
        await on.start()
        async with nsq.http.Nsqd(on.nsqd.http_url) as http:
            for topic, channel in (("t", "c"), ("t.dead", "dead-letter")):
                await http.create_topic(topic)
                await http.create_channel(topic, channel)
            headers = {"nsq-dead-body": "raw", "nsq-dead-topic": "t"}
            letters = [envelope.encode(b"%d" % number, headers) for number in range(COUNT)]
            await http.publish_many("t.dead", letters)
        yield on


def walk(address: str, reconnect_delay: float = 0.1, wait: float = 0.3) -> ChannelScan:
    return ChannelScan(
        "t.dead",
        "dead-letter",
        nsqd=[address],
        max_in_flight=20,
        options=nsq.ConsumerOptions(max_attempts=0, close_timeout=0.5, reconnect_delay=reconnect_delay),
        wait=wait,
        patience=1.0,
    )


def run_of(work: LetterProcessor, kind: str) -> Callable[[anyio.Event], Awaitable[None]]:
    async def retry(stop: anyio.Event) -> None:
        await work.retry(stop, options=nsq.ProducerOptions(publish_timeout=0.5, drain_timeout=0.5))

    return work.drop if kind == "drop" else retry


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", ["drop", "retry"])
@pytest.mark.parametrize("by", RECONNECT_DELAYS if IS_LONG else ["command"])
async def test_what_is_reported_is_true(by: str, kind: str, fault: str, moment: int, tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        begin = anyio.Event()
        finished = 0

        def progress() -> None:
            nonlocal finished
            finished += 1
            if finished > moment * COUNT // 20:
                begin.set()

        taken = walk(on.nsqd.tcp_address, RECONNECT_DELAYS[by])
        work = LetterProcessor(taken, Filter(), 0, progress)
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:

                async def break_down() -> None:
                    await begin.wait()
                    await on.break_down(fault)

                tasks.start_soon(break_down)
                await run_of(work, kind)(anyio.Event())
        await on.recover()
        there = await on.depth("t.dead", "dead-letter")
        assert work.done + there <= COUNT
        if work.unconfirmed or work.left:
            assert work.done < COUNT
        elif taken.lost:  # it may be connected again, and have given all
            assert fault == "kill" or work.done + there == COUNT
        else:
            assert (fault, work.done, there) == ("pause", COUNT, 0)
        if kind == "retry" and fault != "kill":  # a killed nsqd loses what it had in memory
            assert await on.depth("t", "c") >= max(work.done, COUNT - there)


async def test_a_letter_that_comes_again_is_finished_again(tmp_path: Path) -> None:
    """nsqd is restarted while FINs are on their way, and delivers those letters once more."""
    async with stage(tmp_path) as on, fault_proxy(on.nsqd.tcp_address) as proxy:
        proxy.to_server.piece = 100
        proxy.to_server.delay = 0.01
        begin = anyio.Event()
        # It waits for nsqd, which takes a while to start on a busy machine.
        taken = walk(proxy.address, reconnect_delay=0.05, wait=2.0)
        work = LetterProcessor(taken, Filter(), 0, begin.set)
        async with anyio.create_task_group() as tasks:

            async def restart() -> None:
                await begin.wait()
                await on.restart()

            tasks.start_soon(restart)
            with anyio.fail_after(30):
                await work.drop(anyio.Event())
        assert await on.depth("t.dead", "dead-letter") == 0
        assert work.done + work.unconfirmed == COUNT
