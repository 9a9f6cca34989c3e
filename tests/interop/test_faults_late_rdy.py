"""max_in_flight holds while RDY counts are on their way, as slow as that may be."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.testing.faults import FaultProxy, fault_proxy

from .cluster import Cluster, Kind, Server
from .observe import PROMPT, until

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])]

BUDGET = 100
CHANNELS = {"t": ["c"]}


class Held:
    """Holds messages for a while, and notes how many are unanswered at most."""

    def __init__(self, consumer: nsq.Consumer, seconds: float) -> None:
        self.most = 0
        self.handled = 0
        self._consumer = consumer
        self._seconds = seconds

    async def __call__(self, message: nsq.Message) -> None:
        self.most = max(self.most, self._consumer.in_flight)
        await anyio.sleep(self._seconds)
        self.handled += 1

    async def watch(self) -> None:
        while True:
            self.most = max(self.most, self._consumer.in_flight)
            await anyio.sleep(0.002)


async def behind_proxies(stack: AsyncExitStack, nsqds: list[Server], *delays: float) -> list[FaultProxy]:
    proxies: list[FaultProxy] = []
    for nsqd, delay in zip(nsqds, delays, strict=True):
        proxy = await stack.enter_async_context(fault_proxy(nsqd.tcp_address))
        proxy.to_server.delay = proxy.to_client.delay = delay
        proxies.append(proxy)
    return proxies


@pytest.mark.parametrize("seconds", [0.02, 1.5], ids=["quick handlers", "slow handlers"])
async def test_nsqds_that_connect_one_after_another(
    cluster: Cluster, nsqd_kind: Kind, seconds: float
) -> None:
    """Each new one lowers the others, which go on pushing until they hear of it."""
    nsqds = [await cluster.nsqd(nsqd_kind, channels=CHANNELS) for _ in range(6)]
    for nsqd in nsqds:
        await nsqd.publish("t", *[b"x"] * 300)
    async with AsyncExitStack() as stack:
        proxies = await behind_proxies(stack, nsqds, 0.0, 0.02, 0.04, 0.06, 0.08, 0.1)
        for late in proxies[3:]:
            await late.refuse()  # so late that nobody leaves room for them
        consumer = await stack.enter_async_context(
            nsq.consume(
                "t",
                "c",
                nsqd=[proxy.address for proxy in proxies],
                max_in_flight=BUDGET,
                options=nsq.ConsumerOptions(reconnect_delay=0.1, max_reconnect_delay=0.1),
                connection=PROMPT,
            )
        )
        held = Held(consumer, seconds)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(held.watch)
            tasks.start_soon(partial(consumer.run, held, concurrency=BUDGET))
            for number, late in enumerate(proxies[3:], start=4):
                await anyio.sleep(0.3)
                await late.listen()
                await until(lambda number=number: len(consumer.connections) == number)  # type: ignore[misc]
            await until(lambda: held.handled >= (900 if seconds < 1 else 200))
            # Nobody starves: each has its share, or what it is lent.
            await until(lambda: all(c.rdy for c in consumer.statistics().per_connection))
            tasks.cancel_scope.cancel()
    assert held.most <= BUDGET
    if seconds > 1:
        assert held.most >= BUDGET * 0.8  # ... and the budget is used


async def test_what_is_lent_and_taken_back(cluster: Cluster, nsqd_kind: Kind) -> None:
    """Bursts wander from one nsqd to another, and the budget after them."""
    nsqds = [await cluster.nsqd(nsqd_kind, channels=CHANNELS) for _ in range(3)]
    async with AsyncExitStack() as stack:
        proxies = await behind_proxies(stack, nsqds, 0.03, 0.03, 0.03)
        consumer = await stack.enter_async_context(
            nsq.consume(
                "t",
                "c",
                nsqd=[proxy.address for proxy in proxies],
                max_in_flight=BUDGET,
                options=nsq.ConsumerOptions(lend_after=0.2, rdy_redistribute_interval=0.05),
                connection=PROMPT,
            )
        )
        held = Held(consumer, 0.1)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(held.watch)
            tasks.start_soon(partial(consumer.run, held, concurrency=BUDGET))
            await until(lambda: len(consumer.connections) == 3)
            for burst in range(9):
                before = held.handled
                await nsqds[burst % 3].publish("t", *[b"x"] * 400)
                await until(lambda before=before: held.handled >= before + 300)  # type: ignore[misc]
            await until(lambda: held.handled == 3600)
            tasks.cancel_scope.cancel()
    assert held.most <= BUDGET
    assert held.most >= BUDGET * 0.8
