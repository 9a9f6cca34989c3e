"""An embedded nsqd whose disk fails or is full: what was safe stays, and what is not is said."""

import errno
import logging
import os
import shutil
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio
import pytest

from nsq_anyio import embedded
from nsq_anyio.embedded import DataPathUnusable, EmbeddedNsqd, NsqdOptions
from tests.embedded.raw_client import mpub, raw_client, until
from tests.embedded.test_nsqd_data_path import ON_DISK, channel_of, files, post

pytestmark = pytest.mark.anyio

COUNT = 300
BODIES = [b"%03d" % number for number in range(COUNT)]


class FailingWrites:
    """Writes to files below a directory fail with EIO while ``are_failing`` says so of the file's name."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.are_failing: Callable[[str], bool] = lambda _: False
        self._write = os.write

    def __call__(self, descriptor: int, data: bytes) -> int:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.is_relative_to(self.directory) and self.are_failing(path.name):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return self._write(descriptor, data)

    def once(self, name: str) -> None:
        """Let the next write to the queue ``name`` fail."""
        left = [None]
        self.are_failing = lambda file: file.startswith(name) and bool(left) and left.pop() is None


@pytest.fixture
def writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FailingWrites:
    failing = FailingWrites(tmp_path / "data")
    failing.directory.mkdir()
    monkeypatch.setattr(os, "write", failing)
    return failing


def as_killed(directory: Path) -> AbstractAsyncContextManager[EmbeddedNsqd]:
    """An nsqd that finds what one would find that follows another which was killed now."""
    copy = directory.with_name(f"{directory.name}-killed")
    shutil.copytree(directory, copy, dirs_exist_ok=False)
    return embedded.nsqd(data_path=copy, options=ON_DISK)


async def received(nsqd: EmbeddedNsqd, *, channel: str = "c") -> set[bytes]:
    """The bodies of all messages of a channel, which are finished."""
    found: set[bytes] = set()
    async with raw_client(nsqd.tcp_address) as client:
        await client.subscribe("t", channel, rdy=50)
        while not await client.silent(0.3):
            message = await client.message()
            found.add(message.body)
            await client.fin(message)
    return found


async def make_channel(nsqd: EmbeddedNsqd, channel: str = "c", topic: str = "t") -> None:
    assert (await post(nsqd, f"channel/create?topic={topic}&channel={channel}")).status_code == 200


async def publish(nsqd: EmbeddedNsqd) -> None:
    async with raw_client(nsqd.tcp_address) as client:
        assert await client.ask(mpub("t", *BODIES)) == b"OK"


# The end.


async def test_a_failing_write_at_the_end_loses_nothing_that_was_on_disk(writes: FailingWrites) -> None:
    with pytest.raises(DataPathUnusable, match=r"not everything could be stored .* Input/output error"):
        async with (
            embedded.nsqd(data_path=writes.directory, options=ON_DISK) as nsqd,
            raw_client(nsqd.tcp_address) as client,
        ):
            await post(nsqd, "topic/create?topic=t")
            await make_channel(nsqd)
            await publish(nsqd)
            await client.subscribe("t", "c", rdy=50)
            await client.messages(50)
            writes.once("t:c")
    async with embedded.nsqd(data_path=writes.directory, options=ON_DISK) as nsqd:
        assert await received(nsqd) == set(BODIES)


async def test_what_was_in_memory_alone_and_cannot_be_stored_is_counted(writes: FailingWrites) -> None:
    options = NsqdOptions(mem_queue_size=100)
    with pytest.raises(DataPathUnusable, match="100 messages could not be stored at the end, and are lost"):
        async with embedded.nsqd(data_path=writes.directory, options=options) as nsqd:
            await publish(nsqd)
            writes.are_failing = lambda name: name.startswith("t.")
    async with embedded.nsqd(data_path=writes.directory, options=ON_DISK) as nsqd:
        await make_channel(nsqd)
        assert await received(nsqd) == set(BODIES[100:])


# Messages on their way from a topic to its channels.


@pytest.mark.parametrize("unpausing", [False, True])
async def test_a_topic_keeps_what_its_channels_cannot_write(writes: FailingWrites, unpausing: bool) -> None:
    async with embedded.nsqd(data_path=writes.directory, options=ON_DISK) as nsqd:
        await post(nsqd, "topic/create?topic=t")
        if unpausing:
            await post(nsqd, "topic/pause?topic=t")
            await make_channel(nsqd)
            await make_channel(nsqd, "d")
        await publish(nsqd)
        writes.are_failing = lambda name: name.startswith("t:c")
        if unpausing:
            await post(nsqd, "topic/unpause?topic=t")
        else:
            await make_channel(nsqd)
        await until(lambda: channel_of(nsqd).depth == COUNT)
        await anyio.sleep(0.1)
        async with as_killed(writes.directory) as successor:
            await make_channel(successor)
            assert await received(successor) == set(BODIES)
        # Consumers get them meanwhile, from memory.
        assert await received(nsqd) == set(BODIES)
        writes.are_failing = lambda _: False
        await until(lambda: not nsqd.topics["t"].depth)


async def test_what_could_not_be_written_is_written_later(writes: FailingWrites) -> None:
    async with embedded.nsqd(data_path=writes.directory, options=ON_DISK) as nsqd:
        await publish(nsqd)
        writes.are_failing = lambda name: name.startswith("t:c")
        await make_channel(nsqd)
        channel = channel_of(nsqd)
        await until(lambda: (channel.depth, channel.backend_depth) == (COUNT, 0))
        writes.are_failing = lambda _: False
        await until(lambda: channel.backend_depth == COUNT)
        assert channel.depth == COUNT
        await until(lambda: not nsqd.topics["t"].depth)
    async with embedded.nsqd(data_path=writes.directory, options=ON_DISK) as nsqd:
        assert channel_of(nsqd).depth == COUNT
        assert await received(nsqd) == set(BODIES)


async def test_a_topic_keeps_them_when_it_is_stopped(writes: FailingWrites) -> None:
    with pytest.raises(DataPathUnusable, match="not everything could be stored"):
        async with embedded.nsqd(data_path=writes.directory, options=ON_DISK) as nsqd:
            await publish(nsqd)
            writes.are_failing = lambda name: name.startswith("t:c")
            await make_channel(nsqd)
            await until(lambda: channel_of(nsqd).depth == COUNT)
    writes.are_failing = lambda _: False
    async with embedded.nsqd(data_path=writes.directory, options=ON_DISK) as nsqd:
        assert await received(nsqd) == set(BODIES)


async def test_a_requeued_message_that_cannot_be_written_stays_where_it_was(tmp_path: Path) -> None:
    options = NsqdOptions(mem_queue_size=0, max_bytes_per_file=60, max_msg_size=30)
    full = tmp_path / "t:c.diskqueue.000001.dat"
    with pytest.raises(DataPathUnusable, match="not everything could be stored"):
        async with (
            embedded.nsqd(data_path=tmp_path, options=options) as nsqd,
            raw_client(nsqd.tcp_address) as client,
        ):
            await client.subscribe("t", "c")
            await client.publish("t", b"x")
            await client.rdy(1)
            message = await client.message()
            full.symlink_to("/dev/full")
            await client.send(b"RDY 0\n")
            await client.req(message, 0)
            await until(lambda: channel_of(nsqd).depth == 1)
    full.unlink()
    async with embedded.nsqd(data_path=tmp_path, options=options) as nsqd:
        assert await received(nsqd) == {b"x"}


# The list of topics.


def listed(directory: Path) -> bool:
    return b'"later"' in (directory / "nsqd.dat").read_bytes()


async def test_the_list_of_topics_is_written_once_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    options = NsqdOptions(mem_queue_size=0, sync_timeout=0.05)
    async with embedded.nsqd(data_path=tmp_path, options=options) as nsqd:
        full = tmp_path / "nsqd.dat.tmp"
        full.symlink_to("/dev/full")
        await post(nsqd, "topic/create?topic=later")
        # A successor would not find the topic, and not deliver the message.
        assert (await post(nsqd, "pub?topic=later", b"x")).status_code == 503
        assert not listed(tmp_path)
        assert f"{tmp_path}/nsqd.dat" in caplog.text
        full.unlink(missing_ok=True)
        await until(lambda: listed(tmp_path))
        assert (await post(nsqd, "pub?topic=later", b"x")).status_code == 200


async def test_an_end_without_the_list_of_topics_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataPathUnusable, match=r"changes of topics be lost.*nsqd\.dat"):
        async with embedded.nsqd(data_path=tmp_path, options=ON_DISK) as nsqd:
            (tmp_path / "nsqd.dat.tmp").symlink_to("/dev/full")
            await post(nsqd, "topic/create?topic=later")


# Removing.


@pytest.mark.parametrize("kind", ["topic", "channel"])
@pytest.mark.parametrize("action", ["delete", "empty"])
async def test_what_was_removed_is_not_back_after_a_crash(
    writes: FailingWrites, kind: str, action: str
) -> None:
    async with embedded.nsqd(data_path=writes.directory, options=ON_DISK) as nsqd:
        await post(nsqd, "topic/create?topic=t")
        if kind == "channel":
            await make_channel(nsqd)
        await publish(nsqd)
        assert files(writes.directory)
        assert (await post(nsqd, f"{kind}/{action}?topic=t&channel=c")).status_code == 200
        killed = writes.directory.with_name("killed")
        shutil.copytree(writes.directory, killed)
        assert not files(killed)
        name = b'"t"' if kind == "topic" else b'"c"'
        assert (name in (killed / "nsqd.dat").read_bytes()) == (action == "empty")


async def test_messages_that_cannot_be_removed_are_an_error(tmp_path: Path) -> None:
    async with embedded.nsqd(data_path=tmp_path, options=ON_DISK) as nsqd:
        await publish(nsqd)
        path = tmp_path / "t.diskqueue.000000.dat"
        path.unlink()
        path.mkdir()
        reply = await post(nsqd, "topic/empty?topic=t")
        assert (reply.status_code, reply.json()) == (500, {"message": "INTERNAL_ERROR"})
        path.rmdir()
