"""A producer by nsqlookupd while real nsqds join, leave and get tombstoned: every outcome is true.

The ledger: each nsqd that leaves is restarted on its data, and everything in all of them is consumed. It
publishes 20,000 messages, or as many as NSQ_ANYIO_PUBLISHES says.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest

import nsq_anyio as nsq

from .cluster import Cluster, Server
from .observe import LIMIT, PROMPT, Events, until, until_told

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])]

PUBLISHES = int(os.environ.get("NSQ_ANYIO_PUBLISHES", "20000"))
CALLERS = 100
KEPT: dict[str, Any] = {"mem_queue_size": 0}
"""All on disk, so that what was acknowledged is there after a SIGTERM."""
OPTIONS: dict[str, Any] = {"lookupd_poll_interval": 0.2, "reconnect_delay": 0.02, "max_reconnect_delay": 0.1}
TOPICS = ("t", "u")


class Outcomes:
    """What the callers were told, by body."""

    def __init__(self) -> None:
        self.calls = 0
        self.told: dict[str, set[bytes]] = {}

    @property
    def count(self) -> int:
        return sum(map(len, self.told.values()))

    def of(self, kind: str) -> set[bytes]:
        return self.told.get(kind, set())

    async def publish(self, producer: nsq.Producer, caller: int) -> None:
        for number in range(caller, PUBLISHES, CALLERS):
            body = b"%d" % number
            outcome = "stored"
            self.calls += 1
            try:
                await producer.publish(TOPICS[number % 2], body)
            except nsq.PublishError as error:
                outcome = type(error).__name__
            self.told.setdefault(outcome, set()).add(body)

    def check(self, present: Counter[bytes]) -> None:
        assert self.calls == self.count == PUBLISHES
        missing = self.of("stored") - present.keys()
        assert not missing, f"{len(missing)} reported stored, and lost: {sorted(missing)[:5]}"
        for kind in ("NotSent", "PublishRejected"):
            there = self.of(kind) & present.keys()
            assert not there, f"{len(there)} reported {kind}, and there: {sorted(there)[:5]}"
        assert present.keys() <= self.of("stored") | self.of("OutcomeUnknown")
        twice = [body for body, times in present.items() if times > 1]
        assert not twice, f"{len(twice)} stored twice: {twice[:5]}"


async def contents(nsqd: Server) -> Counter[bytes]:
    """The bodies of all messages of an nsqd; its topics have no channel before."""
    bodies: Counter[bytes] = Counter()
    depths = {each.topic_name: each.depth for each in (await nsqd.stats()).topics}
    for topic, depth in depths.items():
        async with nsq.consume(
            topic, "c", nsqd=nsqd.tcp_address, max_in_flight=2500, connection=PROMPT
        ) as consumer:
            with anyio.fail_after(LIMIT * 4):
                for _ in range(depth):
                    message = await anext(consumer)
                    message.finish()
                    bodies[message.body] += 1
    return bodies


async def is_tombstoned(lookupd: Server, nsqd: Server, topic: str) -> bool:
    async with lookupd.lookup_http() as http:
        return any(
            node.http_port == nsqd.http_port
            and dict(zip(node.topics, node.tombstones, strict=True)).get(topic)
            for node in await http.nodes()
        )


@pytest.mark.parametrize("coalesce", [False, True], ids=["alone", "coalesced"])
async def test_nsqds_that_join_leave_and_get_tombstoned(
    cluster: Cluster, tmp_path: Path, coalesce: bool
) -> None:
    lookupds = [await cluster.nsqlookupd("real") for _ in range(2)]
    started = 0

    async def start() -> Server:
        nonlocal started
        started += 1
        path = tmp_path / str(started)
        path.mkdir()
        server = await cluster.nsqd("real", lookupds=lookupds, data_path=path, **KEPT)
        paths[server] = path
        return server

    paths: dict[Server, Path] = {}
    outcomes = Outcomes()
    events = Events()
    options = nsq.ProducerOptions(coalesce=coalesce, **OPTIONS)
    begin = anyio.current_time()
    first, second, third = [await start() for _ in range(3)]
    left: list[Server] = []
    alive = [second]
    async with nsq.produce(
        nsqlookupd=[each.http_url for each in lookupds], options=options, on_event=events
    ) as producer:
        await producer.ready()

        async def more(part: float) -> None:
            """Wait until that part of all has an outcome."""
            await until(lambda: outcomes.count >= part * PUBLISHES, 60 * LIMIT)

        async with anyio.create_task_group() as tasks:
            for caller in range(CALLERS):
                tasks.start_soon(outcomes.publish, producer, caller)
            await more(0.1)
            fourth = await start()  # joins
            await until(lambda: fourth.tcp_address in producer.connections)
            await more(0.25)
            await first.stop()  # leaves by SIGTERM
            left.append(first)
            await more(0.4)
            for lookupd in lookupds:
                async with lookupd.lookup_http() as http:
                    await http.tombstone_topic("t", second.http_address)
            assert await is_tombstoned(lookupds[0], second, "t")
            await anyio.sleep(1)  # a few polls
            before = await stored(second)
            await more(0.5)
            after = await stored(second)
            assert after["t"] == before["t"], "published where the topic is tombstoned"
            await more(0.6)
            fifth = await start()
            alive.append(fifth)
            await until(lambda: fifth.tcp_address in producer.connections)
            await third.stop()
            left.append(third)
            await more(0.75)
            await fourth.stop()
            left.append(fourth)
            again = await cluster.nsqd(
                "real", lookupds=lookupds, data_path=paths[first], succeeding=first, **KEPT
            )
            left.remove(first)
            alive.append(again)
            await until(lambda: again.tcp_address in producer.connections)
        statistics = producer.statistics()
    seconds = anyio.current_time() - begin
    present: Counter[bytes] = Counter()
    revived = [await cluster.nsqd("real", data_path=paths[each], succeeding=each, **KEPT) for each in left]
    for server in (*alive, *revived):
        present += await contents(server)
    outcomes.check(present)
    assert outcomes.of("stored")
    assert not outcomes.of("NotSent")
    assert not outcomes.of("PublishRejected")
    assert len(events.of(nsq.events.Connected)) >= 6
    assert statistics.published == len(outcomes.of("stored"))
    figures = {kind: len(bodies) for kind, bodies in outcomes.told.items()}
    (tmp_path / "figures").write_text(f"{figures}, resent {statistics.resent}, {seconds:.1f} s")


async def stored(nsqd: Server) -> Counter[str]:
    """How many messages of each topic an nsqd was given."""
    return Counter({topic.topic_name: topic.message_count for topic in (await nsqd.stats()).topics})


async def test_a_producer_that_starts_before_its_nsqlookupd(cluster: Cluster) -> None:
    lookupd = await cluster.nsqlookupd("real")
    await lookupd.stop()
    async with nsq.produce(nsqlookupd=lookupd.http_url) as producer, anyio.create_task_group() as tasks:
        tasks.start_soon(producer.publish, "t", b"x")
        await anyio.sleep(0.5)
        lookupd = await cluster.nsqlookupd("real", succeeding=lookupd)
        nsqd = await cluster.nsqd("real", lookupds=[lookupd])
        with anyio.fail_after(LIMIT):
            await producer.ready()

        async def is_stored() -> bool:
            return (await stored(nsqd))["t"] == 1

        await until_told(is_stored)
