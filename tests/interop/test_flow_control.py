"""nsqd never has more messages in flight than it was allowed; every connection gets its turn."""

from contextlib import AbstractAsyncContextManager
from functools import partial

import anyio
import pytest

import nsq_anyio as nsq

from .cluster import Cluster, Kind, Server, on_both_kinds
from .observe import LIMIT, PROMPT, Events, take, until, until_told

pytestmark = pytest.mark.anyio

BODIES = [b"%d" % number for number in range(60)]


async def in_flight(nsqds: list[Server], topic: str = "t") -> int:
    return sum([(await nsqd.channel(topic, "c")).in_flight_count for nsqd in nsqds])


async def ready_count(nsqd: Server, topic: str = "t") -> int:
    return sum(client.ready_count for client in (await nsqd.channel(topic, "c")).clients)


async def until_ready_for(count: int, nsqd: Server, topic: str = "t") -> None:
    async def is_ready() -> bool:
        return await ready_count(nsqd, topic) == count

    await until_told(is_ready)


@pytest.mark.parametrize("nsqd_count", [1, 2])
async def test_max_in_flight_bounds_what_nsqd_sends(
    cluster: Cluster, nsqd_kind: Kind, nsqd_count: int
) -> None:
    nsqds = [await cluster.nsqd(nsqd_kind) for _ in range(nsqd_count)]
    addresses = [nsqd.tcp_address for nsqd in nsqds]
    handled: list[bytes] = []
    most = 0

    async def handle(message: nsq.Message) -> None:
        nonlocal most
        most = max(most, await in_flight(nsqds))
        handled.append(message.body)

    async with (
        nsq.consume("t", "c", nsqd=addresses, max_in_flight=4, connection=PROMPT) as consumer,
        anyio.create_task_group() as tasks,
    ):
        await until(lambda: len(consumer.connections) == nsqd_count)
        for number, nsqd in enumerate(nsqds):
            await until_ready_for(4 // nsqd_count, nsqd)
            await nsqd.publish("t", *BODIES[number::nsqd_count])

        async def is_full() -> bool:
            return await in_flight(nsqds) == 4

        await until_told(is_full)  # nobody takes: the bound is reached, and not passed
        tasks.start_soon(partial(consumer.run, handle, concurrency=10))
        await until(lambda: len(handled) == len(BODIES))
        consumer.stop()
    assert sorted(handled) == sorted(BODIES)
    assert 1 <= most <= 4


async def test_connections_take_turns_when_they_outnumber_max_in_flight(
    cluster: Cluster, nsqd_kind: Kind
) -> None:
    nsqds = [await cluster.nsqd(nsqd_kind) for _ in range(3)]
    for number, nsqd in enumerate(nsqds):
        await nsqd.publish("t", *BODIES[number::3])
    options = nsq.ConsumerOptions(
        rdy_redistribute_interval=0.02, low_rdy_idle_timeout=0.05, low_rdy_timeout=0.2
    )
    addresses = [nsqd.tcp_address for nsqd in nsqds]
    async with nsq.consume("t", "c", nsqd=addresses, max_in_flight=1, options=options) as consumer:
        messages = await take(consumer, len(BODIES))
        assert sum([await ready_count(nsqd) for nsqd in nsqds]) <= 1
    assert sorted(message.body for message in messages) == sorted(BODIES)
    assert {message.nsqd for message in messages} == set(addresses)


async def test_max_in_flight_changes_at_run_time(cluster: Cluster, nsqd_kind: Kind) -> None:
    nsqd = await cluster.nsqd(nsqd_kind)
    async with nsq.consume("t", "c", nsqd=nsqd.tcp_address, max_in_flight=3) as consumer:
        with anyio.fail_after(LIMIT):
            await consumer.ready()
        await until_ready_for(3, nsqd)
        consumer.max_in_flight = 7
        await until_ready_for(7, nsqd)
        consumer.max_in_flight = 0
        await until_ready_for(0, nsqd)
        await nsqd.publish("t", b"x")
        assert (await nsqd.channel("t", "c")).in_flight_count == 0
        consumer.max_in_flight = 1
        assert [message.body for message in await take(consumer, 1)] == [b"x"]


async def test_rdy_stays_below_what_nsqd_allows(cluster: Cluster, nsqd_kind: Kind) -> None:
    nsqd = await cluster.nsqd(nsqd_kind, max_rdy_count=5)
    await nsqd.publish("t", *BODIES)
    events = Events()
    async with nsq.consume(
        "t", "c", nsqd=nsqd.tcp_address, max_in_flight=100, on_event=events, connection=PROMPT
    ) as consumer:
        messages = await take(consumer, len(BODIES))
        assert await ready_count(nsqd) == 5
    assert len(messages) == len(BODIES)
    assert not events.of(nsq.events.Disconnected)


async def test_a_shared_limiter_bounds_both_consumers(cluster: Cluster, nsqd_kind: Kind) -> None:
    nsqd = await cluster.nsqd(nsqd_kind, channels={"t": ["c"], "u": ["c"]})
    limiter = anyio.CapacityLimiter(4)
    options = nsq.ConsumerOptions(rdy_redistribute_interval=0.02)
    most = 0

    async def handle_all(consumer: nsq.Consumer) -> None:
        nonlocal most
        for _ in BODIES:
            with anyio.fail_after(LIMIT):
                message = await anext(consumer)
            most = max(most, await in_flight([nsqd], "t") + await in_flight([nsqd], "u"))
            message.finish()

    def consume(topic: str) -> AbstractAsyncContextManager[nsq.Consumer]:
        return nsq.consume(
            topic, "c", nsqd=nsqd.tcp_address, limiter=limiter, options=options, connection=PROMPT
        )

    async with consume("t") as one, consume("u") as two, anyio.create_task_group() as tasks:
        for topic in ("t", "u"):
            await until_ready_for(2, nsqd, topic)
        for topic, consumer in (("t", one), ("u", two)):
            await nsqd.publish(topic, *BODIES)
            tasks.start_soon(handle_all, consumer)
    assert 1 <= most <= 4
    assert limiter.borrowed_tokens == 0


async def test_heartbeats_are_answered_while_a_handler_is_busy(cluster: Cluster) -> None:
    """nsqd hangs up after two unanswered intervals, and takes none below a second."""

    async def check(kind: Kind) -> None:
        nsqd = await cluster.nsqd(kind)
        await nsqd.publish("t", b"x")
        events = Events()
        connection = nsq.ConnectionOptions(heartbeat_interval=1.0)
        async with nsq.consume(
            "t", "c", nsqd=nsqd.tcp_address, connection=connection, on_event=events
        ) as consumer:

            async def handle(message: nsq.Message) -> None:
                await anyio.sleep(3)
                consumer.stop()

            with anyio.fail_after(LIMIT):
                await consumer.run(handle)
            assert consumer.statistics().finished == 1
            assert consumer.connections == (nsqd.tcp_address,)
        assert not events.of(nsq.events.Disconnected)
        channel = await nsqd.channel("t", "c")
        assert (channel.depth, channel.in_flight_count, channel.timeout_count) == (0, 0, 0)

    await on_both_kinds(check)
