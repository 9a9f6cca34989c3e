"""Plain functions in threads against each kind of nsqd."""

from __future__ import annotations

import threading
from collections import Counter
from functools import partial

import anyio
import anyio.to_thread
import pytest

import nsq_anyio as nsq

from .cluster import Cluster, Kind, Server
from .observe import LIMIT

pytestmark = pytest.mark.anyio

COUNT = 2000
OPTIONS = nsq.ConsumerOptions(requeue_delay=0, max_backoff_duration=0, drain_timeout=5)


def publish(address: str, topic: str) -> None:
    """Publish from several threads."""
    with nsq.sync.produce(address) as producer:
        threads = [
            threading.Thread(
                target=producer.publish_many,
                args=(topic, [b"%d" % number for number in range(start, COUNT, 4)]),
            )
            for start in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def consume(address: str, topic: str) -> Counter[bytes]:
    """Handle all messages in threads; one in twenty fails at its first attempt."""
    done: Counter[bytes] = Counter()
    lock = threading.Lock()

    def handle(message: nsq.sync.Message) -> None:
        if message.attempts == 1 and int(message.body) % 20 == 0:
            raise LookupError
        with lock:
            done[message.body] += 1
            if len(done) == COUNT:
                consumer.stop()

    with nsq.sync.consume(topic, "c", nsqd=address, max_in_flight=200, options=OPTIONS) as consumer:
        consumer.run(handle, threads=8)
    return done


async def test_each_message_is_handled_and_answered(nsqd: Server, topic: str) -> None:
    with anyio.fail_after(LIMIT):
        await anyio.to_thread.run_sync(publish, nsqd.tcp_address, topic)
        done = await anyio.to_thread.run_sync(consume, nsqd.tcp_address, topic)
    assert done == {b"%d" % number: 1 for number in range(COUNT)}
    channel = await nsqd.channel(topic, "c")
    assert (channel.depth, channel.in_flight_count, channel.deferred_count) == (0, 0, 0)
    assert (channel.requeue_count, channel.timeout_count) == (COUNT // 20, 0)


def leave(address: str, topic: str) -> None:
    with nsq.sync.consume(topic, "c", nsqd=address, max_in_flight=50) as consumer:
        for batch in consumer.batches(10, max_wait=1):
            batch[0].finish()
            batch[1].requeue(0, backoff=False)
            break


async def test_the_end_hands_back_what_is_unanswered(nsqd: Server, topic: str) -> None:
    await nsqd.publish(topic, *(b"%d" % number for number in range(100)))
    with anyio.fail_after(LIMIT):
        await anyio.to_thread.run_sync(leave, nsqd.tcp_address, topic)
    channel = await nsqd.channel(topic, "c")
    assert (channel.depth, channel.in_flight_count, channel.timeout_count) == (99, 0, 0)


def consume_through_restart(
    address: str, handled: threading.Event, restarted: threading.Event
) -> tuple[bytes, ...]:
    got: list[bytes] = []
    options = nsq.ConsumerOptions(reconnect_delay=0.05, max_reconnect_delay=0.2)
    with nsq.sync.consume("t", "c", nsqd=address, options=options) as consumer:
        with next(consumer) as message:
            got.append(message.body)
        lost = next(consumer)
        handled.set()
        assert restarted.wait(LIMIT)
        lost.finish()  # its connection is gone: dropped
        for message in consumer:
            with message:
                got.append(message.body)
            if message.body == b"last":
                break
    return tuple(got)


async def test_a_restart_of_nsqd(cluster: Cluster, nsqd_kind: Kind) -> None:
    first = await cluster.nsqd(nsqd_kind)
    await first.publish("t", b"a", b"b")
    handled, restarted = threading.Event(), threading.Event()
    results: list[tuple[bytes, ...]] = []

    async def consume_in_thread() -> None:
        results.append(
            await anyio.to_thread.run_sync(consume_through_restart, first.tcp_address, handled, restarted)
        )

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consume_in_thread)
            assert await anyio.to_thread.run_sync(partial(handled.wait, LIMIT))
            await first.stop()
            second = await cluster.nsqd(nsqd_kind, succeeding=first)
            restarted.set()
            await second.publish("t", b"last")
    assert results[0][0] in {b"a", b"b"}
    assert results[0][-1] == b"last"
