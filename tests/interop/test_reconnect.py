"""Connections that are lost come back, and nothing that was confirmed is lost with them."""

from functools import partial
from itertools import count

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.testing.faults import fault_proxy

from .cluster import Cluster, Kind, Server
from .observe import LIMIT, PROMPT, Events, take, until, until_told

pytestmark = pytest.mark.anyio

FAST = nsq.ConsumerOptions(reconnect_delay=0.02, max_reconnect_delay=0.1)


async def test_a_restarted_nsqd_is_reconnected(cluster: Cluster, nsqd_kind: Kind) -> None:
    nsqd = await cluster.nsqd(nsqd_kind)
    await nsqd.publish("t", b"before")
    events = Events()
    async with nsq.consume("t", "c", nsqd=nsqd.tcp_address, options=FAST, on_event=events) as consumer:
        await take(consumer, 1)
        await nsqd.stop()
        (lost,) = await events.wait_for(nsq.events.Disconnected)
        assert lost.nsqd == nsqd.tcp_address
        assert isinstance(lost.error, nsq.ConnectionLost)
        (failed, *_) = await events.wait_for(nsq.events.ConnectFailed)
        assert isinstance(failed.error, nsq.DialFailed)
        assert consumer.connections == ()
        nsqd = await cluster.nsqd(nsqd_kind, succeeding=nsqd)
        await nsqd.publish("t", b"after")
        assert [message.body for message in await take(consumer, 1)] == [b"after"]


async def test_a_producer_reconnects(cluster: Cluster, nsqd_kind: Kind) -> None:
    nsqd = await cluster.nsqd(nsqd_kind)
    events = Events()
    options = nsq.ProducerOptions(reconnect_delay=0.02, max_reconnect_delay=0.1)
    async with nsq.produce(nsqd.tcp_address, options=options, on_event=events) as producer:
        await producer.publish("t", b"before")
        await nsqd.stop()
        await events.wait_for(nsq.events.Disconnected)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(producer.publish, "t", b"after")  # waits for the successor
            await events.wait_for(nsq.events.ConnectFailed)
            nsqd = await cluster.nsqd(nsqd_kind, succeeding=nsqd)
    async with nsq.consume("t", "c", nsqd=nsqd.tcp_address) as consumer:
        await until_told(partial(has_message, consumer, b"after"))


async def has_message(consumer: nsq.Consumer, body: bytes) -> bool:
    return [message.body for message in await take(consumer, 1)] == [body]


async def test_a_deleted_channel_is_subscribed_to_again(nsqd: Server, topic: str) -> None:
    await nsqd.publish(topic, b"before")
    events = Events()
    async with nsq.consume(topic, "c", nsqd=nsqd.tcp_address, options=FAST, on_event=events) as consumer:
        with anyio.fail_after(LIMIT):
            held = await anext(consumer)
        async with nsqd.http() as http:
            await http.delete_channel(topic, "c")
        await events.wait_for(nsq.events.Subscribed, 2)
        held.finish()  # of a connection that is gone
        await nsqd.publish(topic, b"after")
        assert [message.body for message in await take(consumer, 1)] == [b"after"]
        assert consumer.statistics().late == 1
    assert len(events.of(nsq.events.Disconnected)) == 1


async def test_a_producer_goes_on_with_the_nsqd_that_is_left(cluster: Cluster, nsqd_kind: Kind) -> None:
    """One nsqd of two is cut off again and again: every publish that returned is consumed."""
    nsqds = [await cluster.nsqd(nsqd_kind) for _ in range(2)]
    confirmed: set[bytes] = set()
    unknown: set[bytes] = set()
    got: set[bytes] = set()
    events = Events()
    done = anyio.Event()

    async def publish(task: int) -> None:
        for number in count():
            if done.is_set():
                return
            body = b"%d-%d" % (task, number)
            try:
                await producer.publish("t", body)
            except nsq.OutcomeUnknown:
                unknown.add(body)
            else:
                confirmed.add(body)

    async def consume(consumer: nsq.Consumer) -> None:
        async for message in consumer:
            got.add(message.body)
            message.finish()

    options = nsq.ProducerOptions(reconnect_delay=0.01, max_reconnect_delay=0.05)
    async with fault_proxy(nsqds[0].tcp_address) as proxy:
        addresses = [proxy.address, nsqds[1].tcp_address]
        async with nsq.produce(addresses, options=options, on_event=events) as producer:
            async with anyio.create_task_group() as tasks:
                for task in range(10):
                    tasks.start_soon(publish, task)
                for cut in range(1, 4):
                    await events.wait_for(nsq.events.Connected, cut + 1)
                    proxy.reset()
                    await events.wait_for(nsq.events.Disconnected, cut)
                done.set()
    assert len(unknown) <= 30  # what ten tasks had under way at three cuts
    async with (
        nsq.consume(
            "t", "c", nsqd=[nsqd.tcp_address for nsqd in nsqds], max_in_flight=200, connection=PROMPT
        ) as consumer,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(consume, consumer)
        await until(lambda: confirmed <= got)
        tasks.cancel_scope.cancel()
    assert got <= confirmed | unknown
