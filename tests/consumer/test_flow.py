"""RDY on the wire: the budget is spread evenly, lowered before it is raised, and never exceeded."""

import random

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.events import RdyChanged

from .. import virtual_time
from ..fake_nsqd import (
    Events,
    FakeConnection,
    FakeNsqd,
    consuming,
    fake_nsqds,
    until,
)
from .flow import OFTEN, Watch, consuming_from, counts, settled

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio

TURNS = nsq.ConsumerOptions(
    rdy_redistribute_interval=0.005, low_rdy_idle_timeout=0.03, low_rdy_timeout=0.06, reconnect_delay=10
)


@pytest.mark.parametrize(
    ("count", "budget", "expected"),
    [(1, 5, [5]), (2, 10, [5, 5]), (3, 10, [3, 3, 4]), (4, 4, [1, 1, 1, 1]), (2, 0, [0, 0])],
)
async def test_the_budget_is_spread_evenly(count: int, budget: int, expected: list[int]) -> None:
    async with consuming_from(count, max_in_flight=budget) as (_, peers):
        await settled(peers, *expected)


async def test_rdy_is_never_above_what_nsqd_allows() -> None:
    async def bounded(peer: FakeConnection) -> None:
        await peer.subscribe({"max_rdy_count": 3})
        await peer.follow()

    async with consuming_from(2, bounded, max_in_flight=100) as (consumer, peers):
        await settled(peers, 3, 3)
        consumer.max_in_flight = 1000
        await settled(peers, 3, 3)


async def test_the_others_are_lowered_before_a_newcomer_is_raised() -> None:
    events = Events()
    late = anyio.Event()
    arrivals = 0

    async def script(peer: FakeConnection) -> None:
        nonlocal arrivals
        arrivals += 1
        if arrivals == 2:
            await late.wait()
        await peer.serve()

    async with fake_nsqds(2, script) as nsqds:
        addresses = [nsqd.address for nsqd in nsqds]
        even = nsq.ConsumerOptions(rdy_policy="even")
        async with nsq.consume("t", "c", nsqd=addresses, max_in_flight=6, on_event=events, options=even):
            await until(lambda: len(events.of(RdyChanged)) == 2)
            late.set()
            await until(lambda: len(events.of(RdyChanged)) == 4)
            expected, first, second, third = events.of(RdyChanged)
            assert expected.rdy == 3  # room was left for the other one, but not for ever
            assert (first.rdy, second.rdy, third.rdy) == (6, 3, 3)
            assert expected.nsqd == first.nsqd == second.nsqd != third.nsqd


async def test_a_newcomer_waits_for_the_room_that_messages_in_flight_take() -> None:
    late = anyio.Event()
    arrivals = 0

    async def script(peer: FakeConnection) -> None:
        nonlocal arrivals
        arrivals += 1
        if arrivals == 2:
            await late.wait()
        await peer.serve()

    async with (
        fake_nsqds(2, script) as nsqds,
        nsq.consume(
            "t", "c", nsqd=[nsqd.address for nsqd in nsqds], max_in_flight=4, options=OFTEN
        ) as consumer,
    ):
        await until(lambda: any(c.rdy == 4 for nsqd in nsqds for c in nsqd.connections))
        first, second = [c for nsqd in nsqds for c in nsqd.connections]
        if second.rdy:
            first, second = second, first
        await first.offer(b"a", b"b", b"c", b"d")
        messages = [await anext(consumer) for _ in range(4)]
        late.set()
        await until(lambda: first.rdy == 2)
        await anyio.sleep(0.03)
        assert second.rdy == 0  # four are unanswered: there is room for no other
        messages[0].finish()
        await anyio.sleep(0.03)
        assert second.rdy == 1
        for message in messages[1:]:
            message.finish()
        await until(lambda: second.rdy == 2)


async def test_the_survivor_is_raised_at_once_when_one_is_lost() -> None:
    slow = nsq.ConsumerOptions(rdy_redistribute_interval=5, reconnect_delay=10)
    async with consuming_from(2, max_in_flight=10, options=slow) as (_, peers):
        await settled(peers, 5, 5)
        await peers[0].close()
        await until(lambda: peers[1].rdy == 10, limit=1)


async def test_max_in_flight_may_change_while_messages_flow() -> None:
    async with consuming_from(2, max_in_flight=4) as (consumer, peers):
        await settled(peers, 2, 2)
        consumer.max_in_flight = 9
        assert consumer.max_in_flight == 9
        await settled(peers, 4, 5)
        consumer.max_in_flight = 2
        await settled(peers, 1, 1)
        consumer.max_in_flight = 0
        await settled(peers, 0, 0)
        consumer.max_in_flight = 6
        await settled(peers, 3, 3)


async def test_paused_by_zero_no_message_comes_and_back_they_do() -> None:
    async with consuming(max_in_flight=3, options=OFTEN) as (consumer, peer):
        await peer.saw(b"RDY 3")
        consumer.max_in_flight = 0
        await peer.saw(b"RDY 0")
        await peer.offer(b"a")
        await anyio.sleep(0.02)
        assert consumer.statistics().received == 0
        consumer.max_in_flight = 1
        message = await anext(consumer)
        message.finish()


async def test_a_lowered_max_in_flight_leaves_what_is_in_flight_and_asks_for_no_more() -> None:
    async with consuming(max_in_flight=3, options=OFTEN) as (consumer, peer):
        await peer.saw(b"RDY 3")
        await peer.offer(b"a", b"b", b"c", b"d")
        messages = [await anext(consumer) for _ in range(3)]
        consumer.max_in_flight = 1
        await until(lambda: peer.rdy == 1)
        messages[0].finish()
        messages[1].finish()
        await until(lambda: len(peer.in_flight) == 1)
        await anyio.sleep(0.02)
        assert list(peer.backlog) == [b"d"]
        messages[2].finish()
        assert (await anext(consumer)).body == b"d"


# Fewer places than connections.


async def test_when_connections_outnumber_the_budget_each_gets_its_turn() -> None:
    async with consuming_from(3, max_in_flight=1, options=TURNS) as (_, peers):
        with anyio.fail_after(5):
            while not all(peer.lines.count(b"RDY 1") >= 2 for peer in peers):
                assert sum(counts(peers)) <= 2  # one command may be on its way
                await anyio.sleep(0.002)


async def test_messages_of_all_nsqds_come_though_only_one_may_send_at_a_time() -> None:
    async with consuming_from(3, max_in_flight=1, options=TURNS) as (consumer, peers):
        for peer in peers:
            await peer.offer(*[b"x"] * 5)
        with anyio.fail_after(5):
            async for message in consumer:
                message.finish()
                if consumer.statistics().finished == 15:
                    break
        assert not any(peer.backlog for peer in peers)


# The invariant.


@pytest.mark.parametrize("own_limiter", [False, True])
@pytest.mark.parametrize("seed", range(3))
async def test_at_no_instant_more_is_asked_for_than_max_in_flight(seed: int, own_limiter: bool) -> None:
    """Under changes of max_in_flight, lost connections and messages that are answered in any order."""
    rng = random.Random(seed)
    limiter = anyio.CapacityLimiter(5) if own_limiter else None
    watch = Watch(limiter)
    options = nsq.ConsumerOptions(
        rdy_redistribute_interval=0.003,
        low_rdy_idle_timeout=0.01,
        low_rdy_timeout=0.02,
        reconnect_delay=0.005,
        max_reconnect_delay=0.01,
        requeue_delay=0,
    )

    async def feed(nsqds: list[FakeNsqd]) -> None:
        while True:
            for nsqd in nsqds:
                peer = nsqd.connections[-1]
                if peer.subscribed.is_set() and not peer.ended.is_set() and len(peer.backlog) < 5:
                    try:
                        await peer.offer(*[b"x"] * 5)
                    except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                        continue
            await anyio.sleep(0.001)

    async def take(consumer: nsq.Consumer) -> None:
        held: list[nsq.Message] = []
        async for message in consumer:
            held.append(message)
            rng.shuffle(held)
            while len(held) > rng.randrange(4):
                held.pop().finish() if rng.random() < 0.8 else held.pop().requeue(backoff=False)
            await anyio.sleep(0.001)

    async with fake_nsqds(3) as nsqds:
        addresses = [nsqd.address for nsqd in nsqds]
        async with nsq.consume(
            "t", "c", nsqd=addresses, max_in_flight=5, limiter=limiter, options=options, on_event=watch
        ) as consumer:
            watch.consumer = consumer
            for nsqd in nsqds:
                await nsqd.subscribed()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(feed, nsqds)
                tasks.start_soon(take, consumer)
                for _ in range(12):
                    await anyio.sleep(0.02)
                    if rng.random() < 0.4:
                        await rng.choice(nsqds).connections[-1].close()
                    limit = rng.randrange(2, 9)
                    if limiter is not None:
                        limiter.total_tokens = limit
                    consumer.max_in_flight = limit
                tasks.cancel_scope.cancel()
    assert watch.broken == []
    assert watch.raised > 5
    assert watch.peak > 2
