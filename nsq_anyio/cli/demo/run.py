"""The demo without Spark: numbered messages are published, consumed and counted."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import anyio

from ...consumer import Message, consume
from ...embedded import nsqd as embedded_nsqd
from ...embedded import nsqlookupd as embedded_nsqlookupd
from ...errors import NSQError
from ...http import Nsqlookupd
from ...options import ConsumerOptions
from ...producer import Producer, produce

_EMBEDDED_NSQDS = 2
_BATCH = 200
_BODY_SIZE = 100
_PUBLISHERS = 4
_CONSUMERS = 10
_MAX_IN_FLIGHT = 1000
_POLL_INTERVAL = 0.5
_STALL_TIMEOUT = 30.0


class DemoStalled(NSQError):
    """Messages stopped arriving before the demo was complete."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The servers of a demo.

    :ivar nsqds: ``host:port`` of the nsqds to publish to
    :ivar nsqlookupds: URLs of the nsqlookupds to consume through; if empty, consume from the nsqds directly
    """

    nsqds: Sequence[str]
    nsqlookupds: Sequence[str]


@dataclass(slots=True)
class Outcome:
    """The counts of a demo, updated while it runs.

    :ivar published: messages that were confirmed, per nsqd
    :ivar finished: messages finished, per nsqd
    :ivar redelivered: finished messages that had been delivered before, per nsqd
    :ivar seen: the numbers of the messages that arrived
    """

    messages: int
    seconds: float = 0.0
    published: Counter[str] = field(default_factory=Counter[str])
    finished: Counter[str] = field(default_factory=Counter[str])
    redelivered: Counter[str] = field(default_factory=Counter[str])
    seen: set[int] = field(default_factory=set[int])


@asynccontextmanager
async def demo_cluster(nsqds: Sequence[str], nsqlookupds: Sequence[str]) -> AsyncGenerator[Cluster]:
    """Yield the given servers; if none are given, run embedded servers for the length of the block."""
    async with AsyncExitStack() as stack:
        if not nsqds and not nsqlookupds:
            nsqlookupd = await stack.enter_async_context(embedded_nsqlookupd())
            nsqlookupds = [nsqlookupd.http_url]
            addresses = [nsqlookupd.tcp_address]
            nsqds = [
                (await stack.enter_async_context(embedded_nsqd(lookupd_tcp_addresses=addresses))).tcp_address
                for _ in range(_EMBEDDED_NSQDS)
            ]
        yield Cluster(nsqds or await _all_nsqds(nsqlookupds), nsqlookupds)


async def _all_nsqds(nsqlookupds: Sequence[str]) -> list[str]:
    addresses: dict[str, None] = {}
    for url in nsqlookupds:
        async with Nsqlookupd(url) as nsqlookupd:
            for node in await nsqlookupd.nodes():
                addresses[str(node.address)] = None
    if not addresses:
        asked = ", ".join(nsqlookupds)
        raise DemoStalled(f"no nsqd is registered with {asked}: name one with --nsqd-tcp-address")
    return list(addresses)


async def run_demo(cluster: Cluster, topic: str, outcome: Outcome, changed: Callable[[], None]) -> None:
    """Publish and consume until every message has arrived.

    :param changed: called whenever ``outcome`` has changed
    :raises DemoStalled: if no message is published or consumed for 30 seconds
    """
    # The bodies name this run, so messages that an interrupted run left in the topic are not counted.
    run = secrets.token_hex(4).encode()
    done = anyio.Event()
    progressed_at = started_at = anyio.current_time()

    async def count(message: Message) -> None:
        nonlocal progressed_at
        this_run, _, number = message.body.rstrip().partition(b":")
        if this_run != run:
            return
        outcome.finished[message.nsqd] += 1
        outcome.redelivered[message.nsqd] += message.attempts > 1
        outcome.seen.add(int(number))
        progressed_at = anyio.current_time()
        if len(outcome.seen) == outcome.messages:
            done.set()

    async def watch() -> None:
        while True:
            await anyio.sleep(0.1)
            changed()
            if anyio.current_time() - progressed_at > _STALL_TIMEOUT:
                came = f"{len(outcome.seen)} of {outcome.messages} messages arrived"
                raise DemoStalled(f"no progress for {_STALL_TIMEOUT:.0f} s: {came}")

    consuming = consume(
        topic,
        "demo",
        nsqd=None if cluster.nsqlookupds else cluster.nsqds,
        nsqlookupd=cluster.nsqlookupds or None,
        max_in_flight=_MAX_IN_FLIGHT,
        options=ConsumerOptions(lookupd_poll_interval=_POLL_INTERVAL),
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        async with consuming as consumer:
            tasks.start_soon(_publish, cluster, topic, run, outcome)
            async with anyio.create_task_group() as handlers:
                handlers.start_soon(lambda: consumer.run(count, concurrency=_CONSUMERS))
                await done.wait()
                consumer.stop()
        outcome.seconds = anyio.current_time() - started_at
        tasks.cancel_scope.cancel()
    changed()


async def _publish(cluster: Cluster, topic: str, run: bytes, outcome: Outcome) -> None:
    """Publish all messages in batches from several tasks."""
    starts = iter(range(0, outcome.messages, _BATCH))
    async with produce(cluster.nsqds) as producer, anyio.create_task_group() as tasks:

        async def publish() -> None:
            for start in starts:
                numbers = range(start, min(start + _BATCH, outcome.messages))
                bodies = [b"%b:%d" % (run, number) for number in numbers]
                await producer.publish_many(topic, [body.ljust(_BODY_SIZE) for body in bodies])
                _count_published(producer, outcome)

        for _ in range(_PUBLISHERS):
            tasks.start_soon(publish)


def _count_published(producer: Producer, outcome: Outcome) -> None:
    for connection in producer.statistics().per_connection:
        outcome.published[connection.nsqd] = connection.published
