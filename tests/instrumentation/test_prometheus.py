"""The collector: what it shows while consumers and producers run and afterwards, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event as ThreadEvent
from threading import Thread

import anyio
import pytest
from anyio import to_thread
from prometheus_client import CollectorRegistry, generate_latest

import nsq_anyio as nsq
from nsq_anyio.instrumentation.prometheus import METRICS, NSQCollector

from ..fake_nsqd import fake_nsqds, until
from .scraping import Scraper, Shown

pytestmark = pytest.mark.anyio

QUICK = nsq.ConsumerOptions(max_backoff_duration=0, requeue_delay=0, max_attempts=3)


async def handle_all(consumer: nsq.Consumer, finished: int, handler: Callable[[nsq.Message], None]) -> None:
    """Run a handler until so many messages are finished."""

    async def handle(message: nsq.Message) -> None:
        handler(message)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: consumer.run(handle, concurrency=3))
            await until(lambda: consumer.statistics().finished == finished)
            consumer.stop()


def accept(_message: nsq.Message) -> None:
    """A handler that has nothing to do."""


async def test_counts_stay_when_consumers_and_producers_have_ended(scraper: Scraper) -> None:
    async with nsq.embedded.nsqd() as nsqd:
        for number in (1, 2):
            async with nsq.produce(nsqd.tcp_address) as producer:
                scraper.collector.add(producer)
                await producer.publish_many("t", [b"a", b"b", b"c"])
                async with nsq.consume("t", "c", nsqd=nsqd.tcp_address, options=QUICK) as consumer:
                    scraper.collector.add(consumer)
                    await handle_all(consumer, 3, accept)
                    running = scraper()
                    assert running("consumer_connections") == running("producer_connections") == 1
                    assert running("consumer_messages_total", topic="t", channel="c") == 3 * number
            for _ in range(2):
                ended = scraper()
                assert ended("consumer_messages_total", nsqd=nsqd.tcp_address) == 3 * number
                assert ended("consumer_messages_finished_total") == 3 * number
                assert ended("consumer_handler_duration_seconds_count") == 3 * number
                assert ended("consumer_message_attempts_bucket", le="1.0") == 3 * number
                assert ended("producer_messages_total", topic="t", outcome="stored") == 3 * number
                assert ended("producer_messages_stored_total", nsqd=nsqd.tcp_address) == 3 * number
                assert ended("producer_publish_duration_seconds_count", topic="t") == number
                gauges = [metric for metric in METRICS if metric.kind == "gauge"]
                left = [metric.name for metric in gauges if ended.all(metric.name.removeprefix("nsq_"))]
                assert left == ["nsq_event_loop_delay_seconds"]


async def test_those_that_end_are_dropped_without_a_scrape(scraper: Scraper) -> None:
    async with nsq.embedded.nsqd() as nsqd:
        for number in range(5):
            async with nsq.produce(nsqd.tcp_address) as producer:
                scraper.collector.add(producer)
                await producer.publish(f"t{number}", b"body")
            assert scraper.collector.measured == 1
    assert scraper()("producer_messages_total", outcome="stored") == 5
    assert scraper.collector.measured == 0


async def test_counts_of_the_channels_that_ended_first_are_forgotten(
    scraper: Scraper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nsq_anyio.instrumentation.prometheus.collector.MOST_ENDED", 2)
    async with nsq.embedded.nsqd() as nsqd:
        for channel in ("a", "b", "c", "b", "d"):
            async with nsq.consume("t", channel, nsqd=nsqd.tcp_address) as consumer:
                scraper.collector.add(consumer)
                await consumer.ready()
            scraper()
    shown = scraper()
    connected = {
        channel: shown("consumer_events_total", channel=channel, event="Connected") for channel in "abcd"
    }
    assert connected == {"a": 0, "b": 2, "c": 0, "d": 1}


async def test_topics_without_number_share_a_label(scraper: Scraper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nsq_anyio.instrumentation.prometheus.readers.MOST_TOPICS", 2)
    async with nsq.embedded.nsqd() as nsqd, nsq.produce(nsqd.tcp_address) as producer:
        scraper.collector.add(producer)
        for topic in ("a", "b", "c", "a", "d", "c"):
            await producer.publish(topic, b"body")
        shown = scraper()
    labels = ("a", "b", "c", "d", "(other)")
    stored = [shown("producer_messages_total", topic=topic, outcome="stored") for topic in labels]
    assert stored == [2, 1, 0, 0, 3]


async def test_the_counts_of_an_nsqd_go_on_after_a_lost_connection(scraper: Scraper) -> None:
    options = nsq.ConsumerOptions(reconnect_delay=0.005)
    async with (
        fake_nsqds(1) as (nsqd,),
        nsq.consume("t", "c", nsqd=nsqd.address, max_in_flight=4, options=options) as consumer,
    ):
        scraper.collector.add(consumer)
        first = await nsqd.subscribed()
        await first.messages(b"a", b"b")
        for _ in range(2):
            (await anext(consumer)).finish()
        assert scraper()("consumer_messages_finished_total", nsqd=nsqd.address) == 2
        await first.close()
        second = await nsqd.subscribed(1)
        await second.message()
        await anext(consumer)
        shown = scraper()
        assert shown("consumer_messages_total", nsqd=nsqd.address) == 3
        assert shown("consumer_messages_finished_total", nsqd=nsqd.address) == 2
        assert shown("consumer_messages_in_flight", nsqd=nsqd.address) == 1
        assert shown("consumer_events_total", event="Disconnected") == 1


async def test_an_nsqd_that_cannot_be_reached_has_no_connections(scraper: Scraper) -> None:
    async with fake_nsqds(1) as (gone,):
        pass
    async with (
        nsq.consume("t", "c", nsqd=gone.address) as consumer,
        nsq.produce(gone.address) as producer,
    ):
        scraper.collector.add(consumer)
        scraper.collector.add(producer)
        await until(lambda: scraper()("consumer_events_total", event="ConnectFailed"))
        await until(lambda: scraper()("producer_events_total", event="ConnectFailed"))
        shown = scraper()
    assert shown.all("consumer_connections", nsqd=gone.address) == [0]
    assert shown.all("producer_connections", nsqd=gone.address) == [0]


async def test_a_scrape_of_another_thread_while_the_loop_runs(scraper: Scraper) -> None:
    async with nsq.embedded.nsqd() as nsqd, nsq.produce(nsqd.tcp_address) as producer:
        scraper.collector.add(producer)
        await producer.publish("t", b"body")
        shown = await to_thread.run_sync(scraper)
        assert shown("producer_messages_total", outcome="stored") == 1
        assert b"nsq_producer_messages_total" in await to_thread.run_sync(generate_latest, scraper.registry)


async def test_a_scrape_does_not_wait_for_a_blocked_event_loop(
    scraper: Scraper, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience = "nsq_anyio.instrumentation.prometheus.collector.PATIENCE"
    shown: list[Shown] = []
    async with nsq.embedded.nsqd() as nsqd, nsq.produce(nsqd.tcp_address) as producer:
        scraper.collector.add(producer)
        await producer.publish("t", b"body")
        scraper()
        await producer.publish("t", b"body")
        monkeypatch.setattr(patience, 0.1)
        thread = Thread(target=lambda: shown.append(scraper()))
        thread.start()
        thread.join(20)  # which blocks the event loop
        (blocked,) = shown
        assert blocked("producer_messages_total", outcome="stored") == 1
        assert blocked("event_loop_delay_seconds") >= 0.1
        monkeypatch.setattr(patience, 20.0)  # a busy machine lets the event loop wait
        free = await to_thread.run_sync(scraper)
        assert free("producer_messages_total", outcome="stored") == 2


async def test_counters_never_decrease_while_consumers_come_and_go(scraper: Scraper) -> None:
    over = ThreadEvent()
    series: list[list[Shown]] = []

    def scrape() -> list[Shown]:
        seen: list[Shown] = []
        while not over.is_set():
            seen.append(scraper())
        return seen

    async def scrape_in_thread() -> None:
        series.append(await to_thread.run_sync(scrape))

    async with nsq.embedded.nsqd() as nsqd, nsq.produce(nsqd.tcp_address) as producer:
        scraper.collector.add(producer)
        async with anyio.create_task_group() as tasks:
            for _ in range(2):  # several servers may scrape at the same time
                tasks.start_soon(scrape_in_thread)
            try:
                for _ in range(10):
                    await producer.publish_many("t", [b"a", b"b"])
                    async with nsq.consume("t", "c", nsqd=nsqd.tcp_address) as consumer:
                        scraper.collector.add(consumer)
                        await handle_all(consumer, 2, accept)
            finally:
                over.set()
    assert scraper()("consumer_messages_finished_total") == 20
    for seen in series:
        for name in ("consumer_messages_finished_total", "consumer_handler_duration_seconds_count"):
            values = [shown(name) for shown in seen]
            assert values == sorted(values)
            assert values[-1] <= 20


async def test_only_consumers_and_producers_can_be_added_once_and_in_their_event_loop(
    scraper: Scraper,
) -> None:
    async with nsq.embedded.nsqd() as nsqd:
        async with (
            nsq.produce(nsqd.tcp_address) as producer,
            nsq.consume("t", "c", nsqd=nsqd.tcp_address) as consumer,
        ):
            for each in (producer, consumer):
                with pytest.raises(nsq.InvalidOption, match="outside of an event loop"):
                    await to_thread.run_sync(scraper.collector.add, each)
                scraper.collector.add(each)
                for collector in (scraper.collector, NSQCollector(None)):
                    with pytest.raises(nsq.InvalidOption, match="already measured"):
                        collector.add(each)
        with pytest.raises(nsq.InvalidOption, match="use a consumer, producer or service"):
            scraper.collector.add(nsqd)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_a_registry_has_one_collector() -> None:
    registry = CollectorRegistry()
    collector = NSQCollector(registry)
    with pytest.raises(ValueError, match="nsq_consumer_messages"):
        NSQCollector(registry)
    registry.unregister(collector)
    NSQCollector(registry)


@pytest.mark.parametrize("buckets", [(), (0,), (-1, 1), (1, 1), (2, 1), (1, float("inf")), (float("nan"),)])
def test_buckets_that_are_not_ascending_seconds(buckets: tuple[float, ...]) -> None:
    with pytest.raises(nsq.InvalidOption, match=r"duration_buckets=.*ascending seconds"):
        NSQCollector(None, duration_buckets=buckets)
