"""Nothing outlives its block: no task, no socket, no message in flight, however the block ends.

nsqd requeues the messages of a connection that is gone only after their timeout, so its statistics must be
right in the first request after the block.
"""

from __future__ import annotations

import os
import socket
import stat
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Literal

import anyio
import pytest

import nsq_anyio as nsq

from .cluster import Cluster, Kind, Server
from .observe import LIMIT, PROMPT, until

pytestmark = pytest.mark.anyio

Ending = Literal["success", "error", "cancellation"]
ENDINGS: tuple[Ending, ...] = ("success", "error", "cancellation")

QUICK = nsq.ConsumerOptions(drain_timeout=0.05, cancelled_drain_timeout=0.05)
BODIES = [b"%d" % number for number in range(10)]


class Mine(Exception):
    """What the user's block raises."""


def client_tasks() -> set[tuple[int, str]]:
    """The ids and names of all tasks but those of embedded servers."""
    tasks = {(task.id, task.name or "") for task in anyio.get_running_tasks()}
    return {(id, name) for id, name in tasks if "nsq_anyio.embedded" not in name}


def client_sockets(nsqd: Server) -> int:
    """How many sockets of this process are connected to `nsqd`."""
    count = 0
    for name in os.listdir("/dev/fd"):  # noqa: PTH208 - names, not files
        descriptor = int(name)
        try:
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                continue
            with socket.socket(fileno=os.dup(descriptor)) as duplicate:
                count += duplicate.getpeername() == ("127.0.0.1", nsqd.tcp_port)
        except OSError:  # listdir's own descriptor, or a socket without a peer
            continue
    return count


@contextmanager
def nothing_left(nsqd: Server) -> Generator[None]:
    """Check that a block leaves as many tasks and connections to `nsqd` as it found."""
    tasks, sockets = client_tasks(), client_sockets(nsqd)
    yield
    assert client_tasks() <= tasks
    assert client_sockets(nsqd) == sockets


@contextmanager
def expected(how: Ending) -> Generator[None]:
    """Take what the block's end brings out of it; a cancellation is its scope's affair."""
    if how == "error":
        with pytest.raises(Mine):
            yield
    else:
        yield


@asynccontextmanager
async def unwrapped() -> AsyncGenerator[None]:
    """Take the user's error out of the group that the user's own task group made of it."""
    try:
        yield
    except ExceptionGroup as group:
        raise group.exceptions[0] from None


async def end(how: Ending, scope: anyio.CancelScope) -> None:
    if how == "error":
        raise Mine
    if how == "cancellation":
        scope.cancel()
        await anyio.sleep_forever()


async def check_nsqd(nsqd: Server, topic: str, depth: int) -> None:
    channel = await nsqd.channel(topic, "c")
    assert (channel.in_flight_count, channel.client_count) == (0, 0)
    assert channel.depth + channel.deferred_count == depth
    assert channel.deferred_count == 0
    assert channel.timeout_count == 0


@pytest.mark.parametrize("how", ENDINGS)
async def test_messages_that_nobody_took(nsqd: Server, topic: str, how: Ending) -> None:
    await nsqd.publish(topic, *BODIES)
    with nothing_left(nsqd), anyio.CancelScope() as scope:
        with expected(how):
            async with nsq.consume(
                topic, "c", nsqd=nsqd.tcp_address, max_in_flight=7, connection=PROMPT
            ) as consumer:
                await until(lambda: consumer.statistics().waiting == 7)
                assert client_sockets(nsqd) == 1
                await end(how, scope)
    await check_nsqd(nsqd, topic, depth=10)


@pytest.mark.parametrize("how", ENDINGS)
async def test_messages_in_the_users_hands(nsqd: Server, topic: str, how: Ending) -> None:
    await nsqd.publish(topic, *BODIES)
    with nothing_left(nsqd), anyio.CancelScope() as scope:
        with expected(how):
            async with nsq.consume(
                topic, "c", nsqd=nsqd.tcp_address, max_in_flight=7, connection=PROMPT
            ) as consumer:
                with anyio.fail_after(LIMIT):
                    held = [await anext(consumer) for _ in range(4)]
                held[0].finish()  # right before the end: the answer must still get there
                await end(how, scope)
    await check_nsqd(nsqd, topic, depth=9)


@pytest.mark.parametrize("how", ENDINGS)
async def test_messages_in_running_handlers(nsqd: Server, topic: str, how: Ending) -> None:
    """Those that end in time are finished; the others are cancelled, and their messages given back."""
    await nsqd.publish(topic, *BODIES)
    started: list[bytes] = []
    finished: list[bytes] = []

    async def handle(message: nsq.Message) -> None:
        started.append(message.body)
        if len(started) == 2:
            await anyio.sleep(0.02)  # less than the drain takes
            finished.append(message.body)
        else:
            await anyio.sleep_forever()

    with nothing_left(nsqd), anyio.CancelScope() as scope:
        with expected(how):
            async with (
                unwrapped(),
                nsq.consume(
                    topic, "c", nsqd=nsqd.tcp_address, max_in_flight=7, connection=PROMPT, options=QUICK
                ) as consumer,
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(partial(consumer.run, handle, concurrency=3))
                await until(lambda: len(started) == 3)
                if how == "success":
                    consumer.stop()
                await end(how, scope)
    assert len(finished) == 1
    assert len(started) == 3
    await check_nsqd(nsqd, topic, depth=9)


@pytest.mark.parametrize("how", ENDINGS)
async def test_before_the_connection_is_there(nsqd: Server, topic: str, how: Ending) -> None:
    with nothing_left(nsqd), anyio.CancelScope() as scope:
        with expected(how):
            async with nsq.consume(topic, "c", nsqd=nsqd.tcp_address):
                await end(how, scope)
    # The subscription may have been made or not; if it was, it is gone.
    clients = [
        channel.client_count
        for found in (await nsqd.stats()).topics
        if found.topic_name == topic
        for channel in found.channels
    ]
    assert sum(clients) == 0


@pytest.mark.parametrize("how", ENDINGS)
async def test_publishes_under_way(nsqd: Server, topic: str, how: Ending) -> None:
    confirmed = 0

    async def publish(producer: nsq.Producer) -> None:
        nonlocal confirmed
        while True:
            await producer.publish(topic, b"x" * 100)
            confirmed += 1

    with nothing_left(nsqd), anyio.CancelScope() as scope:
        with expected(how):
            async with (
                unwrapped(),
                nsq.produce(nsqd.tcp_address) as producer,
                anyio.create_task_group() as tasks,
            ):
                for _ in range(10):
                    tasks.start_soon(publish, producer)
                await until(lambda: confirmed >= 50)
                assert client_sockets(nsqd) == 1
                await end(how, scope)
                tasks.cancel_scope.cancel()
        with pytest.raises(nsq.Closed):
            await producer.publish(topic, b"x")
    (found,) = [found for found in (await nsqd.stats()).topics if found.topic_name == topic]
    # Those that were cancelled while they waited may have been executed too, one of each task.
    assert confirmed <= found.message_count <= confirmed + 10


@pytest.mark.parametrize("how", ENDINGS)
async def test_consumers_that_end_under_load(cluster: Cluster, nsqd_kind: Kind, how: Ending) -> None:
    """A message may be on its way to the consumer while its CLS is on the way to nsqd."""
    nsqd = await cluster.nsqd(nsqd_kind)
    published: list[bytes] = []
    finished: Counter[bytes] = Counter()
    options = nsq.ConsumerOptions(max_attempts=0)  # each end hands messages back, which counts as an attempt

    async def publish(producer: nsq.Producer) -> None:
        while True:
            body = b"%d" % len(published)
            published.append(body)
            await producer.publish("t", body)

    async def handle(message: nsq.Message) -> None:
        finished[message.body] += 1

    async with nsq.produce(nsqd.tcp_address) as producer, anyio.create_task_group() as publishers:
        for _ in range(10):
            publishers.start_soon(publish, producer)
        await until(lambda: len(published) > 10)  # the producer's own tasks have started
        for _ in range(20):
            with nothing_left(nsqd), anyio.CancelScope() as scope:
                with expected(how):
                    async with (
                        unwrapped(),
                        nsq.consume(
                            "t", "c", nsqd=nsqd.tcp_address, max_in_flight=20, options=options
                        ) as consumer,
                        anyio.create_task_group() as tasks,
                    ):
                        enough = len(finished) + 30
                        tasks.start_soon(partial(consumer.run, handle, concurrency=5))
                        await until(lambda enough=enough: len(finished) >= enough)  # type: ignore[misc]
                        await end(how, scope)
                        tasks.cancel_scope.cancel()
            channel = await nsqd.channel("t", "c")
            assert (channel.in_flight_count, channel.client_count) == (0, 0)
        publishers.cancel_scope.cancel()
    # Once more, for a message that nsqd took off its queue for a consumer that had just gone.
    assert (await nsqd.channel("t", "c")).in_flight_count == 0
    async with (
        nsq.consume(
            "t", "c", nsqd=nsqd.tcp_address, max_in_flight=100, connection=PROMPT, options=options
        ) as consumer,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(consumer.run, handle)
        await until(lambda: len(finished) == len(published))
        tasks.cancel_scope.cancel()
    assert set(finished.values()) == {1}
    assert (await nsqd.channel("t", "c")).timeout_count == 0
