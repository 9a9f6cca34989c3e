"""An embedded nsqd with what the message views need around it."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskGroup

import nsq_anyio as nsq
from nsq_anyio.admin import AdminOptions
from nsq_anyio.admin.messages.bounds import MessageBounds
from nsq_anyio.admin.messages.content import MessageRow
from nsq_anyio.admin.messages.jobs import Job, Jobs
from nsq_anyio.admin.messages.tail import Tails
from nsq_anyio.admin.upstream import Upstream
from nsq_anyio.http.stats import ChannelStats
from nsq_anyio.monitoring import Watch
from nsq_anyio.options import ConnectionOptions
from nsq_anyio.tasks import background_tasks

INTERVAL = 0.05


@dataclass
class Stage:
    """Everything.

    :ivar rendered: the messages that were rendered
    """

    tasks: TaskGroup
    nsqd: nsq.embedded.EmbeddedNsqd
    http: nsq.http.Nsqd
    watch: Watch
    upstream: Upstream
    bounds: MessageBounds = field(default_factory=MessageBounds)
    connection: ConnectionOptions = field(default_factory=ConnectionOptions)
    rendered: list[MessageRow] = field(default_factory=list[MessageRow])

    def tails(self) -> Tails:
        return Tails(self.tasks, self.watch, self.upstream, self.connection, self.bounds)

    def render(self, rows: Sequence[MessageRow]) -> str:
        self.rendered += rows
        return "".join(f"[{row.content.preview}]" for row in rows)

    def jobs(self) -> Jobs:
        return Jobs(self.tasks, self.watch, self.upstream, self.connection, self.bounds)

    async def seen(self, topic: str) -> None:
        """Wait until a poll has seen the topic."""
        view = self.watch.last
        while view is None or all(each.total.topic_name != topic for each in view.topics):
            view = await self.watch.after(view)

    async def topic(self, name: str, *channels: str) -> str:
        await self.http.create_topic(name)
        for channel in channels:
            await self.http.create_channel(name, channel)
        await self.seen(name)
        return name

    async def topics(self) -> list[str]:
        stats = await self.http.stats(include_mem=False)
        return sorted(each.topic_name for each in stats.topics)

    async def channels(self, topic: str) -> dict[str, ChannelStats]:
        stats = await self.http.stats(topic=topic, include_mem=False)
        return {each.channel_name: each for found in stats.topics for each in found.channels}

    async def only_channels(self, topic: str, *names: str) -> None:
        """Wait until the topic has these channels only."""
        while sorted(await self.channels(topic)) != sorted(names):  # noqa: ASYNC110 - nsqd tells nobody
            await anyio.sleep(0.01)


@asynccontextmanager
async def stage(**bounds: int) -> AsyncGenerator[Stage]:
    async with (
        nsq.embedded.nsqd() as nsqd,
        nsq.http.Nsqd(nsqd.http_url) as http,
        background_tasks() as tasks,
    ):
        upstream = Upstream((), (nsqd.http_url,), AdminOptions())
        async with upstream.opened():
            watch = Watch(upstream, interval=INTERVAL)
            tasks.start_soon(watch.run)
            async with background_tasks() as own:
                with anyio.fail_after(60):
                    yield Stage(own, nsqd, http, watch, upstream, MessageBounds(**bounds))


async def ended(job: Job) -> None:
    """Wait until a job has ended."""
    while job.is_running:  # noqa: ASYNC110 - it tells nobody
        await anyio.sleep(0.01)
