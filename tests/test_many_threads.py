"""Objects that threads share, used by many threads at once: without the GIL they really run at once.

With the GIL, threads take turns so often here that most orders of their steps occur as well.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import anyio
import pytest
from anyio import to_thread
from prometheus_client import CollectorRegistry, generate_latest

import nsq_anyio as nsq
from nsq_anyio.instrumentation.prometheus import NSQCollector

from .sync.conftest import LIMIT, Backend, backend, no_threads_left, nothing_left, nsqd, publish, published

__all__ = ["backend", "nsqd"]

THREADS = 8
MESSAGES = 640
BODIES = [b"%d" % number for number in range(MESSAGES)]


@pytest.fixture(autouse=True)
def _short_turns() -> Generator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@contextmanager
def repeated(function: Callable[[], object], threads: int = 2) -> Generator[None]:
    """Call a function again and again in threads, for the length of the block; it must not raise."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(0.0005):
            function()

    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(repeat) for _ in range(threads)]
        try:
            yield
        finally:
            over.set()
    for future in futures:
        future.result()


def in_threads(function: Callable[[int], object]) -> None:
    """Call a function with the numbers of threads, in all of them at once; the first error is raised."""
    together = threading.Barrier(THREADS)

    def work(number: int) -> None:
        together.wait(LIMIT)
        function(number)

    with ThreadPoolExecutor(THREADS) as pool:
        for future in [pool.submit(work, number) for number in range(THREADS)]:
            future.result(LIMIT)


def test_a_producer_loses_nothing(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    """The threads also open it together."""
    own = MESSAGES // THREADS

    def work(number: int) -> None:
        if number % 2:
            for future in [producer.publish_soon("t", b"soon") for _ in range(own)]:
                future.result(LIMIT)
        else:
            for _ in range(own // 2):
                producer.publish_many("t", [b"a", b"b"])

    def look() -> None:
        seen.append(producer.statistics().published)

    seen: list[int] = []
    producer = nsq.sync.produce(nsqd.tcp_address, backend=backend)
    with producer, repeated(look, threads=1):
        in_threads(work)
        assert producer.statistics().published == MESSAGES
    assert published(nsqd) == MESSAGES
    assert seen == sorted(seen)
    assert no_threads_left()


def test_a_producer_is_opened_and_closed_once(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    outcomes: list[str] = []

    def work(number: int) -> None:
        try:
            producer.publish("t", b"body")
            outcomes.append("stored")
        except nsq.Closed:
            outcomes.append("closed")
        producer.close()

    for _ in range(10):
        producer = nsq.sync.produce(nsqd.tcp_address, backend=backend)
        in_threads(work)
    assert outcomes.count("stored") >= 10
    assert len(outcomes) == 10 * THREADS
    assert no_threads_left()


def test_each_message_is_taken_once(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    publish(nsqd, *BODIES)
    taken: list[bytes] = []

    def work(number: int) -> None:
        while len(taken) < MESSAGES:
            if (message := consumer.take(timeout=0.05)) is not None:
                taken.append(message.body)
                message.touch()
                message.finish()

    with nsq.sync.consume("t", "c", nsqd=nsqd.tcp_address, max_in_flight=50, backend=backend) as consumer:
        with repeated(consumer.statistics), repeated(lambda: consumer.is_starved, threads=1):
            in_threads(work)
        found = consumer.statistics()
        assert (found.received, found.finished, found.late, found.refused) == (MESSAGES, MESSAGES, 0, 0)
    assert sorted(taken) == sorted(BODIES)
    assert nothing_left(nsqd)
    assert no_threads_left()


def test_handlers_in_threads_answer_each_message(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    """Also by hand, by an exception, and after the message was delivered again."""
    publish(nsqd, *BODIES)
    handled: list[bytes] = []
    failed: set[bytes] = set()

    def handle(message: nsq.sync.Message) -> None:
        number = int(message.body)
        if number % 5 == 0 and message.body not in failed:
            failed.add(message.body)
            raise nsq.Requeue(0, backoff=False)
        if number % 3 == 0:
            message.touch()
            message.finish()
        handled.append(message.body)
        if len(handled) == MESSAGES:
            consumer.stop()

    with nsq.sync.consume("t", "c", nsqd=nsqd.tcp_address, max_in_flight=50, backend=backend) as consumer:
        with repeated(consumer.statistics):
            consumer.run(handle, threads=THREADS)
    assert sorted(handled) == sorted(BODIES)
    assert len(failed) == MESSAGES / 5
    assert nothing_left(nsqd)
    assert no_threads_left()


def test_one_of_the_threads_that_answer_a_message_does(
    nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend
) -> None:
    """The others get an error, or find it answered already; nsqd gets one answer."""
    publish(nsqd, *BODIES[:100])
    refused = 0

    def answer(message: nsq.sync.Message, number: int) -> None:
        nonlocal refused
        try:
            message.requeue(0, backoff=False) if number == 0 and message.attempts == 1 else message.finish()
        except nsq.AlreadyResponded:
            refused += 1

    with nsq.sync.consume("t", "c", nsqd=nsqd.tcp_address, max_in_flight=1, backend=backend) as consumer:
        messages = iter(consumer)
        while consumer.statistics().finished < 100:
            message = next(messages)
            in_threads(lambda number, message=message: answer(message, number))  # type: ignore[misc]
        found = consumer.statistics()
        assert (found.finished, found.late, found.refused) == (100, 0, 0)
        assert found.received == 100 + found.requeued
    assert nothing_left(nsqd)


@pytest.mark.anyio
async def test_plain_handlers_and_scrapes_beside_an_event_loop() -> None:
    """Handlers answer in threads of AnyIO's, while other threads read the metrics."""
    handled: list[bytes] = []
    registry = CollectorRegistry()
    collector = NSQCollector(registry)

    def handle(message: nsq.Message) -> None:
        message.touch()
        if int(message.body) % 2:
            message.finish()
        handled.append(message.body)
        if len(handled) == MESSAGES:
            anyio.from_thread.run_sync(consumer.stop)

    async with nsq.embedded.nsqd() as server:
        async with nsq.produce(nsqd=server.tcp_address) as producer:
            await producer.publish_many("t", BODIES)
        async with nsq.consume("t", "c", nsqd=server.tcp_address, max_in_flight=50) as consumer:
            collector.add(consumer)
            with ExitStack() as stack:
                repeating = stack.enter_context
                await to_thread.run_sync(repeating, repeated(lambda: generate_latest(registry)))
                with anyio.fail_after(LIMIT):
                    await consumer.run(handle, concurrency=THREADS)
                await to_thread.run_sync(stack.close)
        found = consumer.statistics()
    assert sorted(handled) == sorted(BODIES)
    assert (found.finished, found.late, found.refused) == (MESSAGES, 0, 0)
    assert b'nsq_consumer_messages_total{channel="c"' in generate_latest(registry)
