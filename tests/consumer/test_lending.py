"""Idle connections lend their share of RDY to the busy ones, and get it back when messages come."""

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.events import RdyChanged

from .. import virtual_time
from ..fake_nsqd import Events, FakeConnection, until
from .flow import LENDING, Watch, becomes, busy, consuming_from, counts, settled

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio


async def test_the_busy_one_gets_what_the_idle_ones_do_not_use_and_they_keep_one() -> None:
    async with consuming_from(3, max_in_flight=12, options=LENDING) as (consumer, peers):
        await settled(peers, 4, 4, 4)
        async with busy(consumer, peers[0]):
            await becomes(peers, 10, 1, 1)
            await anyio.sleep(0.05)
            assert [peer.rdy for peer in peers] == [10, 1, 1]


async def test_two_busy_ones_share_it() -> None:
    async with consuming_from(3, max_in_flight=11, options=LENDING) as (consumer, peers):
        async with busy(consumer, *peers[:2]):
            await becomes(peers, 5, 5, 1)


async def test_a_message_on_an_idle_one_brings_its_share_back_at_once() -> None:
    """Not at the next regular look: that is far away."""
    events = Events()
    options = nsq.ConsumerOptions(rdy_redistribute_interval=1, lend_after=0.4)
    async with consuming_from(2, max_in_flight=8, options=options, on_event=events) as (consumer, peers):
        await becomes(peers, 4, 4)
        borrower, lender = peers
        async with busy(consumer, borrower):
            await becomes(peers, 7, 1)
        events.clear()
        message_came = anyio.current_time()
        await lender.message()
        await becomes(peers, 4, 4)
        assert anyio.current_time() - message_came < 0.15
        lowered, raised = events.of(RdyChanged)
        assert (lowered.rdy, raised.rdy) == (4, 4)
        assert lowered.nsqd != raised.nsqd


async def test_what_is_in_flight_on_the_borrower_delays_the_return() -> None:
    async with consuming_from(2, max_in_flight=8, options=LENDING) as (consumer, peers):
        borrower, lender = peers
        async with busy(consumer, borrower):
            await becomes(peers, 7, 1)
        await borrower.offer(*[b"x"] * 7)
        taken = [await anext(consumer) for _ in range(7)]
        await lender.offer(b"wants its share")
        await becomes(peers, 4, 1)
        await anyio.sleep(0.02)
        assert lender.rdy == 1  # seven and one are unanswered: that is all
        for message in taken:
            message.finish()
        await becomes(peers, 4, 4)


async def test_a_connection_with_messages_in_flight_is_busy_however_long_they_take() -> None:
    async with consuming_from(2, max_in_flight=8, options=LENDING) as (consumer, peers):
        await becomes(peers, 4, 4)
        await peers[0].message()
        message = await anext(consumer)
        await becomes(peers, 7, 1)
        await anyio.sleep(0.1)
        assert [peer.rdy for peer in peers] == [7, 1]
        message.finish()
        await becomes(peers, 4, 4)


async def test_when_all_are_idle_each_has_the_same() -> None:
    async with consuming_from(3, max_in_flight=9, options=LENDING) as (_, peers):
        await settled(peers, 3, 3, 3)
        await anyio.sleep(0.1)
        assert counts(peers) == [3, 3, 3]


async def test_even_lends_nothing() -> None:
    options = nsq.ConsumerOptions(rdy_policy="even", rdy_redistribute_interval=0.005, lend_after=0.02)
    async with consuming_from(3, max_in_flight=9, options=options) as (consumer, peers):
        await settled(peers, 3, 3, 3)
        async with busy(consumer, peers[0]):
            await anyio.sleep(0.1)
        assert counts(peers) == [3, 3, 3]
        assert all(peer.lines.count(b"RDY 1") <= 1 for peer in peers)
        changes = [line for peer in peers for line in peer.lines if line.startswith(b"RDY")]
        assert all(int(line[4:]) in (3, 4, 5, 9) for line in changes)  # those of the beginning


async def test_a_loan_never_exceeds_what_nsqd_allows() -> None:
    async def bounded(peer: FakeConnection) -> None:
        await peer.subscribe({"max_rdy_count": 5})
        await peer.follow()

    async with consuming_from(2, bounded, max_in_flight=9, options=LENDING) as (consumer, peers):
        async with busy(consumer, peers[0]):
            await becomes(peers, 5, 4)  # what the busy one cannot take stays


async def test_loans_never_exceed_the_budget() -> None:
    """While one after the other is busy, nsqd may at no instant have more unanswered than max_in_flight."""
    limiter = anyio.CapacityLimiter(8)
    watch = Watch(limiter)
    options = nsq.ConsumerOptions(rdy_redistribute_interval=0.003, lend_after=0.01)
    async with consuming_from(3, max_in_flight=8, limiter=limiter, options=options, on_event=watch) as (
        consumer,
        peers,
    ):
        watch.consumer = consumer
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take_slowly, consumer)
            for turn in range(9):
                await peers[turn % 3].offer(*[b"x"] * 6)
                await anyio.sleep(0.02)
            await until(lambda: consumer.statistics().finished == 54)
            tasks.cancel_scope.cancel()
    assert watch.broken == []
    assert watch.raised > 5
    assert watch.peak <= 8 + 6  # those that nsqd had sent before it knew of a lower RDY


async def take_slowly(consumer: nsq.Consumer) -> None:
    held: list[nsq.Message] = []
    async for message in consumer:
        held.append(message)
        await anyio.sleep(0.001)
        if len(held) > 2 or not consumer.statistics().waiting:
            for one in held:
                one.finish()
            held.clear()
