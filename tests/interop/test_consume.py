"""Who gets which message: channels, consumers, several nsqds, and what stands between them."""

import anyio
import pytest

import nsq_anyio as nsq

from .cluster import Cluster, Kind, Server
from .observe import LIMIT, PROMPT, Events, take, until, until_told

pytestmark = pytest.mark.anyio

BODIES = [b"%d" % number for number in range(200)]


async def test_a_block_per_message_answers(nsqd: Server, topic: str) -> None:
    await nsqd.publish(topic, b"a", b"b")
    got: list[bytes] = []
    async with nsq.consume(topic, "c", nsqd=nsqd.tcp_address) as consumer:
        with anyio.fail_after(LIMIT):
            async for message in consumer:
                async with message:
                    got.append(message.body)
                assert message.responded
                if len(got) == 2:
                    break
    assert got == [b"a", b"b"]
    assert (await nsqd.channel(topic, "c")).depth == 0


async def test_handlers_run_concurrently(nsqd: Server, topic: str) -> None:
    await nsqd.publish(topic, *BODIES[:10])
    running = 0
    together = anyio.Event()

    async def handle(message: nsq.Message) -> None:
        nonlocal running
        running += 1
        if running == 5:
            together.set()
        await together.wait()
        if message.body == BODIES[9]:
            consumer.stop()

    async with nsq.consume(topic, "c", nsqd=nsqd.tcp_address, connection=PROMPT) as consumer:
        with anyio.fail_after(LIMIT):
            await consumer.run(handle, concurrency=5)
        assert consumer.statistics().finished == running == 10


async def test_two_nsqds_every_message_once(cluster: Cluster, nsqd_kind: Kind) -> None:
    nsqds = [await cluster.nsqd(nsqd_kind) for _ in range(2)]
    await nsqds[0].publish("t", *BODIES[:100])
    await nsqds[1].publish("t", *BODIES[100:])
    addresses = [nsqd.tcp_address for nsqd in nsqds]
    async with nsq.consume("t", "c", nsqd=addresses, max_in_flight=20, connection=PROMPT) as consumer:
        messages = await take(consumer, len(BODIES))
        assert set(consumer.connections) == set(addresses)
    assert sorted(message.body for message in messages) == sorted(BODIES)
    assert {message.nsqd for message in messages} == set(addresses)
    for nsqd in nsqds:
        channel = await nsqd.channel("t", "c")
        assert (channel.depth, channel.in_flight_count, channel.requeue_count) == (0, 0, 0)


async def test_each_channel_gets_every_message(nsqd: Server, topic: str) -> None:
    async with (
        nsq.consume(topic, "one", nsqd=nsqd.tcp_address) as one,
        nsq.consume(topic, "two", nsqd=nsqd.tcp_address) as two,
    ):
        with anyio.fail_after(LIMIT):
            await one.ready()
            await two.ready()
        await nsqd.publish(topic, *BODIES)
        for consumer in (one, two):
            assert sorted(message.body for message in await take(consumer, len(BODIES))) == sorted(BODIES)


async def test_the_consumers_of_a_channel_share_its_messages(nsqd: Server, topic: str) -> None:
    async with (
        nsq.consume(topic, "c", nsqd=nsqd.tcp_address) as one,
        nsq.consume(topic, "c", nsqd=nsqd.tcp_address) as two,
    ):
        await nsqd.publish(topic, b"a", b"b")
        with anyio.fail_after(LIMIT):
            # Each has room for one message, so that the second one can only go to the other.
            held = [await anext(one), await anext(two)]
        assert sorted(message.body for message in held) == [b"a", b"b"]
        for message in held:
            message.finish()
        await nsqd.publish(topic, *BODIES)
        got: list[bytes] = []
        async with anyio.create_task_group() as tasks:
            for consumer in (one, two):
                tasks.start_soon(take_until, consumer, got, len(BODIES))
            await until(lambda: len(got) >= len(BODIES))
            tasks.cancel_scope.cancel()
    assert sorted(got) == sorted(BODIES)
    assert (await nsqd.channel(topic, "c")).depth == 0


async def take_until(consumer: nsq.Consumer, got: list[bytes], count: int) -> None:
    while len(got) < count:
        got += [message.body for message in await take(consumer, 1)]


async def test_an_ephemeral_channel_is_gone_with_its_consumer(nsqd: Server, topic: str) -> None:
    async with nsq.consume(f"{topic}#ephemeral", "c#ephemeral", nsqd=nsqd.tcp_address) as consumer:
        with anyio.fail_after(LIMIT):
            await consumer.ready()
        await nsqd.publish(f"{topic}#ephemeral", b"x")
        assert [message.body for message in await take(consumer, 1)] == [b"x"]

    async def is_gone() -> bool:
        return f"{topic}#ephemeral" not in [found.topic_name for found in (await nsqd.stats()).topics]

    await until_told(is_gone)  # nsqd deletes it in the background


async def test_a_paused_channel_brings_nothing(nsqd: Server, topic: str) -> None:
    async with nsqd.http() as http:
        await http.create_topic(topic)
        await http.create_channel(topic, "c")
        await http.pause_channel(topic, "c")
        async with nsq.consume(topic, "c", nsqd=nsqd.tcp_address) as consumer:
            with anyio.fail_after(LIMIT):
                await consumer.ready()
            await http.publish(topic, b"x")

            async def waits() -> bool:
                channel = await nsqd.channel(topic, "c")
                return channel.depth == 1 and channel.client_count == 1

            await until_told(waits)
            assert consumer.statistics().received == 0
            await http.unpause_channel(topic, "c")
            assert [message.body for message in await take(consumer, 1)] == [b"x"]


async def test_a_sample_of_the_messages(nsqd: Server, topic: str) -> None:
    await nsqd.publish(topic, *BODIES, *BODIES)
    sampled = nsq.ConnectionOptions(sample_rate=50, output_buffer_timeout=0.025)
    async with nsq.consume(
        topic, "c", nsqd=nsqd.tcp_address, max_in_flight=1000, connection=sampled
    ) as consumer:

        async def is_empty() -> bool:
            return (await nsqd.channel(topic, "c")).depth == 0

        with anyio.fail_after(LIMIT):
            await consumer.ready()
        await until_told(is_empty)
        (client,) = (await nsqd.channel(topic, "c")).clients
        assert client.sample_rate == 50
        # 400 messages at 51 in 100 (nsqd 1.3.0 takes one more than it is told): this is ten deviations wide.
        await take(consumer, 100)
        assert client.message_count < 304


async def test_consumers_that_wait_are_told_of_the_end(nsqd: Server, topic: str) -> None:
    async with nsq.consume(topic, "c", nsqd=nsqd.tcp_address) as consumer:
        with anyio.fail_after(LIMIT):
            await consumer.ready()
        consumer.stop()
        with anyio.fail_after(LIMIT):
            assert [message async for message in consumer] == []


async def test_nsqd_sees_who_consumes(nsqd: Server, topic: str) -> None:
    events = Events()
    who = nsq.ConnectionOptions(client_id="me", hostname="my-host", user_agent="mine/1")
    async with nsq.consume(topic, "c", nsqd=nsqd.tcp_address, connection=who, on_event=events) as consumer:
        with anyio.fail_after(LIMIT):
            await consumer.ready()
        (client,) = (await nsqd.channel(topic, "c")).clients
        assert (client.client_id, client.hostname, client.user_agent) == ("me", "my-host", "mine/1")
        assert client.version == "V2"
    assert [event.nsqd for event in events.of(nsq.events.Subscribed)] == [nsqd.tcp_address]
    assert [event.confirmed for event in events.of(nsq.events.ConnectionClosed)] == [True]
