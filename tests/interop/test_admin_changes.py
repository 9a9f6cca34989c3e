"""The dashboard's tails and jobs while channels and topics are deleted and made again, on the real nsqd.

`NSQ_ANYIO_LEDGER=long` takes twenty moments. By default there are few, as CI has little time.
"""

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.admin import AdminOptions
from nsq_anyio.admin.messages.bounds import MessageBounds
from nsq_anyio.admin.messages.content import MessageRow
from nsq_anyio.admin.messages.jobs import Jobs
from nsq_anyio.admin.messages.tail import Tail, Tails
from nsq_anyio.admin.upstream import Upstream
from nsq_anyio.dead_letters import Filter
from nsq_anyio.monitoring import Watch
from nsq_anyio.options import ConnectionOptions
from nsq_anyio.tasks import background_tasks
from nsq_anyio.testing import FaultProxy, fault_proxy
from tests.real_servers import RealServer, real_nsqd

pytestmark = pytest.mark.anyio

IS_LONG = os.environ.get("NSQ_ANYIO_LEDGER") == "long"
MOMENTS = [number * 0.1 for number in range(20)] if IS_LONG else [0.4]
"""Seconds after a tail or a job begins, each of whose pieces to and from nsqd takes 0.1 s."""


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param


@dataclass
class Stage:
    """A real nsqd, and what a dashboard has that reaches it through proxies."""

    nsqd: RealServer
    http: nsq.http.Nsqd
    by_tcp: FaultProxy
    by_http: FaultProxy
    tails: Tails
    jobs: Jobs
    watch: Watch

    async def topic(self, *channels: str) -> None:
        await self.http.create_topic("t")
        for channel in channels:
            await self.http.create_channel("t", channel)
        view = None
        while view is None or not view.topics:
            view = await self.watch.after(view)

    async def channels(self) -> dict[str, int]:
        stats = await self.http.stats()
        return {each.channel_name: each.depth for row in stats.topics for each in row.channels}

    async def only(self, *channels: str) -> None:
        """Wait until there are these channels only."""
        with anyio.fail_after(15):
            while sorted(await self.channels()) != sorted(channels):  # noqa: ASYNC110 - nsqd tells nobody
                await anyio.sleep(0.02)

    async def taken(self, wanted: set[bytes]) -> None:
        """Take what is in the channel until all that is wanted has come."""
        with anyio.fail_after(15):
            async with nsq.consume("t", "lasting", nsqd=self.nsqd.tcp_address, max_in_flight=100) as consumer:
                while wanted:
                    message = await anext(consumer)
                    wanted.discard(message.body)
                    message.finish()


@asynccontextmanager
async def stage() -> AsyncGenerator[Stage]:
    async with (
        real_nsqd() as nsqd,
        fault_proxy(nsqd.tcp_address) as by_tcp,
        fault_proxy(nsqd.http_url.removeprefix("http://")) as by_http,
        nsq.http.Nsqd(nsqd.http_url) as http,
        background_tasks() as tasks,
    ):
        upstream = Upstream((), (f"http://{by_http.address}",), AdminOptions())
        async with upstream.opened():
            watch = Watch(upstream, interval=0.1)
            tasks.start_soon(watch.run)
            options = ConnectionOptions(map_address={nsqd.tcp_address: by_tcp.address})
            async with background_tasks() as own:
                shared = (own, watch, upstream, options, MessageBounds())
                with anyio.fail_after(60):
                    yield Stage(nsqd, http, by_tcp, by_http, Tails(*shared), Jobs(*shared), watch)


def render(rows: Sequence[MessageRow]) -> str:
    return f"[{len(rows)}]"


async def until(tail: Tail, *phases: str) -> None:
    with anyio.fail_after(20):
        while tail.state.phase not in phases:
            await tail.changed()


@pytest.mark.parametrize("gap", [0.0, 0.1, 0.3, 0.6, 1.0, 4.0] if IS_LONG else [0.0, 0.4])
async def test_a_deployment_gets_every_message(gap: float) -> None:
    """The last lasting channel is deleted, and made again ``gap`` seconds later, while messages come."""
    async with stage() as on:
        await on.topic("lasting")
        on.by_http.to_client.delay = 0.05
        published: set[bytes] = set()
        async with on.tails.watching("t", render) as tail, anyio.create_task_group() as tasks:
            await until(tail, "live")

            async def publish() -> None:
                for number in range(10_000):
                    await on.http.publish("t", b"%d" % number)
                    published.add(b"%d" % number)
                    await anyio.sleep(0.005)

            tasks.start_soon(publish)
            await anyio.sleep(0.3)
            await on.http.delete_channel("t", "lasting")
            published.clear()  # what was deleted with the channel
            await anyio.sleep(gap)
            await on.http.create_channel("t", "lasting")
            await anyio.sleep(1.0)
            tasks.cancel_scope.cancel()
        await on.only("lasting")
        await on.taken(set(published))
        with anyio.fail_after(15):
            while (await on.http.stats()).topics[0].paused:  # noqa: ASYNC110 - nsqd tells nobody
                await anyio.sleep(0.02)


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_tail_takes_nothing_whenever_the_channel_is_deleted(moment: float) -> None:
    async with stage() as on:
        await on.topic("lasting")
        on.by_tcp.to_server.delay = on.by_tcp.to_client.delay = on.by_http.to_client.delay = 0.1
        async with on.tails.watching("t", render):
            await anyio.sleep(moment)
            await on.http.delete_channel("t", "lasting")
            wanted = {b"%d" % number for number in range(20)}
            await on.http.publish_many("t", sorted(wanted))
            await anyio.sleep(0.5)
            await on.http.create_channel("t", "lasting")
        await on.only("lasting")
        await on.taken(wanted)


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_tail_makes_no_topic_whenever_it_is_deleted(moment: float) -> None:
    async with stage() as on:
        await on.topic("lasting")
        on.by_tcp.to_client.delay = on.by_tcp.to_server.delay = 0.1
        on.by_tcp.stalled = True
        async with on.tails.watching("t", render) as tail:
            await anyio.sleep(moment)
            await on.http.delete_topic("t")
            on.by_tcp.stalled = False
            await until(tail, "gone")
        assert (await on.http.stats()).topics == ()


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("what", ["topic", "channel"])
async def test_a_job_makes_nothing_whenever_it_is_deleted(what: str, moment: float) -> None:
    async with stage() as on:
        await on.topic("dead-letter", "other")
        on.by_tcp.to_client.delay = 0.1
        on.by_tcp.stalled = True
        job = on.jobs.start("t", "dead-letter", "list", Filter())
        await anyio.sleep(moment)
        if what == "topic":
            await on.http.delete_topic("t")
        else:
            await on.http.delete_channel("t", "dead-letter")
        on.by_tcp.stalled = False
        while job.is_running:  # noqa: ASYNC110 - it tells nobody
            await anyio.sleep(0.05)
        assert sorted(await on.channels()) == ([] if what == "topic" else ["other"])
        assert job.problem or job.notes
