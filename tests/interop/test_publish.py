"""What a producer publishes is what a consumer gets; what nsqd refuses is told."""

from typing import Literal

import anyio
import pytest

import nsq_anyio as nsq

from .cluster import Cluster, Kind, Server
from .observe import LIMIT, consume_now, take

pytestmark = pytest.mark.anyio

BODIES = [b"\0", b"\n", b"\r\n", b"  V2", bytes(range(256)), b"FIN 0123456789abcdef\n", "é🎉".encode()]
BAD_NAMES = ["", "a b", "a\nFIN x", "a\n", "é", "t" * 65, "#ephemeral", "a#b", "a/b"]


async def test_bodies_arrive_as_they_are(nsqd: Server, topic: str) -> None:
    async with nsq.produce(nsqd.tcp_address) as producer:
        for body in BODIES:
            await producer.publish(topic, body)
    assert await consume_now(topic, "c", nsqd.tcp_address, len(BODIES)) == sorted(BODIES)


async def test_text_arrives_as_utf8(nsqd: Server, topic: str) -> None:
    async with nsq.produce(nsqd.tcp_address) as producer:
        await producer.publish(topic, "é🎉")
        await producer.publish_many(topic, ["a", b"b", bytearray(b"c"), memoryview(b"d")])
    got = await consume_now(topic, "c", nsqd.tcp_address, 5)
    assert got == sorted(["é🎉".encode(), b"a", b"b", b"c", b"d"])


async def test_a_body_of_the_largest_size(nsqd: Server, topic: str) -> None:
    body = bytes(range(256)) * 4096
    assert len(body) == 1024 * 1024
    async with nsq.produce(nsqd.tcp_address) as producer:
        await producer.publish(topic, body)
    assert await consume_now(topic, "c", nsqd.tcp_address, 1) == [body]


async def test_publish_many(nsqd: Server, topic: str) -> None:
    async with nsq.produce(nsqd.tcp_address) as producer:
        await producer.publish_many(topic, BODIES)
        await producer.publish_many(topic, (body for body in [b"one"]))
    got = await consume_now(topic, "c", nsqd.tcp_address, len(BODIES) + 1)
    assert got == sorted([*BODIES, b"one"])


async def test_what_a_message_tells(nsqd: Server, topic: str) -> None:
    async with nsq.produce(nsqd.tcp_address) as producer:
        await producer.publish(topic, b"x")
    async with nsq.consume(topic, "c", nsqd=nsqd.tcp_address) as consumer:
        (message,) = await take(consumer, 1)
    assert (message.topic, message.channel, message.nsqd) == (topic, "c", nsqd.tcp_address)
    assert message.attempts == 1
    assert len(message.id) == 16
    assert 1_600_000_000 < message.timestamp / 1e9 < 5_000_000_000


@pytest.mark.parametrize(
    "options",
    [
        nsq.ProducerOptions(),
        nsq.ProducerOptions(coalesce=True),
        nsq.ProducerOptions(coalesce=True, linger=0.01),
    ],
    ids=["alone", "coalesced", "lingering"],
)
async def test_many_tasks_share_a_producer(nsqd: Server, topic: str, options: nsq.ProducerOptions) -> None:
    bodies = [b"%d-%d" % (task, number) for task in range(20) for number in range(25)]

    async def publish(share: list[bytes]) -> None:
        for body in share:
            await producer.publish(topic, body)

    async with (
        nsq.produce(nsqd.tcp_address, options=options) as producer,
        anyio.create_task_group() as tasks,
    ):
        for first in range(20):
            tasks.start_soon(publish, bodies[first::20])
    assert producer.statistics().published == len(bodies)
    assert (producer.statistics().per_connection[0].commands < len(bodies) / 4) == options.coalesce
    assert await consume_now(topic, "c", nsqd.tcp_address, len(bodies)) == sorted(bodies)


async def test_several_nsqds_are_used_in_turn(cluster: Cluster, nsqd_kind: Kind) -> None:
    first, second = await cluster.nsqd(nsqd_kind), await cluster.nsqd(nsqd_kind)
    async with nsq.produce([first.tcp_address, second.tcp_address]) as producer:
        with anyio.fail_after(LIMIT):
            while len(producer.connections) < 2:  # only those that are connected get a turn
                await producer.publish("warm-up", b"x")
        for number in range(10):
            await producer.publish("t", b"%d" % number)
    assert len(await consume_now("t", "c", first.tcp_address, 5)) == 5
    assert len(await consume_now("t", "c", second.tcp_address, 5)) == 5


@pytest.mark.parametrize("mode", ["round_robin", "least_outstanding", "hostpool", "epsilon_greedy"])
async def test_one_of_two_nsqds_stops(
    cluster: Cluster,
    nsqd_kind: Kind,
    mode: Literal["round_robin", "least_outstanding", "hostpool", "epsilon_greedy"],
) -> None:
    """In every mode the other gets everything."""
    first, second = await cluster.nsqd(nsqd_kind), await cluster.nsqd(nsqd_kind)
    options = nsq.ProducerOptions(mode=mode, resend_unknown=True)
    async with nsq.produce([first.tcp_address, second.tcp_address], options=options) as producer:
        with anyio.fail_after(LIMIT):
            while len(producer.connections) < 2:
                await producer.publish("warm-up", b"x")
        await first.stop()
        for number in range(10):
            await producer.publish("t", b"%d" % number)
        assert producer.connections == (second.tcp_address,)
    assert await consume_now("t", "c", second.tcp_address, 10) == [b"%d" % number for number in range(10)]


async def test_refusals_of_a_batch_are_told_to_whom_they_concern(cluster: Cluster, nsqd_kind: Kind) -> None:
    nsqd = await cluster.nsqd(nsqd_kind, max_msg_size=1000)
    options = nsq.ProducerOptions(coalesce=True, reconnect_delay=0.01)
    refused: list[tuple[int, str]] = []

    async def publish(size: int) -> None:
        try:
            await producer.publish("t", b"x" * size)
        except nsq.PublishRejected as error:
            refused.append((size, error.code))

    async with nsq.produce(nsqd.tcp_address, options=options) as producer:
        await producer.publish("t", b"x" * 999)
        async with anyio.create_task_group() as tasks:
            for size in (1, 1001, 2, 1000):
                tasks.start_soon(publish, size)
    assert refused == [(1001, "E_BAD_MESSAGE")]
    got = await consume_now("t", "c", nsqd.tcp_address, 4)
    assert [len(body) for body in got] == [1, 2, 999, 1000]


async def test_a_deferred_message_comes_later(cluster: Cluster, nsqd_kind: Kind) -> None:
    nsqd = await cluster.nsqd(nsqd_kind, channels={"t": ["c"]})
    async with (
        nsq.consume("t", "c", nsqd=nsqd.tcp_address) as consumer,
        nsq.produce(nsqd.tcp_address) as producer,
    ):
        await producer.publish("t", b"later", defer=0.3)
        published_at = anyio.current_time()
        await producer.publish("t", b"at once")
        first, second = await take(consumer, 2)
        assert (first.body, second.body) == (b"at once", b"later")
        assert second.attempts == 1
        assert anyio.current_time() - published_at >= 0.25  # nsqd counts from before its answer


async def test_what_nsqd_refuses_is_told_and_the_producer_goes_on(cluster: Cluster, nsqd_kind: Kind) -> None:
    nsqd = await cluster.nsqd(nsqd_kind, max_msg_size=1000, max_body_size=3000, max_req_timeout=10.0)
    options = nsq.ProducerOptions(reconnect_delay=0.01)  # the local limits are nsqd's defaults
    async with nsq.produce(nsqd.tcp_address, options=options) as producer:
        with pytest.raises(nsq.PublishRejected, match="E_BAD_MESSAGE") as refused:
            await producer.publish("t", b"x" * 1001)
        assert refused.value.code == "E_BAD_MESSAGE"
        await producer.publish("t", b"x" * 1000)
        with pytest.raises(nsq.PublishRejected, match="E_BAD_MESSAGE"):
            await producer.publish_many("t", [b"good", b"x" * 1001])
        with pytest.raises(nsq.PublishRejected, match="E_BAD_BODY"):
            await producer.publish_many("t", [b"x" * 1000] * 3)
        with pytest.raises(nsq.PublishRejected, match="E_INVALID"):
            await producer.publish("t", b"x", defer=11.0)
        with pytest.raises(nsq.PublishRejected, match="E_BAD_MESSAGE"):
            await producer.publish("t", b"x" * 1001, defer=1.0)
        await producer.publish("t", b"last")
    assert await consume_now("t", "c", nsqd.tcp_address, 2) == [b"last", b"x" * 1000]
    assert (await nsqd.channel("t", "c")).message_count == 2


async def test_what_nsqd_takes_at_once_bounds_no_coalescing(cluster: Cluster, nsqd_kind: Kind) -> None:
    """nsqd closes the connection on an MPUB beyond its --max-body-size, and stores nothing of it."""
    nsqd = await cluster.nsqd(nsqd_kind, max_msg_size=1000, max_body_size=3000)
    options = nsq.ProducerOptions(reconnect_delay=0.01, coalesce=True)
    bodies = [b"%03d" % number + b"x" * 97 for number in range(300)]
    async with nsq.produce(nsqd.tcp_address, options=options) as producer, anyio.create_task_group() as tasks:
        for body in bodies:
            tasks.start_soon(producer.publish, "t", body)
    assert sorted(await consume_now("t", "c", nsqd.tcp_address, len(bodies))) == bodies
    assert (await nsqd.channel("t", "c")).message_count == len(bodies)


async def test_no_bad_name_reaches_nsqd(cluster: Cluster, nsqd_kind: Kind) -> None:
    nsqd = await cluster.nsqd(nsqd_kind)
    async with nsq.produce(nsqd.tcp_address) as producer:
        await producer.publish("good", b"x")
        for name in BAD_NAMES:
            with pytest.raises(nsq.InvalidName):
                await producer.publish(name, b"x")
            with pytest.raises(nsq.InvalidName):
                await producer.publish_many(name, [b"x"])
            for topic, channel in ((name, "c"), ("good", name)):
                with pytest.raises(nsq.InvalidName):
                    nsq.consume(topic, channel, nsqd=nsqd.tcp_address)
        await producer.publish("good", b"x")
        stats = await nsqd.stats()
    # Still the connection of the first publish: nsqd never saw a name that it would have hung up for.
    assert [count.count for client in stats.producers for count in client.pub_counts] == [2]
    assert [found.topic_name for found in stats.topics] == ["good"]


async def test_no_empty_body_reaches_nsqd(nsqd: Server, topic: str) -> None:
    async with nsq.produce(nsqd.tcp_address) as producer:
        for bodies in ([b""], [b"good", b""], []):
            with pytest.raises(nsq.InvalidBody):
                await producer.publish_many(topic, bodies)
        with pytest.raises(nsq.InvalidBody):
            await producer.publish(topic, b"")
        await producer.publish(topic, b"x")
        stats = await nsqd.stats()
    counts = [count for client in stats.producers for count in client.pub_counts if count.topic == topic]
    assert [count.count for count in counts] == [1]
