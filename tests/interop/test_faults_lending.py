"""One busy nsqd among idle ones gets nearly what it would get alone."""

from __future__ import annotations

from functools import partial

import anyio
import pytest

import nsq_anyio as nsq

from .cluster import Cluster, Server
from .observe import PROMPT, until

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])]

MAX_IN_FLIGHT = 200
HANDLER_SECONDS = 0.05
"""So that what is in flight bounds the rate, at 4,000 messages a second, and not the machine."""
IDLE_NSQDS = 10
MEASURED_SECONDS = 1.5
LEAST_RATIO = 0.8


async def rate(busy: Server, idle: list[Server]) -> float:
    """Messages a second from the busy nsqd, once the RDY counts have settled."""
    handled = 0
    measured = 0.0

    async def handle(message: nsq.Message) -> None:
        nonlocal handled
        await anyio.sleep(HANDLER_SECONDS)
        handled += 1

    addresses = [nsqd.tcp_address for nsqd in (busy, *idle)]
    async with (
        nsq.consume("t", "c", nsqd=addresses, max_in_flight=MAX_IN_FLIGHT, connection=PROMPT) as consumer,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(partial(consumer.run, handle, concurrency=MAX_IN_FLIGHT))

        def has_settled() -> bool:
            counts = {one.nsqd: one.rdy for one in consumer.statistics().per_connection}
            return (
                len(counts) == len(addresses) and counts.pop(busy.tcp_address) == MAX_IN_FLIGHT - len(idle)
            ) and set(counts.values()) <= {1}

        await until(has_settled)
        begun, before = anyio.current_time(), handled
        await anyio.sleep(MEASURED_SECONDS)
        measured = (handled - before) / (anyio.current_time() - begun)
        consumer.stop()
    return measured


async def test_a_busy_nsqd_among_idle_ones(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    busy = await cluster.nsqd("real", channels={"t": ["c"]})
    idle = [await cluster.nsqd("real", channels={"t": ["c"]}) for _ in range(IDLE_NSQDS)]
    for _ in range(20):
        await busy.publish("t", *[b"x" * 50] * 3000)
    alone: list[float] = []
    among: list[float] = []
    for _ in range(2):
        alone.append(await rate(busy, []))
        among.append(await rate(busy, idle))
    assert (await busy.channel("t", "c")).depth > 0  # it was busy all the time
    ratio = sum(among) / sum(alone)
    with capsys.disabled():
        print(  # noqa: T201 - for the log of CI
            f"\nalone {alone[0]:.0f}, {alone[1]:.0f} msg/s; "
            f"among {IDLE_NSQDS} idle {among[0]:.0f}, {among[1]:.0f} msg/s: {ratio:.0%}"
        )
    assert ratio >= LEAST_RATIO
