"""The Prometheus collector against a server: what became of messages and publishes, as a scrape shows it."""

from __future__ import annotations

import anyio
import pytest
from anyio import to_thread
from prometheus_client import CollectorRegistry

import nsq_anyio as nsq
from nsq_anyio.instrumentation.prometheus import NSQCollector

from ..instrumentation.scraping import Scraper
from .cluster import Server
from .observe import LIMIT, PROMPT, until

pytestmark = pytest.mark.anyio

OPTIONS = nsq.ConsumerOptions(max_backoff_duration=0, requeue_delay=0, max_attempts=3)


@pytest.fixture
def scraper() -> Scraper:
    registry = CollectorRegistry()
    return Scraper(registry, NSQCollector(registry))


async def test_what_became_of_messages(nsqd: Server, topic: str, scraper: Scraper) -> None:
    async def handle(message: nsq.Message) -> None:
        match message.body:
            case b"discarded":
                raise nsq.Discard("no")
            case b"requeued" if message.attempts == 1:
                raise nsq.Requeue(0, backoff=False)
            case b"failing":
                raise ValueError("always")
            case _:
                await anyio.sleep(0.02)

    bodies = [b"fine", b"discarded", b"requeued", b"failing"]
    async with (
        nsq.produce(nsqd.tcp_address) as producer,
        nsq.consume(
            topic, "c", nsqd=nsqd.tcp_address, max_in_flight=10, options=OPTIONS, connection=PROMPT
        ) as consumer,
    ):
        scraper.collector.add(producer)
        scraper.collector.add(consumer)
        await consumer.ready()
        assert scraper()("consumer_rdy", topic=topic, channel="c", nsqd=nsqd.tcp_address) == 10
        await producer.publish(topic, bodies[0])
        await producer.publish_many(topic, bodies[1:])
        with anyio.fail_after(LIMIT):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: consumer.run(handle, concurrency=3))
                await until(lambda: consumer.statistics().finished == 4)
                consumer.stop()
        shown = await to_thread.run_sync(scraper)

    of_nsqd = {"topic": topic, "channel": "c", "nsqd": nsqd.tcp_address}
    counts = {
        name: shown(f"consumer_{name}_total", **of_nsqd)
        for name in (
            "messages",
            "messages_finished",
            "messages_requeued",
            "messages_failed",
            "messages_discarded",
            "messages_given_up",
            "messages_timed_out",
            "answers_late",
            "answers_refused",
        )
    }
    # max_attempts=3: the failing one is given up after its third failure.
    assert counts == {
        "messages": 7,
        "messages_finished": 4,
        "messages_requeued": 3,
        "messages_failed": 3,
        "messages_discarded": 1,
        "messages_given_up": 1,
        "messages_timed_out": 0,
        "answers_late": 0,
        "answers_refused": 0,
    }
    assert shown("consumer_received_bytes_total", **of_nsqd) > sum(map(len, bodies))
    assert shown("consumer_connections", **of_nsqd) == 1
    assert shown("consumer_max_in_flight", topic=topic) == 10
    of_channel = {"topic": topic, "channel": "c"}
    # The handler saw two messages once, one twice and one three times.
    assert shown("consumer_handler_duration_seconds_count", **of_channel) == 7
    assert shown("consumer_handler_duration_seconds_bucket", le="0.01", **of_channel) <= 5
    assert shown("consumer_handler_duration_seconds_sum", **of_channel) >= 0.04
    attempts = [
        shown("consumer_message_attempts_bucket", le=le, **of_channel) for le in ("1.0", "2.0", "3.0", "+Inf")
    ]
    assert attempts == [4, 6, 7, 7]
    assert shown("producer_messages_total", topic=topic, outcome="stored") == 4
    assert shown("producer_messages_stored_total", nsqd=nsqd.tcp_address) == 4
    assert shown("producer_publish_duration_seconds_count", topic=topic) == 2
    assert shown("producer_stored_bytes_total", topic=topic) > sum(map(len, bodies))


async def test_what_became_of_publishes(nsqd: Server, topic: str, scraper: Scraper) -> None:
    options = nsq.ProducerOptions(max_defer=10**6, publish_timeout=5.0)
    async with nsq.produce(nsqd.tcp_address, options=options) as producer:
        scraper.collector.add(producer)
        await producer.publish(topic, b"stored")
        with pytest.raises(nsq.PublishRejected):
            await producer.publish(topic, b"rejected", defer=10**6)
        shown = scraper()
    outcomes = {
        outcome: shown("producer_messages_total", topic=topic, outcome=outcome)
        for outcome in ("stored", "rejected", "not_sent", "unknown")
    }
    assert outcomes == {"stored": 1, "rejected": 1, "not_sent": 0, "unknown": 0}
    assert shown("producer_publish_duration_seconds_count", topic=topic) == 1
