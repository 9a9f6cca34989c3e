"""One limiter for several consumers: one budget, of which each gets its share."""

from contextlib import AsyncExitStack

import anyio
import pytest

import nsq_anyio as nsq

from .. import virtual_time
from ..fake_nsqd import fake_nsqds, until
from .flow import becomes
from .limiters import sharing

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio


async def test_one_consumer_alone_has_it_all() -> None:
    limiter = anyio.CapacityLimiter(7)
    async with fake_nsqds(1) as (nsqd,):
        async with sharing(nsqd, limiter) as (_, peer):
            await becomes([peer], 7)
            assert limiter.borrowed_tokens == 7
        assert limiter.borrowed_tokens == 0


async def test_each_gets_its_share_and_when_one_ends_the_other_gets_all() -> None:
    limiter = anyio.CapacityLimiter(10)
    async with fake_nsqds(2) as (one, two), sharing(one, limiter) as (_, first):
        await becomes([first], 10)
        async with sharing(two, limiter) as (_, second):
            await becomes([first], 5)
            await becomes([second], 5)
            assert limiter.borrowed_tokens == 10
        await becomes([first], 10)
        assert limiter.borrowed_tokens == 10


async def test_three_share_what_two_had() -> None:
    limiter = anyio.CapacityLimiter(9)
    async with fake_nsqds(3) as nsqds, AsyncExitStack() as stack:
        peers = [(await stack.enter_async_context(sharing(nsqd, limiter)))[1] for nsqd in nsqds]
        for peer in peers:
            await becomes([peer], 3)


async def test_a_limiter_with_one_token_is_passed_on_in_turn() -> None:
    limiter = anyio.CapacityLimiter(1)
    async with fake_nsqds(3) as nsqds, AsyncExitStack() as stack:
        consumers: list[nsq.Consumer] = []
        for nsqd in nsqds:
            consumer, peer = await stack.enter_async_context(sharing(nsqd, limiter))
            consumers.append(consumer)
            await peer.offer(*[b"x"] * 20)

        most = 0

        async def take(consumer: nsq.Consumer) -> None:
            nonlocal most
            async for message in consumer:
                most = max(most, sum(consumer.in_flight for consumer in consumers))
                await anyio.sleep(0.001)
                message.finish()

        async with anyio.create_task_group() as tasks:
            for consumer in consumers:
                tasks.start_soon(take, consumer)
            await until(lambda: all(consumer.statistics().finished == 20 for consumer in consumers))
            assert most <= 2  # the second: one that nsqd had sent before it knew of RDY 0
            assert limiter.borrowed_tokens <= 1
            tasks.cancel_scope.cancel()


async def test_what_others_have_borrowed_is_not_there() -> None:
    limiter = anyio.CapacityLimiter(5)
    await limiter.acquire_on_behalf_of("somebody else")
    await limiter.acquire_on_behalf_of("and another")
    async with fake_nsqds(1) as (nsqd,), sharing(nsqd, limiter) as (_, peer):
        await becomes([peer], 3)
        limiter.release_on_behalf_of("and another")
        await becomes([peer], 4)


async def test_max_in_flight_bounds_the_part_of_one_consumer() -> None:
    limiter = anyio.CapacityLimiter(10)
    async with fake_nsqds(1) as (nsqd,), sharing(nsqd, limiter) as (consumer, peer):
        await becomes([peer], 10)
        consumer.max_in_flight = 4
        await becomes([peer], 4)
        assert limiter.total_tokens == 10
        await until(lambda: limiter.borrowed_tokens == 4)  # once nsqd has certainly seen the new count


async def test_a_consumer_that_stops_while_it_waits_for_its_turn_keeps_no_token() -> None:
    limiter = anyio.CapacityLimiter(1)
    async with fake_nsqds(2) as (one, two):
        await limiter.acquire_on_behalf_of("somebody else")
        async with sharing(one, limiter) as (waiting, _):
            await until(lambda: limiter.statistics().tasks_waiting == 1)
            waiting.stop()
            limiter.release_on_behalf_of("somebody else")
            async with sharing(two, limiter) as (_, second):
                await becomes([second], 1)
        assert limiter.borrowed_tokens == 0


async def test_a_cancelled_consumer_keeps_no_token() -> None:
    limiter = anyio.CapacityLimiter(3)
    async with fake_nsqds(1) as (nsqd,):
        with anyio.move_on_after(5) as scope:
            async with sharing(nsqd, limiter) as (consumer, peer):
                await becomes([peer], 3)
                await peer.offer(b"a", b"b")
                await anext(consumer)
                scope.cancel()
                await anyio.sleep_forever()
        assert scope.cancelled_caught
        assert limiter.borrowed_tokens == 0
