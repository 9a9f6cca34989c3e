"""A data path that real and embedded nsqds use by turns: nothing is lost, and nothing comes twice.

`NSQ_ANYIO_EXCHANGE` is the number of messages; the default is smaller, because CI has little time.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.embedded.raw_client import RawClient, RawMessage, dpub, mpub, raw_client

from .cluster import Cluster, Kind, Server

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

COUNT = int(os.environ.get("NSQ_ANYIO_EXCHANGE", "8000"))
OPTIONS: dict[str, Any] = {
    "mem_queue_size": COUNT // 20,
    "max_bytes_per_file": COUNT * 3,
    "msg_timeout": 600.0,
}
IN_FLIGHT = 50
DEFERRED = 40
LONG = 600_000
ODD_TOPICS = ("t", "t.diskqueue.000000.dat", "-._" + "x" * 61, "t.diskqueue.meta.dat")
CHANNELS = ("c", "c.diskqueue.000001", "paused")


@dataclass
class Queue:
    """What was published to a channel, and what was finished there."""

    topic: str
    channel: str
    published: set[int] = field(default_factory=set[int])
    finished: list[int] = field(default_factory=list[int])

    @property
    def missing(self) -> int:
        return len(self.published) - len(self.finished)

    def check(self) -> None:
        assert len(self.finished) == len(set(self.finished)), "a message came twice"
        assert set(self.finished) == self.published


async def publish(client: RawClient, topic: str, numbers: Sequence[int]) -> None:
    for start in range(0, len(numbers), 500):
        bodies = [b"%07d" % number for number in numbers[start : start + 500]]
        assert await client.ask(mpub(topic, *bodies)) == b"OK"


async def finish(client: RawClient, queue: Queue, count: int) -> list[RawMessage]:
    """Finish ``count`` messages; return those that were sent beyond that and stay in flight."""
    fins: list[bytes] = []
    for _ in range(count):
        message = await client.message()
        queue.finished.append(int(message.body))
        fins.append(b"FIN %b\n" % message.id)
        if len(fins) == IN_FLIGHT // 2:
            await client.send(b"".join(fins))
            fins.clear()
    await client.send(b"".join(fins))
    left = [await client.message() for _ in range(min(IN_FLIGHT, queue.missing))]
    await client.settle()
    return left


async def fill(server: Server, queues: list[Queue]) -> None:
    """Publish to all topics, and leave some messages in flight at a client and some deferred."""
    async with raw_client(server.tcp_address) as client, server.http() as http:
        for topic in ODD_TOPICS:
            await http.create_topic(topic)
            for channel in CHANNELS:
                await http.create_channel(topic, channel)
            await http.pause_channel(topic, "paused")
        await http.create_topic("without-channel")
        await http.create_topic("paused-topic")
        await http.create_channel("paused-topic", "c")
        await http.pause_topic("paused-topic")
        await client.publish("ephemeral#ephemeral", b"gone")
        number = 0
        for topic in (*ODD_TOPICS, "without-channel", "paused-topic"):
            numbers = range(number, number + COUNT // 6)
            number += len(numbers)
            await publish(client, topic, numbers[DEFERRED:])
            for deferred in numbers[:DEFERRED]:
                assert await client.ask(dpub(topic, LONG, b"%07d" % deferred)) == b"OK"
            for queue in queues:
                if queue.topic == topic:
                    queue.published.update(numbers)


async def state(server: Server) -> dict[str, tuple[bool, dict[str, bool]]]:
    """Which topics and channels there are, and which are paused."""
    stats = await server.stats()
    return {
        topic.topic_name: (topic.paused, {each.channel_name: each.paused for each in topic.channels})
        for topic in stats.topics
        if topic.topic_name != "settle#ephemeral"
    }


STATE: dict[str, tuple[bool, dict[str, bool]]] = {
    **{topic: (False, {"c": False, "c.diskqueue.000001": False, "paused": True}) for topic in ODD_TOPICS},
    "without-channel": (False, {}),
    "paused-topic": (True, {"c": False}),
}


def numbered_files(directory: Path) -> int:
    return len([path for path in directory.iterdir() if re.search(r"\.diskqueue\.[0-9]+\.dat$", path.name)])


def bad_files(directory: Path) -> list[Path]:
    return list(directory.glob("*.bad"))


@pytest.mark.parametrize(
    "kinds", [("real", "stored", "real"), ("stored", "real", "stored")], ids=["real-first", "embedded-first"]
)
async def test_nsqds_take_turns(kinds: Sequence[Kind], cluster: Cluster, tmp_path: Path) -> None:
    queues = [
        *(Queue(topic, channel) for topic in ODD_TOPICS for channel in CHANNELS),
        Queue("without-channel", "later"),
        Queue("paused-topic", "c"),
    ]
    # Its first owner is stopped with messages in flight, deferred and in several files.
    server = await cluster.nsqd(kinds[0], data_path=tmp_path, **OPTIONS)
    await fill(server, queues)
    async with raw_client(server.tcp_address) as client, raw_client(server.tcp_address) as gone:
        await client.subscribe("t", "c", rdy=IN_FLIGHT)
        await finish(client, queues[0], COUNT // 100)
        await gone.subscribe("t", "gone#ephemeral", rdy=1)
        await server.stop()
    assert numbered_files(tmp_path) > len(queues) * 2

    # The second one delivers half of everything that is not paused.
    server = await cluster.nsqd(kinds[1], data_path=tmp_path, **OPTIONS)
    assert await state(server) == STATE
    async with anyio.create_task_group() as tasks, server.http() as http:
        ready: list[anyio.Event] = []
        for queue in queues:
            if queue.channel == "paused" or queue.topic == "paused-topic":
                continue
            ready.append(anyio.Event())
            tasks.start_soon(deliver_half, server, queue, ready[-1])
        for event in ready:
            await event.wait()
        await http.unpause_topic("paused-topic")
        await http.unpause_channel("t", "paused")
        await server.stop()
        tasks.cancel_scope.cancel()

    # The third one delivers the rest.
    server = await cluster.nsqd(kinds[2], data_path=tmp_path, **OPTIONS)
    found = await state(server)
    assert found["paused-topic"] == (False, {"c": False})
    assert found["t"] == (False, {"c": False, "c.diskqueue.000001": False, "paused": False})
    assert found[ODD_TOPICS[1]] == STATE[ODD_TOPICS[1]]
    async with server.http() as http:
        for topic in ODD_TOPICS[1:]:
            await http.unpause_channel(topic, "paused")
    async with anyio.create_task_group() as tasks:
        for queue in queues:
            tasks.start_soon(deliver_rest, server, queue)
    for queue in queues:
        queue.check()
        found_channel = await server.channel(queue.topic, queue.channel)
        assert (found_channel.depth, found_channel.in_flight_count, found_channel.deferred_count) == (0, 0, 0)
    assert not bad_files(tmp_path)
    await server.stop()


@pytest.mark.parametrize("size", [0, 10_000])
async def test_a_depth_that_is_wrong_since_a_real_nsqd_was_killed(
    cluster: Cluster, tmp_path: Path, size: int
) -> None:
    """Its metadata then say 0 over several files, also after an orderly end."""
    count = 2400
    options: dict[str, Any] = {"mem_queue_size": 0, "sync_timeout": 60.0, "sync_every": 100_000}
    server = await cluster.nsqd("real", data_path=tmp_path, **options)
    async with raw_client(server.tcp_address) as client, server.http() as http:
        await publish(client, "t", [count])
        await client.subscribe("t", "first", rdy=1)
        await client.fin(await client.message())
        await client.settle()
        await http.delete_channel("t", "first")
    await server.stop()
    server = await cluster.nsqd("real", data_path=tmp_path, **options)
    async with raw_client(server.tcp_address) as client:
        await publish(client, "t", range(count))
    await server.kill()
    server = await cluster.nsqd("real", data_path=tmp_path, **options)
    await server.stop()
    assert (tmp_path / "t.diskqueue.meta.dat").read_text() == "0\n0,37\n1,0\n"

    server = await cluster.nsqd("stored", data_path=tmp_path, mem_queue_size=size)
    (topic,) = (await server.stats()).topics
    assert topic.depth == count
    queue = Queue("t", "c", set(range(count + 100)))
    async with raw_client(server.tcp_address) as client, raw_client(server.tcp_address) as publisher:
        await publish(publisher, "t", range(count, count + 100))
        await client.subscribe("t", "c", rdy=IN_FLIGHT)
        assert await finish(client, queue, count + 100) == []
    queue.check()


async def deliver_half(server: Server, queue: Queue, done: anyio.Event) -> None:
    async with raw_client(server.tcp_address) as client:
        await client.subscribe(queue.topic, queue.channel, rdy=IN_FLIGHT)
        await finish(client, queue, queue.missing // 2)
        done.set()
        await anyio.sleep_forever()


async def deliver_rest(server: Server, queue: Queue) -> None:
    async with raw_client(server.tcp_address) as client:
        await client.subscribe(queue.topic, queue.channel, rdy=IN_FLIGHT)
        assert await finish(client, queue, queue.missing) == []
        assert await client.silent(0.2)
