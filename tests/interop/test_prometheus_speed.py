"""What the Prometheus collector costs a consumer at RDY 2500, against a real nsqd."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import Event, Thread

import pytest
from prometheus_client import CollectorRegistry, generate_latest

import nsq_anyio as nsq
from nsq_anyio.instrumentation.prometheus import NSQCollector

from .cluster import Cluster, Server

pytestmark = pytest.mark.anyio

MESSAGES = 100_000
ROUNDS = 5
BODY = b"x" * 100
RDY = 2_500
CONCURRENCY = 100
PART = 5_000
"""Messages of one publish to fill the channel."""

AT_LEAST = 0.7
"""Of the rate without the collector, by CPU time. A quiet machine measures 0.84 to 0.9. This is far enough
below that to fail only when something is wrong."""


async def rates(
    nsqd: Server, topic: str, messages: int, collector: NSQCollector | None
) -> tuple[float, float]:
    """Handle messages that wait in nsqd; return how many in a second of time, and in one of CPU time."""
    async with nsqd.http() as http:
        await http.create_topic(topic)
        await http.create_channel(topic, "c")
        for _ in range(messages // PART):
            await http.publish_many(topic, [BODY] * PART)
    left = messages
    started = cpu_started = 0.0
    ended = cpu_ended = 0.0

    async def handle(message: nsq.Message) -> None:
        nonlocal left, started, cpu_started, ended, cpu_ended
        if left == messages:
            started, cpu_started = time.perf_counter(), time.process_time()
        left -= 1
        if not left:
            ended, cpu_ended = time.perf_counter(), time.process_time()
            consumer.stop()

    async with nsq.consume(topic, "c", nsqd=nsqd.tcp_address, max_in_flight=RDY) as consumer:
        if collector is not None:
            collector.add(consumer)
        await consumer.run(handle, concurrency=CONCURRENCY)
        assert consumer.statistics().received == messages
    async with nsqd.http() as http:
        await http.delete_topic(topic)
    return messages / (ended - started), messages / (cpu_ended - cpu_started)


@contextmanager
def scraped(registry: CollectorRegistry) -> Generator[None]:
    """Scrape every second in a thread, as ``prometheus_client.start_http_server`` does when it is asked."""
    over = Event()

    def scrape() -> None:
        while not over.wait(1.0):
            generate_latest(registry)

    thread = Thread(target=scrape)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


async def compare(nsqd: Server, messages: int, rounds: int) -> tuple[float, str]:
    """Return what the collector leaves of the rate, by CPU time in the best round, and a text."""
    registry = CollectorRegistry()
    collector = NSQCollector(registry)
    without: list[tuple[float, float]] = []
    measured: list[tuple[float, float]] = []
    with scraped(registry):
        for number in range(rounds):  # in turn, so that whatever else the machine does slows down both
            without.append(await rates(nsqd, f"without-{number}", messages, None))
            measured.append(await rates(nsqd, f"with-{number}", messages, collector))
    by_time, by_cpu_time = (
        (max(rate[kind] for rate in without), max(rate[kind] for rate in measured)) for kind in (0, 1)
    )
    text = "; ".join(
        f"{before:,.0f} messages/{unit} without, {after:,.0f} with: {after / before:.3f}"
        for unit, (before, after) in (("s", by_time), ("CPU s", by_cpu_time))
    )
    count = sum(
        sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "nsq_consumer_handler_duration_seconds_count"
    )
    assert count == messages * rounds
    # Within a round: one that happens to be fast without the collector says nothing of the others.
    return max(after[1] / before[1] for before, after in zip(without, measured, strict=True)), text


@pytest.mark.timeout(180)
async def test_the_collector_keeps_the_rate(
    cluster: Cluster, record_property: Callable[[str, object], None]
) -> None:
    nsqd = await cluster.nsqd("real", mem_queue_size=10_000_000)
    ratio, text = await compare(nsqd, MESSAGES, ROUNDS)
    record_property("rate", text)
    print(text)  # noqa: T201 - shown with -s, and when it fails
    assert ratio >= AT_LEAST, text
