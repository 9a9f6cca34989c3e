"""A real nsqd that is killed or cut off amid publishes: each caller gets one outcome, and it is true.

The ledger of each test: nsqd is restarted on its data, and everything in it is consumed.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.testing.faults import fault_proxy

from .cluster import Cluster, Server
from .observe import LIMIT, PROMPT, Events, until

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])]

CALLERS = 1000
LAST = b"last"
DURABLE: dict[str, Any] = {"mem_queue_size": 0, "sync_every": 1}
PRODUCING: dict[str, Any] = {"reconnect_delay": 0.02, "max_reconnect_delay": 0.1, "connect_timeout": 1.0}


class Outcomes:
    """What the callers were told, by body.

    :ivar calls: how often each body was published; an outcome a call is all there may be
    """

    def __init__(self) -> None:
        self.calls: Counter[bytes] = Counter()
        self.told: dict[type[nsq.NSQError] | None, list[bytes]] = {}

    def of(self, kind: type[nsq.NSQError] | None) -> set[bytes]:
        return set(self.told.get(kind, []))

    @property
    def stored(self) -> int:
        return len(self.told.get(None, []))

    async def more_stored(self, count: int) -> None:
        """Wait until so many more were stored."""
        enough = self.stored + count
        await until(lambda: self.stored >= enough)

    async def publish(self, producer: nsq.Producer, body: bytes) -> bool:
        """Publish once; whether it was stored."""
        self.calls[body] += 1
        outcome: type[nsq.NSQError] | None = None
        try:
            await producer.publish("t", body)
        except nsq.PublishError as error:
            outcome = type(error)
        self.told.setdefault(outcome, []).append(body)
        return outcome is None

    async def publish_until_failure(self, producer: nsq.Producer, caller: int) -> None:
        number = 0
        while await self.publish(producer, b"%d-%d" % (caller, number)):
            number += 1

    def check(self, stored: list[bytes], *, duplicates: bool = False) -> None:
        """Compare with what nsqd has."""
        told = [body for bodies in self.told.values() for body in bodies]
        assert Counter(told) == self.calls  # one outcome a call
        present = Counter(stored)
        assert not self.of(None) - present.keys(), "reported stored, and lost"
        for kind in (nsq.PublishRejected, nsq.NotSent):
            assert not self.of(kind) & present.keys(), f"reported {kind.__name__}, and there"
        assert present.keys() <= self.of(None) | self.of(nsq.OutcomeUnknown)
        if not duplicates:
            assert not [body for body, times in present.items() if times > 1]


async def everything_in(cluster: Cluster, data_path: Path, nsqd: Server) -> list[bytes]:
    """The bodies of all messages that a killed nsqd has stored; the topic has no channel yet."""
    # It need not sync after each message that is read: that would take seconds on a busy disk.
    nsqd = await cluster.nsqd("real", data_path=data_path, succeeding=nsqd, mem_queue_size=0)
    async with (
        nsq.consume("t", "c", nsqd=nsqd.tcp_address, max_in_flight=200, connection=PROMPT) as consumer,
        nsq.produce(nsqd.tcp_address) as producer,
    ):
        await consumer.ready()
        await producer.publish("t", LAST)  # behind all others: the queue is on disk, and in order
        bodies: list[bytes] = []
        with anyio.fail_after(LIMIT):
            async for message in consumer:
                message.finish()
                if message.body == LAST:
                    break
                bodies.append(message.body)
    return bodies


@pytest.mark.parametrize("coalesce", [False, True], ids=["alone", "coalesced"])
async def test_a_killed_nsqd_with_a_thousand_publishes_outstanding(
    cluster: Cluster, tmp_path: Path, coalesce: bool
) -> None:
    nsqd = await cluster.nsqd("real", data_path=tmp_path, **DURABLE)
    outcomes = Outcomes()
    events = Events()
    # Several batches on their way at once; alone, a publish each.
    options = nsq.ProducerOptions(coalesce=coalesce, max_batch_messages=50, **PRODUCING)
    async with (
        nsq.produce(nsqd.tcp_address, options=options, on_event=events) as producer,
        anyio.create_task_group() as tasks,
    ):
        for caller in range(CALLERS):
            tasks.start_soon(outcomes.publish_until_failure, producer, caller)
        await outcomes.more_stored(CALLERS)
        await until(lambda: waiting(producer) == CALLERS)
        await nsqd.kill()
    assert outcomes.calls.total() == outcomes.stored + CALLERS
    assert outcomes.of(nsq.OutcomeUnknown)
    outcomes.check(await everything_in(cluster, tmp_path, nsqd))


def waiting(producer: nsq.Producer) -> int:
    statistics = producer.statistics()
    return statistics.outstanding + statistics.waiting


@pytest.mark.parametrize("coalesce", [False, True], ids=["alone", "coalesced"])
async def test_an_nsqd_that_is_killed_and_comes_back_while_publishing_goes_on(
    cluster: Cluster, tmp_path: Path, coalesce: bool
) -> None:
    """With `resend_unknown` nothing fails: all is stored, some of it twice."""
    nsqd = await cluster.nsqd("real", data_path=tmp_path, **DURABLE)
    outcomes = Outcomes()
    events = Events()
    options = nsq.ProducerOptions(coalesce=coalesce, resend_unknown=True, **PRODUCING)
    stop = anyio.Event()

    async def publish(producer: nsq.Producer, caller: int) -> None:
        number = 0
        while not stop.is_set():
            assert await outcomes.publish(producer, b"%d-%d" % (caller, number))
            number += 1

    async with (
        nsq.produce(nsqd.tcp_address, options=options, on_event=events) as producer,
        anyio.create_task_group() as tasks,
    ):
        for caller in range(100):
            tasks.start_soon(publish, producer, caller)
        for restarts in (1, 2):
            await outcomes.more_stored(500)
            await nsqd.kill()
            nsqd = await cluster.nsqd("real", data_path=tmp_path, succeeding=nsqd, **DURABLE)
            await events.wait_for(nsq.events.Connected, restarts + 1)
        await outcomes.more_stored(500)
        stop.set()
    assert events.of(nsq.events.PublishResent)
    assert set(outcomes.told) == {None}
    await nsqd.kill()
    outcomes.check(await everything_in(cluster, tmp_path, nsqd), duplicates=True)


async def test_failing_over_loses_and_invents_nothing(cluster: Cluster, tmp_path: Path) -> None:
    """Of two nsqds one is cut off, again and again: what it certainly did not get goes to the other."""
    paths = [tmp_path / "one", tmp_path / "two"]
    for path in paths:
        path.mkdir()
    one, two = [await cluster.nsqd("real", data_path=path, **DURABLE) for path in paths]
    outcomes = Outcomes()
    events = Events()
    async with fault_proxy(one.tcp_address) as proxy:
        options = nsq.ProducerOptions(**PRODUCING)
        async with (
            nsq.produce([proxy.address, two.tcp_address], options=options, on_event=events) as producer,
            anyio.create_task_group() as tasks,
        ):
            await until(lambda: len(producer.connections) == 2)
            stop = anyio.Event()

            async def publish(caller: int) -> None:
                number = 0
                while not stop.is_set():
                    await outcomes.publish(producer, b"%d-%d" % (caller, number))
                    number += 1

            for caller in range(100):
                tasks.start_soon(publish, caller)
            for cut in range(5):
                await outcomes.more_stored(300)
                (proxy.reset if cut % 2 else proxy.cut)()
                await events.wait_for(nsq.events.Disconnected, cut + 1)
                await events.wait_for(nsq.events.Connected, cut + 3)
            stop.set()
    assert nsq.PublishRejected not in outcomes.told
    stored: list[bytes] = []
    for path, nsqd in zip(paths, (one, two), strict=True):
        await nsqd.kill()
        stored += await everything_in(cluster, path, nsqd)
    outcomes.check(stored)


@pytest.mark.parametrize("coalesce", [False, True], ids=["alone", "coalesced"])
async def test_refusals_amid_others(cluster: Cluster, tmp_path: Path, coalesce: bool) -> None:
    """Each ends the connection; what was behind it is sent again, and stored once."""
    nsqd = await cluster.nsqd("real", data_path=tmp_path, max_msg_size=100, **DURABLE)
    outcomes = Outcomes()
    options = nsq.ProducerOptions(coalesce=coalesce, **PRODUCING)
    async with (
        nsq.produce(nsqd.tcp_address, options=options) as producer,
        anyio.create_task_group() as tasks,
    ):
        for number in range(200):
            body = b"%d" % number
            tasks.start_soon(outcomes.publish, producer, body if number % 40 else body.ljust(101, b"x"))
    # nsqd hangs up with commands unread, so its last answers may be lost on the way.
    assert len(outcomes.of(nsq.PublishRejected) | outcomes.of(nsq.OutcomeUnknown)) >= 5
    assert all(len(body) > 100 for body in outcomes.of(nsq.PublishRejected))
    assert all(len(body) <= 100 for body in outcomes.of(None))
    assert not outcomes.of(nsq.NotSent)
    await nsqd.kill()
    outcomes.check(await everything_in(cluster, tmp_path, nsqd))
