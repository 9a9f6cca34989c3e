"""An archiver for tests, of an embedded nsqd's topic."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.cli.to_file.encodings import Encoding
from nsq_anyio.cli.to_file.file_names import NameFormat
from nsq_anyio.cli.to_file.rotation import FileOptions, RotatingFile, Rotation
from nsq_anyio.cli.to_file.topic import Sending, Syncing, TopicArchiver
from nsq_anyio.embedded import EmbeddedNsqd
from nsq_anyio.http.stats import ChannelStats
from nsq_anyio.storage.place import Place

LONG = 60.0


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(10):
        while not condition():  # noqa: ASYNC110 - files tell nobody
            await anyio.sleep(0.005)


def has_finished(consumer: nsq.Consumer, count: int) -> bool:
    return consumer.statistics().finished == count


class Setup:
    def __init__(self, nsqd: EmbeddedNsqd, directory: Path) -> None:
        self.nsqd = nsqd
        self.directory = directory
        self.sending = Sending(2)

    async def publish(self, *bodies: bytes) -> None:
        async with nsq.http.Nsqd(self.nsqd.http_url) as http:
            await http.publish_many("t", bodies)

    async def channel(self) -> ChannelStats:
        async with nsq.http.Nsqd(self.nsqd.http_url) as http:
            stats = await http.stats(topic="t", channel="c", include_mem=False)
        return stats.topics[0].channels[0]

    async def until_channel(self, condition: Callable[[ChannelStats], bool]) -> None:
        with anyio.fail_after(10):
            while not condition(await self.channel()):  # noqa: ASYNC110 - nsqd tells nobody
                await anyio.sleep(0.005)

    def lines(self) -> list[bytes]:
        """Of all files, in order."""
        return [line for path in sorted(self.directory.glob("t*")) for line in path.read_bytes().splitlines()]

    @asynccontextmanager
    async def archiving(
        self,
        *,
        sync_interval: float = LONG,
        max_in_flight: int = 100,
        msg_timeout: float | None = None,
        encoding: Encoding | None = None,
        rotation: Rotation | None = None,
        archive_type: type[RotatingFile] = RotatingFile,
        output: Place | None = None,
    ) -> AsyncGenerator[tuple[nsq.Consumer, TopicArchiver]]:
        options = FileOptions(
            output_dir=output or self.directory,
            work_dir=self.directory,
            encoding=encoding,
            rotation=rotation or Rotation(),
            skip_empty_files=True,
        )
        names = NameFormat("<TOPIC><REV>", "", "", "", options.numbered).of_topic("t")
        archive = archive_type(names, options, clock=datetime.now, monotonic=time.monotonic)
        async with anyio.create_task_group() as tasks:
            async with nsq.consume(
                "t",
                "c",
                nsqd=self.nsqd.tcp_address,
                max_in_flight=max_in_flight,
                connection=nsq.ConnectionOptions(msg_timeout=msg_timeout),
            ) as consumer:
                syncing = Syncing(sync_interval, max_in_flight)
                archiver = TopicArchiver(consumer, archive, syncing, anyio.CapacityLimiter(1), self.sending)
                ended = anyio.Event()

                async def run() -> None:
                    try:
                        await archiver.run()
                    finally:
                        ended.set()

                tasks.start_soon(run)
                await consumer.ready()
                yield consumer, archiver
                consumer.stop()
                await ended.wait()


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncGenerator[Setup]:
    async with nsq.embedded.nsqd() as nsqd:
        yield Setup(nsqd, tmp_path)
