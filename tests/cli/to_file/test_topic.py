"""One topic, from an embedded nsqd into files: what is finished when, and what goes back."""

from __future__ import annotations

import logging
import os
import re
import resource
import threading
from functools import partial

import anyio
import pytest

from nsq_anyio.cli.to_file.encodings import Encoding, Gzip
from nsq_anyio.cli.to_file.rotation import RotatingFile, Rotation
from nsq_anyio.cli.to_file.topic import CannotWrite

from .topic_setup import LONG, Setup, has_finished, setup, until

__all__ = ["setup"]

pytestmark = pytest.mark.anyio


async def test_written_soon_and_finished_when_synced(setup: Setup) -> None:
    async with setup.archiving() as (consumer, _):
        await setup.publish(b"a", b"b")
        await until(lambda: setup.lines() == [b"a", b"b"])
        assert consumer.in_flight == 2
        assert consumer.statistics().finished == 0
    assert consumer.statistics().finished == 2
    channel = await setup.channel()
    assert (channel.depth, channel.in_flight_count, channel.requeue_count) == (0, 0, 0)


async def test_synced_after_the_interval(setup: Setup) -> None:
    async with setup.archiving(sync_interval=0.3) as (consumer, _):
        await setup.publish(b"a")
        await until(lambda: consumer.statistics().finished == 1)
        await setup.publish(b"b")
        await until(lambda: consumer.statistics().finished == 2)
    assert setup.lines() == [b"a", b"b"]


async def test_an_interval_shorter_than_the_gathering(setup: Setup) -> None:
    async with setup.archiving(sync_interval=0.05) as (consumer, _):
        for number in range(3):
            await setup.publish(b"%d" % number)
            await until(partial(has_finished, consumer, number + 1))
    assert setup.lines() == [b"0", b"1", b"2"]


async def test_synced_when_starved(setup: Setup) -> None:
    bodies = [b"%d" % number for number in range(1000)]
    async with setup.archiving(max_in_flight=10) as (consumer, archiver):
        await setup.publish(*bodies)
        await until(lambda: consumer.statistics().finished >= 990)
    assert setup.lines() == bodies[: archiver.archived]
    assert archiver.archived >= 990


async def test_nothing_times_out_while_it_waits_for_its_sync(setup: Setup) -> None:
    async with setup.archiving(msg_timeout=3) as (consumer, _):
        await setup.publish(b"a")
        await until(lambda: consumer.statistics().finished == 1)
    assert consumer.statistics().timed_out == 0
    assert setup.lines() == [b"a"]


async def test_a_sync_comes_before_its_answers(setup: Setup) -> None:
    may_sync = threading.Event()

    class Slow(RotatingFile):
        def sync(self) -> None:
            assert may_sync.wait(10)
            super().sync()

    async with setup.archiving(max_in_flight=1, archive_type=Slow) as (consumer, _):
        await setup.publish(b"a", b"b")
        await until(lambda: setup.lines() == [b"a"])
        assert (await setup.channel()).in_flight_count == 1
        may_sync.set()
        await until(lambda: consumer.statistics().finished == 2)
    assert setup.lines() == [b"a", b"b"]


async def test_reopening(setup: Setup) -> None:
    moved = setup.directory / "moved"
    async with setup.archiving() as (consumer, archiver):
        await setup.publish(b"a")
        await until(lambda: setup.lines() == [b"a"])
        (setup.directory / "t").rename(moved)
        archiver.reopen()
        await until(lambda: consumer.statistics().finished == 1)
        await setup.publish(b"b")
        await until(lambda: setup.lines() == [b"b"])
    assert moved.read_bytes() == b"a\n"


@pytest.mark.parametrize("encoding", [None, Gzip()])
async def test_a_full_disk_gives_back_what_was_not_synced(setup: Setup, encoding: Encoding | None) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    big = os.urandom(5000)
    with pytest.raises(ExceptionGroup) as caught:
        async with setup.archiving(
            sync_interval=0.2, encoding=encoding, rotation=Rotation(interval=LONG)
        ) as (
            consumer,
            _,
        ):
            await setup.publish(b"a")
            await until(lambda: consumer.statistics().finished == 1)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
            try:
                await setup.publish(b"b", big, b"c")
                await anyio.sleep_forever()
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    (error,) = caught.value.exceptions
    assert isinstance(error, CannotWrite)
    assert re.fullmatch(
        rf"cannot write {setup.directory}/t-000000: File too large; 3 messages go back to nsqd", str(error)
    )
    await setup.until_channel(lambda channel: channel.depth == 3)
    assert (await setup.channel()).in_flight_count == 0
    assert len(list(setup.directory.iterdir())) == 1
    if encoding is None:
        assert setup.lines() == [b"a"]


async def test_cancelled_it_finishes_nothing_more(setup: Setup) -> None:
    with anyio.CancelScope() as scope:
        async with setup.archiving(rotation=Rotation(interval=LONG)):
            await setup.publish(b"a")
            await until(lambda: setup.lines() == [b"a"])
            scope.cancel()
            await anyio.sleep_forever()
    await setup.until_channel(lambda channel: channel.depth == 1)
    assert setup.lines() == []


async def test_trouble_after_trouble_is_told(setup: Setup, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(RotatingFile):
        def sync(self) -> None:
            raise OSError(5, "Input/output error")

        def abandon(self) -> None:
            raise OSError(30, "Read-only file system")

    with caplog.at_level(logging.ERROR), pytest.raises(ExceptionGroup) as caught:
        async with setup.archiving(max_in_flight=1, archive_type=Broken):
            await setup.publish(b"a")
            await anyio.sleep_forever()
    assert "Input/output error; 1 messages go back" in str(caught.value.exceptions[0])
    assert "Read-only file system" in caplog.text
