"""How much faster publishes travel together, against a real nsqd."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import anyio
import pytest

import nsq_anyio as nsq

from .cluster import Cluster

pytestmark = pytest.mark.anyio

TASKS = 100
BODY = b"x" * 100
ROUNDS = 5
ALONE, TOGETHER = 100, 300
"""Publishes of each task in a round, alone and together: so that both take about as long."""

AT_LEAST = {"asyncio": 1.5, "trio": 1.15}
"""Below what two idle cores had (1.7 to 2.4 on asyncio, 1.3 to 1.5 on Trio), to hold on any machine."""


async def rate(producer: nsq.Producer, each: int) -> float:
    """Publishes a second of 100 tasks, each of which awaits every outcome."""

    async def publish() -> None:
        for _ in range(each):
            await producer.publish("t", BODY)

    started_at = time.perf_counter()
    async with anyio.create_task_group() as tasks:
        for _ in range(TASKS):
            tasks.start_soon(publish)
    return TASKS * each / (time.perf_counter() - started_at)


async def test_coalescing_is_faster(
    cluster: Cluster, anyio_backend_name: str, record_property: Callable[[str, object], None]
) -> None:
    nsqd = await cluster.nsqd("real", mem_queue_size=10_000_000)
    alone: list[float] = []
    together: list[float] = []
    async with (
        nsq.produce(nsqd.tcp_address) as plain,
        nsq.produce(nsqd.tcp_address, options=nsq.ProducerOptions(coalesce=True)) as coalescing,
    ):
        for _ in range(ROUNDS):  # in turn, so that whatever else the machine does slows down both
            alone.append(await rate(plain, ALONE))
            together.append(await rate(coalescing, TOGETHER))
        stored = await nsqd.stats()
    assert stored.topics[0].message_count == TASKS * ROUNDS * (ALONE + TOGETHER)
    factor = median(together) / median(alone)
    text = f"{median(alone):,.0f} publishes/s alone, {median(together):,.0f} together: {factor:.1f} times"
    record_property("rate", text)
    print(text)  # noqa: T201 - shown with -s, and when it fails
    assert factor >= AT_LEAST[anyio_backend_name], text
