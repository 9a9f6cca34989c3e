"""An embedded nsqd with a data path: what survives its end, and what a full disk does."""

import json
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from nsq_anyio import embedded
from nsq_anyio.embedded import DataPathUnusable, EmbeddedNsqd, NsqdOptions
from nsq_anyio.embedded.nsqd.channel import Channel
from tests.embedded.raw_client import RawClient, dpub, mpub, pub, raw_client, until

pytestmark = pytest.mark.anyio

ON_DISK = NsqdOptions(mem_queue_size=0)
EVERY_SIZE = pytest.mark.parametrize("size", [0, 3, 10_000])


async def post(nsqd: EmbeddedNsqd, path: str, body: bytes = b"") -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False) as http:
        return await http.post(f"{nsqd.http_url}/{path}", content=body)


async def get(nsqd: EmbeddedNsqd, path: str) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False) as http:
        return await http.get(f"{nsqd.http_url}/{path}")


async def backend_depths(nsqd: EmbeddedNsqd) -> dict[str, tuple[int, int]]:
    stats = (await get(nsqd, "stats?format=json")).json()
    return {
        each["topic_name"]: (each["depth"], each["backend_depth"])
        for each in stats["topics"]
        if "settle" not in each["topic_name"]
    }


def channel_of(nsqd: EmbeddedNsqd, topic: str = "t", channel: str = "c") -> Channel:
    return nsqd.topics[topic].channels[channel]


def files(directory: Path, pattern: str = "*.0*.dat") -> set[str]:
    """The names of the files with messages, or of others."""
    return {path.name for path in directory.glob(pattern)}


async def bodies(client: RawClient, count: int) -> list[bytes]:
    received: list[bytes] = []
    for _ in range(count):
        message = await client.message()
        received.append(message.body)
        await client.fin(message)
    return received


@EVERY_SIZE
async def test_messages_survive_a_restart_wherever_they_are(tmp_path: Path, size: int) -> None:
    options = NsqdOptions(mem_queue_size=size)
    async with embedded.nsqd(data_path=tmp_path, options=options) as nsqd, raw_client(nsqd.tcp_address) as a:
        await a.publish("alone", b"1", b"2", b"3", b"4", b"5")
        await a.subscribe("t", "c")
        await a.publish("t", *(b"%d" % number for number in range(20)))
        assert await a.ask(dpub("t", 600_000, b"deferred")) == b"OK"
        await a.rdy(2)
        first, deferred = await a.messages(2)
        await a.send(b"RDY 1\n")
        await a.fin(first)
        await a.req(deferred, 600_000)
        await a.message()
        await a.settle()
        channel = channel_of(nsqd)
        assert (channel.depth, len(channel.in_flight), len(channel.deferred)) == (17, 1, 2)
    async with embedded.nsqd(data_path=tmp_path, options=options) as nsqd, raw_client(nsqd.tcp_address) as b:
        channel = channel_of(nsqd)
        assert (channel.depth, channel.backend_depth, len(channel.deferred)) == (20, 20, 0)
        assert (nsqd.topics["alone"].depth, nsqd.topics["alone"].backend_depth) == (5, 5)
        await b.subscribe("t", "c", rdy=5)
        received = await bodies(b, 20)
        assert sorted(received) == sorted(
            [b"deferred", *(b"%d" % n for n in range(20) if b"%d" % n != first.body)]
        )
        await b.settle()
        assert channel.depth == 0
    async with embedded.nsqd(data_path=tmp_path, options=options) as nsqd, raw_client(nsqd.tcp_address) as c:
        assert channel_of(nsqd).depth == 0
        await c.subscribe("alone", "late", rdy=5)
        assert sorted(await bodies(c, 5)) == [b"1", b"2", b"3", b"4", b"5"]


async def test_attempts_go_on_after_a_restart(tmp_path: Path) -> None:
    for attempt in (1, 2, 3):
        async with embedded.nsqd(data_path=tmp_path) as nsqd, raw_client(nsqd.tcp_address) as client:
            if attempt == 1:
                await client.publish("t", b"x")
            await client.subscribe("t", "c", rdy=1)
            message = await client.message()
            assert (message.attempts, message.body) == (attempt, b"x")


async def test_memory_first_then_the_disk(tmp_path: Path) -> None:
    options = NsqdOptions(mem_queue_size=5)
    async with (
        embedded.nsqd(data_path=tmp_path, options=options) as nsqd,
        raw_client(nsqd.tcp_address) as client,
    ):
        await post(nsqd, "topic/create?topic=t")
        await post(nsqd, "channel/create?topic=t&channel=c")
        await client.publish("t", *(b"%02d" % number for number in range(12)))
        channel = channel_of(nsqd)
        assert (channel.depth, channel.backend_depth) == (12, 7)
        await client.subscribe("t", "c", rdy=1)
        assert await bodies(client, 12) == [b"%02d" % number for number in range(12)]


@EVERY_SIZE
async def test_a_requeued_message_comes_again_once(tmp_path: Path, size: int) -> None:
    options = NsqdOptions(mem_queue_size=size, msg_timeout=0.1)
    async with (
        embedded.nsqd(data_path=tmp_path, options=options) as nsqd,
        raw_client(nsqd.tcp_address) as client,
    ):
        await client.subscribe("t", "c")
        await client.publish("t", b"x")
        await client.rdy(1)
        await client.req(await client.message(), 0)
        await client.req(await client.message(), 20)
        third = await client.message()
        assert third.attempts == 3
        fourth = await client.message()  # the third one has timed out
        assert (fourth.attempts, fourth.id) == (4, third.id)
        await client.fin(fourth)
        assert await client.silent(0.15)
        channel = channel_of(nsqd)
        assert (channel.depth, len(channel.in_flight), len(channel.deferred)) == (0, 0, 0)


@EVERY_SIZE
async def test_deferred_messages_come_in_time(tmp_path: Path, size: int) -> None:
    options = NsqdOptions(mem_queue_size=size)
    async with (
        embedded.nsqd(data_path=tmp_path, options=options) as nsqd,
        raw_client(nsqd.tcp_address) as client,
    ):
        await client.subscribe("t", "c", rdy=5)
        sent_at = anyio.current_time()
        await client.send(dpub("t", 400, b"later") + pub("t", b"now"))
        frames = [await client.frame() for _ in range(4)]
        # The difference of two floats is not exact: without rounding, 400 ms of uvloop's clock can be less.
        assert round(anyio.current_time() - sent_at, 6) >= 0.4
        # A message may come before the answer to its publish.
        assert sorted(kind for kind, _ in frames) == [0, 0, 2, 2]
        assert [data[26:] for kind, data in frames if kind == 2] == [b"now", b"later"]


async def test_an_expired_delay_of_a_message_that_is_still_being_written(tmp_path: Path) -> None:
    async with (
        embedded.nsqd(data_path=tmp_path, options=ON_DISK) as nsqd,
        raw_client(nsqd.tcp_address) as client,
    ):
        await client.subscribe("t", "c", rdy=50)
        await client.send(b"".join(dpub("t", 1, b"%d" % number) for number in range(50)))
        frames = [await client.frame() for _ in range(100)]
        assert sorted(data[26:] for kind, data in frames if kind == 2) == sorted(b"%d" % n for n in range(50))
        assert [data for kind, data in frames if kind == 0] == [b"OK"] * 50
        assert channel_of(nsqd).depth == 0


async def test_delays_that_are_kept(tmp_path: Path) -> None:
    options = NsqdOptions(mem_queue_size=0, keep_deferred=True)
    async with (
        embedded.nsqd(data_path=tmp_path, options=options) as nsqd,
        raw_client(nsqd.tcp_address) as client,
    ):
        await client.subscribe("t", "c")
        assert await client.ask(dpub("t", 600_000, b"much later")) == b"OK"
        assert await client.ask(dpub("t", 2000, b"soon")) == b"OK"
        await client.publish("t", b"now")
    async with (
        embedded.nsqd(data_path=tmp_path, options=options) as nsqd,
        raw_client(nsqd.tcp_address) as client,
    ):
        channel = channel_of(nsqd)
        assert (channel.depth, len(channel.deferred)) == (1, 2)
        await client.subscribe("t", "c", rdy=5)
        assert await bodies(client, 2) == [b"now", b"soon"]
        assert await client.silent(0.05)
    async with embedded.nsqd(data_path=tmp_path, options=options) as nsqd:
        channel = channel_of(nsqd)
        assert (channel.depth, len(channel.deferred)) == (0, 1)
    # Without the option they come at once, as nsqd's.
    async with embedded.nsqd(data_path=tmp_path) as nsqd, raw_client(nsqd.tcp_address) as client:
        await client.subscribe("t", "c", rdy=5)
        assert await bodies(client, 1) == [b"much later"]


@pytest.mark.parametrize("years", [0.0001, 10])
async def test_delays_are_no_longer_where_the_clock_was_set_back(
    tmp_path: Path, years: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = NsqdOptions(mem_queue_size=0, keep_deferred=True)
    ahead = round(years * 365 * 86400 * 1e9)
    actual = time.time_ns
    async with (
        embedded.nsqd(data_path=tmp_path, options=options) as nsqd,
        raw_client(nsqd.tcp_address) as client,
    ):
        monkeypatch.setattr(time, "time_ns", lambda: actual() + ahead)
        await client.subscribe("t", "c")
        assert await client.ask(dpub("t", 1000, b"soon")) == b"OK"
    monkeypatch.undo()
    async with (
        embedded.nsqd(data_path=tmp_path, options=options) as nsqd,
        raw_client(nsqd.tcp_address) as client,
    ):
        assert len(channel_of(nsqd).deferred) == 1
        await client.subscribe("t", "c", rdy=5)
        assert await bodies(client, 1) == [b"soon"]


async def test_pauses_and_names_survive(tmp_path: Path) -> None:
    async with embedded.nsqd(data_path=tmp_path) as nsqd, raw_client(nsqd.tcp_address) as client:
        await post(nsqd, "topic/create?topic=t")
        await post(nsqd, "channel/create?topic=t&channel=paused")
        await post(nsqd, "channel/pause?topic=t&channel=paused")
        await post(nsqd, "topic/create?topic=paused")
        await post(nsqd, "topic/pause?topic=paused")
        written = json.loads((tmp_path / "nsqd.dat").read_bytes())  # before the answer, as in nsqd
        assert [topic["paused"] for topic in written["topics"]] == [False, True]
        assert written["topics"][0]["channels"] == [{"name": "paused", "paused": True}]
        await client.subscribe("t", "gone#ephemeral")
        await client.publish("gone#ephemeral", b"x")
    async with embedded.nsqd(data_path=tmp_path) as nsqd:
        assert {name: topic.is_paused for name, topic in nsqd.topics.items()} == {"t": False, "paused": True}
        assert {name: each.is_paused for name, each in nsqd.topics["t"].channels.items()} == {"paused": True}


async def test_emptying_and_deleting_remove_the_files(tmp_path: Path) -> None:
    async with (
        embedded.nsqd(data_path=tmp_path, options=ON_DISK) as nsqd,
        raw_client(nsqd.tcp_address) as client,
    ):
        for topic in ("emptied", "deleted"):
            await post(nsqd, f"topic/create?topic={topic}")
            await post(nsqd, f"channel/create?topic={topic}&channel=c")
        await client.publish("emptied", b"x", b"y")
        await client.publish("deleted", b"x")
        await client.publish("alone", b"x")
        assert files(tmp_path) == {
            *("emptied:c.diskqueue.000000.dat", "deleted:c.diskqueue.000000.dat"),
            "alone.diskqueue.000000.dat",
        }
        await post(nsqd, "channel/empty?topic=emptied&channel=c")
        await post(nsqd, "topic/delete?topic=deleted")
        await post(nsqd, "topic/empty?topic=alone")
        await until(lambda: not files(tmp_path))
        await until(lambda: not files(tmp_path, "deleted*"))
        await client.publish("emptied", b"after")
        assert channel_of(nsqd, "emptied").depth == 1
    async with embedded.nsqd(data_path=tmp_path) as nsqd, raw_client(nsqd.tcp_address) as client:
        assert sorted(nsqd.topics) == ["alone", "emptied"]
        await client.subscribe("emptied", "c", rdy=2)
        assert await bodies(client, 1) == [b"after"]
        assert nsqd.topics["alone"].depth == 0


async def test_files_are_removed_when_their_messages_are_finished(tmp_path: Path) -> None:
    options = NsqdOptions(mem_queue_size=0, max_bytes_per_file=1000, max_msg_size=900, sync_timeout=0.01)
    async with (
        embedded.nsqd(data_path=tmp_path, options=options) as nsqd,
        raw_client(nsqd.tcp_address) as client,
    ):
        await client.subscribe("t", "c")
        assert await client.ask(mpub("t", *(b"%050d" % number for number in range(200)))) == b"OK"
        assert len(files(tmp_path)) > 10
        await client.rdy(10)
        held = await client.message()
        assert len(await bodies(client, 199)) == 199
        await anyio.sleep(0.1)
        assert (tmp_path / "t:c.diskqueue.000000.dat").exists()  # it has a message in flight
        await client.fin(held)
        await until(lambda: len(files(tmp_path)) == 1)


@pytest.mark.parametrize("size", [0, 2])
async def test_ephemeral_topics_and_channels_have_no_files(tmp_path: Path, size: int) -> None:
    options = NsqdOptions(mem_queue_size=size)
    async with (
        embedded.nsqd(data_path=tmp_path, options=options) as nsqd,
        raw_client(nsqd.tcp_address) as client,
    ):
        await client.subscribe("t", "c#ephemeral")
        await client.publish("t", b"1", b"2", b"3")
        await client.publish("t#ephemeral", b"1", b"2", b"3")
        assert channel_of(nsqd, "t", "c#ephemeral").depth == size
        assert nsqd.topics["t#ephemeral"].depth == size
        await client.rdy(5)
        assert await bodies(client, size) == [b"1", b"2"][:size]
        await client.settle()
        await client.publish("t", b"4")
        assert await bodies(client, 1) == [b"4"]
        assert not files(tmp_path, "*ephemeral*")


async def test_many_publishers_share_a_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs: list[int] = []
    fsync = os.fsync

    def counted(descriptor: int) -> None:
        syncs.append(descriptor)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", counted)
    options = NsqdOptions(mem_queue_size=0, sync_every=1)
    async with embedded.nsqd(data_path=tmp_path, options=options) as nsqd:
        await post(nsqd, "topic/create?topic=t")
        await post(nsqd, "channel/create?topic=t&channel=c")
        async with raw_client(nsqd.tcp_address) as client:
            await client.publish("t", b"first")
            before = len(syncs)
            await client.publish("t", b"alone")
            assert len(syncs) > before
            before = len(syncs)
            await client.send(b"".join(pub("t", b"%d" % number) for number in range(500)))
            assert [await client.response() for _ in range(500)] == [b"OK"] * 500
            assert 1 <= len(syncs) - before <= 20


async def test_a_start_does_not_list_the_directory_for_each_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        embedded.nsqd(data_path=tmp_path, options=ON_DISK) as nsqd,
        raw_client(nsqd.tcp_address) as client,
    ):
        for number in range(30):
            await client.publish(f"t{number}", b"x")
    listed: list[object] = []
    listdir: Callable[[Path], list[str]] = os.listdir

    def counted(path: Path) -> list[str]:
        listed.append(path)
        return listdir(path)

    monkeypatch.setattr(os, "listdir", counted)
    async with embedded.nsqd(data_path=tmp_path, options=ON_DISK) as nsqd:
        assert len(nsqd.topics) == 30
        assert {topic.depth for topic in nsqd.topics.values()} == {1}
    assert len(listed) < 5


async def test_responses_keep_their_order(tmp_path: Path) -> None:
    async with (
        embedded.nsqd(data_path=tmp_path, options=ON_DISK) as nsqd,
        raw_client(nsqd.tcp_address) as client,
    ):
        await client.send(
            pub("t", b"x") + b"SUB t c\n" + pub("t", b"y") + b"CLS\n" + b"FIN 0123456789abcdef\n"
        )
        assert [await client.frame() for _ in range(5)] == [
            *((0, b"OK"), (0, b"OK"), (0, b"OK"), (0, b"CLOSE_WAIT")),
            (1, b"E_FIN_FAILED FIN 0123456789abcdef failed ID not in flight"),
        ]


async def test_a_client_that_stops_sending_gets_its_responses(tmp_path: Path) -> None:
    async with embedded.nsqd(data_path=tmp_path, options=ON_DISK) as nsqd:
        host, _, port = nsqd.tcp_address.rpartition(":")
        async with await anyio.connect_tcp(host, int(port)) as stream:
            await stream.send(b"  V2" + pub("t", b"x"))
            await stream.send_eof()
            assert (await stream.receive()).endswith(b"OK")


@pytest.mark.parametrize("command", ["PUB", "MPUB", "DPUB"])
async def test_a_full_disk_is_an_answer(
    tmp_path: Path, command: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    async with embedded.nsqd(data_path=tmp_path, options=ON_DISK) as nsqd:
        await post(nsqd, "topic/create?topic=t")
        await post(nsqd, "channel/create?topic=t&channel=c")
        full = tmp_path / "t:c.diskqueue.000000.dat"
        await post(nsqd, "channel/unpause?topic=t&channel=c")  # it waits for the disk, so the queue is open
        full.symlink_to("/dev/full")
        sent = {"PUB": pub("t", b"x"), "MPUB": mpub("t", b"x", b"y"), "DPUB": dpub("t", 1000, b"x")}[command]
        async with raw_client(nsqd.tcp_address) as client:
            await client.send(sent)
            text = await client.error()
            assert text.startswith(f"E_{command}_FAILED {command} failed write ".encode())
            assert text.endswith(b"t:c.diskqueue.000000.dat: no space left on device")
            assert await client.closed()
        reply = await get(nsqd, "ping")
        assert (reply.status_code, reply.text.startswith("NOK - write ")) == (500, True)
        assert (await get(nsqd, "stats?format=json")).json()["health"] == reply.text
        reply = await post(nsqd, "pub?topic=t", b"x")
        assert (reply.status_code, reply.json()) == (503, {"message": "EXITING"})
        channel = channel_of(nsqd)
        assert (channel.depth, len(channel.deferred), channel.message_count) == (0, 0, 0)
        full.unlink()
        assert (await post(nsqd, "pub?topic=t", b"x")).text == "OK"
        assert (await get(nsqd, "ping")).text == "OK"
        assert channel.depth == 1


async def test_a_requeued_message_stays_in_memory_when_the_disk_is_full(tmp_path: Path) -> None:
    options = NsqdOptions(mem_queue_size=0, max_bytes_per_file=60, max_msg_size=30)
    async with (
        embedded.nsqd(data_path=tmp_path, options=options) as nsqd,
        raw_client(nsqd.tcp_address) as client,
    ):
        await client.subscribe("t", "c")
        await client.publish("t", b"x")
        await client.rdy(1)
        message = await client.message()
        full = tmp_path / "t:c.diskqueue.000001.dat"
        full.symlink_to("/dev/full")
        await client.send(b"RDY 0\n")
        await client.req(message, 0)
        await until(lambda: channel_of(nsqd).depth == 1 and channel_of(nsqd).backend_depth == 0)
        assert (await get(nsqd, "ping")).status_code == 500
        await client.rdy(1)
        again = await client.message()
        assert (again.attempts, again.body) == (2, b"x")
        await client.publish("settle#ephemeral", b"x")
        full.unlink()


async def test_a_data_path_has_one_nsqd(tmp_path: Path) -> None:
    async with embedded.nsqd(data_path=tmp_path):
        with pytest.raises(DataPathUnusable, match="locked"):
            async with embedded.nsqd(data_path=tmp_path):
                pass
    async with embedded.nsqd(data_path=tmp_path):
        pass


@pytest.mark.parametrize("kind", ["missing", "file"])
async def test_a_data_path_must_be_a_directory(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    if kind == "file":
        path.touch()
    with pytest.raises(DataPathUnusable, match=r"cannot use data path .*/x: N"):
        async with embedded.nsqd(data_path=path):
            pass


async def test_a_data_path_must_be_writable() -> None:
    with pytest.raises(DataPathUnusable, match="/proc/1"):
        async with embedded.nsqd(data_path="/proc/1"):
            pass


@pytest.mark.parametrize("times", [1, 2])
async def test_cancelling_the_block_stores_everything(
    tmp_path: Path, times: int, anyio_backend_name: str
) -> None:
    """A second cancellation reaches through the shield on asyncio only."""
    entered = anyio.Event()

    async def run() -> None:
        async with embedded.nsqd(data_path=tmp_path) as nsqd, raw_client(nsqd.tcp_address) as client:
            await client.publish("t", *(b"%d" % number for number in range(100)))
            entered.set()
            await anyio.sleep_forever()

    if anyio_backend_name == "asyncio":
        import asyncio

        task: Any = asyncio.ensure_future(run())
        await entered.wait()
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await entered.wait()
            tasks.cancel_scope.cancel()
    async with embedded.nsqd(data_path=tmp_path) as nsqd:
        assert nsqd.topics["t"].depth == 100
