"""Which handlers are measured: async and plain ones, with middleware, and those of `nsq.sync`."""

from __future__ import annotations

import functools
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import pytest

import nsq_anyio as nsq

from ..fake_nsqd import until
from ..sync.conftest import running_nsqd
from ..sync.conftest import until as until_true
from .scraping import Scraper

pytestmark = pytest.mark.anyio

LIMIT = 20.0
SLOW = 0.03


async def slow(_message: nsq.Message) -> None:
    await anyio.sleep(SLOW)


def slow_plain(_message: nsq.Message) -> None:
    time.sleep(SLOW)


async def failing(_message: nsq.Message) -> None:
    await anyio.sleep(SLOW)
    raise nsq.Discard("done")


@pytest.mark.parametrize("handler", [slow, slow_plain, failing])
@pytest.mark.parametrize("wrapped", [False, True], ids=["plain", "wrapped"])
async def test_handlers_are_measured_without_their_middleware(
    scraper: Scraper, handler: Callable[[nsq.Message], Awaitable[None] | None], wrapped: bool
) -> None:
    inside: list[float] = []

    @asynccontextmanager
    async def slower(_handling: nsq.Handling) -> AsyncGenerator[None]:
        await anyio.sleep(20 * SLOW)
        began = time.perf_counter()
        try:
            yield
        finally:
            inside.append(time.perf_counter() - began)

    middleware = [slower] if wrapped else []
    async with (
        nsq.embedded.nsqd() as nsqd,
        nsq.produce(nsqd.tcp_address) as producer,
        nsq.consume("t", "c", nsqd=nsqd.tcp_address, middleware=middleware) as consumer,
    ):
        scraper.collector.add(consumer)
        await producer.publish_many("t", [b"a", b"b"])
        with anyio.fail_after(LIMIT):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: consumer.run(handler, concurrency=2))
                await until(lambda: consumer.statistics().finished == 2)
                consumer.stop()
        shown = scraper()
    assert shown("consumer_handler_duration_seconds_count", topic="t", channel="c") == 2
    assert shown("consumer_handler_duration_seconds_sum") >= 2 * SLOW * 0.9
    if wrapped:  # of the middleware's own time nothing is in it, however long the machine takes for the rest
        assert len(inside) == 2
        assert shown("consumer_handler_duration_seconds_sum") <= sum(inside)


async def test_a_handler_that_returns_nothing_to_await_is_still_found_out(scraper: Scraper) -> None:
    @functools.wraps(slow)
    def forgets_to_call(_message: nsq.Message) -> None:
        pass

    async with (
        nsq.embedded.nsqd() as nsqd,
        nsq.produce(nsqd.tcp_address) as producer,
        nsq.consume("t", "c", nsqd=nsqd.tcp_address) as consumer,
    ):
        scraper.collector.add(consumer)
        await producer.publish("t", b"a")
        with anyio.fail_after(LIMIT), pytest.raises(nsq.InvalidOption, match="cannot be awaited"):
            await consumer.run(forgets_to_call)


async def test_nobody_measures_what_was_not_added(scraper: Scraper) -> None:
    async with (
        nsq.embedded.nsqd() as nsqd,
        nsq.produce(nsqd.tcp_address) as producer,
        nsq.consume("t", "c", nsqd=nsqd.tcp_address) as consumer,
    ):
        await producer.publish("t", b"a")
        with anyio.fail_after(LIMIT):
            (await anext(consumer)).finish()
        shown = scraper()
    assert {name for name, _ in shown.samples} == {"nsq_event_loop_delay_seconds"}


def test_consumers_and_producers_of_plain_functions(scraper: Scraper) -> None:
    left = 6

    def handle(_message: nsq.sync.Message) -> None:
        nonlocal left
        time.sleep(SLOW)
        left -= 1
        if not left:
            consumer.stop()

    with running_nsqd() as nsqd:
        address = nsqd.tcp_address
        with nsq.sync.produce(address) as producer, nsq.sync.consume("t", "c", nsqd=address) as consumer:
            scraper.collector.add(producer)
            scraper.collector.add(consumer)
            consumer.ready(LIMIT)
            for number in range(6):
                producer.publish("t", str(number))
            consumer.run(handle)
            until_true(lambda: scraper()("consumer_messages_finished_total") == 6)
            assert scraper.collector.measured == 2
        shown = scraper()
    assert shown("consumer_handler_duration_seconds_count", topic="t", channel="c") == 6
    assert shown("consumer_handler_duration_seconds_sum") >= 6 * SLOW * 0.9
    assert shown("producer_messages_total", topic="t", outcome="stored") == 6
    assert scraper.collector.measured == 0
