"""What the nsqds together may send never exceeds max_in_flight, whatever comes and goes."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial

import anyio
import pytest

import nsq_anyio as nsq

from .cluster import Cluster, Server
from .observe import PROMPT, Events, until

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])]

CHANNELS = {"t": ["c"]}
QUICK = nsq.ConsumerOptions(
    lookupd_poll_interval=0.1,
    rdy_redistribute_interval=0.03,
    lend_after=0.1,
    low_rdy_idle_timeout=0.05,
    low_rdy_timeout=0.2,
)


class Watch:
    """Sums RDY counts: at each event of the consumer, and as the nsqds tell them.

    nsqds cannot be asked all at the same instant. So a sum counts only when two rounds of requests have the
    same answers, and no RDY count in the consumer has changed since before the first.
    """

    def __init__(self, nsqds: list[Server]) -> None:
        self.consumer: nsq.Consumer | None = None
        self.changes = 0
        self.most_in_consumer = 0
        self.sums: list[int] = []
        self.events = Events()
        self._nsqds = nsqds
        self._counts: dict[str, int] = {}

    def on_event(self, event: nsq.events.Event) -> None:
        self.events(event)
        if self.consumer is not None:
            counts = {one.nsqd: one.rdy for one in self.consumer.statistics().per_connection}
            if counts != self._counts:
                self._counts = counts
                self.changes += 1
            self.most_in_consumer = max(self.most_in_consumer, sum(counts.values()))

    async def run(self) -> None:
        """Ask continuously, until cancelled."""
        async with AsyncExitStack() as stack:
            https = [await stack.enter_async_context(nsqd.http()) for nsqd in self._nsqds]
            while True:
                changes = self.changes
                first = await ready_counts(https)
                second = await ready_counts(https)
                if first == second and changes == self.changes:
                    self.sums.append(sum(first))

    async def reaches(self, count: int) -> None:
        """Wait until the nsqds tell, from now on, that they may send so many together."""
        already = len(self.sums)
        await until(lambda: count in self.sums[already:])

    def check(self, max_in_flight: int) -> None:
        assert self.most_in_consumer == max_in_flight
        assert len(self.sums) >= 20
        assert max(self.sums) == max_in_flight


async def ready_counts(https: list[nsq.http.Nsqd]) -> list[int]:
    """The RDY count of the channel at each nsqd, 0 at one that is not there."""
    counts = [0] * len(https)

    async def ask(place: int) -> None:
        try:
            stats = await https[place].stats(topic="t", channel="c", include_mem=False)
        except nsq.HTTPUnavailable:
            return
        clients = [client for topic in stats.topics for one in topic.channels for client in one.clients]
        counts[place] = sum(client.ready_count for client in clients)

    async with anyio.create_task_group() as tasks:
        for place in range(len(https)):
            tasks.start_soon(ask, place)
    return counts


async def test_nsqds_that_come_and_go(cluster: Cluster) -> None:
    """Three stay, two are stopped and started in turns, and bursts make the budget wander."""
    lookupd = await cluster.nsqlookupd("real")
    nsqds = [await cluster.nsqd("real", lookupds=[lookupd], channels=CHANNELS) for _ in range(5)]
    watch = Watch(nsqds)
    rng = random.Random(1)

    async def handle(message: nsq.Message) -> None:
        await anyio.sleep(0.01)

    async def burst() -> None:
        while True:
            await rng.choice(nsqds[:3]).publish("t", *[b"x"] * 100)
            await anyio.sleep(0.2)

    def is_connected_to(count: int) -> Callable[[], bool]:
        return lambda: len(consumer.connections) == count

    async with (
        nsq.consume(
            "t",
            "c",
            nsqlookupd=lookupd.http_url,
            max_in_flight=20,
            options=QUICK,
            connection=PROMPT,
            on_event=watch.on_event,
        ) as consumer,
        anyio.create_task_group() as tasks,
    ):
        watch.consumer = consumer
        tasks.start_soon(watch.run)
        tasks.start_soon(burst)
        tasks.start_soon(partial(consumer.run, handle, concurrency=20))
        await until(is_connected_to(5))
        await watch.reaches(20)
        for _ in range(2):
            for place in (3, 4):
                await nsqds[place].stop()
                await until(is_connected_to(7 - place))
                await watch.reaches(20)  # the others have its share
            for place in (4, 3):
                nsqds[place] = await cluster.nsqd(
                    "real", lookupds=[lookupd], channels=CHANNELS, succeeding=nsqds[place]
                )
                await until(is_connected_to(8 - place))
                await watch.reaches(20)
        await until(lambda: len(watch.sums) >= 20, 30)
        tasks.cancel_scope.cancel()
    assert len(watch.events.of(nsq.events.Disconnected)) == 4
    watch.check(20)


async def test_more_nsqds_than_max_in_flight_are_all_drained(cluster: Cluster) -> None:
    nsqds = [await cluster.nsqd("real", channels=CHANNELS) for _ in range(5)]
    bodies = [b"%d" % number for number in range(1500)]
    for place, nsqd in enumerate(nsqds):
        await nsqd.publish("t", *bodies[place::5])
    watch = Watch(nsqds)
    handled: list[bytes] = []

    async def handle(message: nsq.Message) -> None:
        await anyio.sleep(0.001)
        handled.append(message.body)

    async with (
        nsq.consume(
            "t",
            "c",
            nsqd=[nsqd.tcp_address for nsqd in nsqds],
            max_in_flight=3,
            options=replace(QUICK, low_rdy_idle_timeout=0.4, low_rdy_timeout=0.8),
            connection=PROMPT,
            on_event=watch.on_event,
        ) as consumer,
        anyio.create_task_group() as tasks,
    ):
        watch.consumer = consumer
        tasks.start_soon(watch.run)
        tasks.start_soon(partial(consumer.run, handle, concurrency=3))
        await until(lambda: len(handled) == len(bodies))
        await until(lambda: len(watch.sums) >= 20, 30)
        tasks.cancel_scope.cancel()
    assert sorted(handled) == sorted(bodies)
    for nsqd in nsqds:
        channel = await nsqd.channel("t", "c")
        assert (channel.depth, channel.in_flight_count, channel.deferred_count) == (0, 0, 0)
    watch.check(3)
