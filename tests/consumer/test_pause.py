"""`pause` stops what comes, and `resume` lets it come again."""

import anyio
import pytest

import nsq_anyio as nsq

from .. import virtual_time
from ..fake_nsqd import FakeConnection, consuming, fake_nsqds, until
from .backoff import backing_off, failure, gated, trial
from .flow import OFTEN, becomes, consuming_from, settled
from .limiters import sharing

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio


def rdys(peer: FakeConnection) -> list[bytes]:
    return [line for line in peer.lines if line.startswith(b"RDY")]


async def test_paused_all_connections_have_rdy_0_and_resumed_their_share() -> None:
    async with consuming_from(3, max_in_flight=9) as (consumer, peers):
        await settled(peers, 3, 3, 3)
        consumer.pause()
        await settled(peers, 0, 0, 0)
        for peer in peers:
            await peer.offer(b"not yet")
        await anyio.sleep(0.02)
        assert consumer.statistics().received == 0
        consumer.resume()
        for _ in peers:
            (await anext(consumer)).finish()
        await settled(peers, 3, 3, 3)


async def test_what_came_before_can_be_taken_and_answered() -> None:
    async with consuming(max_in_flight=3, options=OFTEN) as (consumer, peer):
        one, two, three = await peer.messages(b"a", b"b", b"c")
        first = await anext(consumer)
        consumer.pause()
        await peer.saw(b"RDY 0")
        first.touch()
        first.finish()
        (await anext(consumer)).requeue(0, backoff=False)
        async with await anext(consumer):
            pass
        await peer.saw(b"TOUCH " + one, b"FIN " + one, b"REQ %b 0" % two, b"FIN " + three)
        assert peer.rdy == 0


async def test_pausing_and_resuming_twice_is_once() -> None:
    async with consuming(max_in_flight=3, options=OFTEN) as (consumer, peer):
        await peer.saw(b"RDY 3")
        for change in (consumer.pause, consumer.pause, consumer.resume, consumer.resume):
            change()
            await anyio.sleep(0.01)
        assert rdys(peer) == [b"RDY 3", b"RDY 0", b"RDY 3"]


async def test_a_connection_that_comes_while_paused_stays_at_0() -> None:
    gate = anyio.Event()
    async with fake_nsqds(2, gated(gate, held_back=2)) as nsqds:
        addresses = [nsqd.address for nsqd in nsqds]
        async with nsq.consume("t", "c", nsqd=addresses, max_in_flight=4, options=OFTEN) as consumer:
            await consumer.ready()
            consumer.pause()
            gate.set()
            await until(lambda: len(consumer.connections) == 2)
            peers = [await nsqd.subscribed() for nsqd in nsqds]
            await settled(peers, 0, 0)
            assert [] in [rdys(peer) for peer in peers]
            consumer.resume()
            await settled(peers, 2, 2)


async def test_a_consumer_may_be_paused_before_it_is_connected() -> None:
    async with fake_nsqds(1) as (nsqd,):
        async with nsq.consume("t", "c", nsqd=nsqd.address, max_in_flight=4, options=OFTEN) as consumer:
            consumer.pause()
            peer = await nsqd.subscribed()
            await anyio.sleep(0.02)
            assert rdys(peer) == []
            consumer.resume()
            await peer.saw(b"RDY 4")


async def test_max_in_flight_changed_while_paused_holds_when_resumed() -> None:
    async with consuming(max_in_flight=3, options=OFTEN) as (consumer, peer):
        await peer.saw(b"RDY 3")
        consumer.pause()
        await peer.saw(b"RDY 0")
        consumer.max_in_flight = 7
        await anyio.sleep(0.02)
        assert consumer.max_in_flight == 7
        assert peer.rdy == 0
        consumer.resume()
        await peer.saw(b"RDY 7")
    assert rdys(peer) == [b"RDY 3", b"RDY 0", b"RDY 7"]


async def test_a_lost_connection_comes_back_paused() -> None:
    options = nsq.ConsumerOptions(rdy_redistribute_interval=0.005, reconnect_delay=0.005)
    async with fake_nsqds(1) as (nsqd,):
        async with nsq.consume("t", "c", nsqd=nsqd.address, max_in_flight=2, options=options) as consumer:
            peer = await nsqd.subscribed()
            consumer.pause()
            await peer.close()
            again = await nsqd.subscribed(1)
            await anyio.sleep(0.02)
            assert rdys(again) == []
            consumer.resume()
            await again.saw(b"RDY 2")


async def test_paused_and_resumed_during_a_backoff_it_goes_on_where_it_was() -> None:
    async with consuming(max_in_flight=3, options=backing_off(0.04)) as (consumer, peer):
        await peer.saw(b"RDY 3")
        await failure(consumer, peer)
        consumer.pause()
        await anyio.sleep(0.05)  # the wait is over, and one message would be let through
        await anyio.sleep(0.02)
        assert peer.rdy == 0
        consumer.resume()
        (await trial(consumer, [peer])).finish()
        await until(lambda: peer.rdy == 3)
    assert rdys(peer) == [b"RDY 3", b"RDY 0", b"RDY 1", b"RDY 3"]


async def test_resume_does_not_end_a_backoff() -> None:
    async with consuming(max_in_flight=3, options=backing_off(0.1)) as (consumer, peer):
        await peer.saw(b"RDY 3")
        await failure(consumer, peer)
        consumer.pause()
        consumer.resume()
        await peer.saw(b"RDY 0")
        await anyio.sleep(0.02)
        assert peer.rdy == 0
        assert consumer.statistics().backoff_level == 1


async def test_run_waits_while_paused_and_goes_on_when_resumed() -> None:
    bodies: list[bytes] = []

    async def handler(message: nsq.Message) -> None:
        bodies.append(message.body)

    async with consuming(max_in_flight=1, options=OFTEN) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, handler)
            await peer.offer(b"a")
            await until(lambda: bodies == [b"a"])
            consumer.pause()
            await peer.saw(b"RDY 0")
            await peer.offer(b"b")
            await anyio.sleep(0.02)
            assert bodies == [b"a"]
            consumer.resume()
            await until(lambda: bodies == [b"a", b"b"])
            consumer.stop()


async def test_a_paused_consumer_can_stop() -> None:
    async with consuming(max_in_flight=2, options=OFTEN) as (consumer, peer):
        await peer.message()
        consumer.pause()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, slow)
            consumer.stop()
    assert b"CLS" in peer.lines


async def slow(_message: nsq.Message) -> None:
    await anyio.sleep(0.01)


# With a shared budget.


async def test_the_slots_of_a_paused_consumer_go_to_the_other() -> None:
    limiter = anyio.CapacityLimiter(10)
    async with fake_nsqds(2) as (one, two), sharing(one, limiter) as (pausing, first):
        async with sharing(two, limiter) as (_, second):
            await becomes([first], 5)
            await becomes([second], 5)
            pausing.pause()
            await becomes([first], 0)
            await becomes([second], 10)
            pausing.resume()
            await becomes([first], 5)
            await becomes([second], 5)
            assert limiter.borrowed_tokens == 10


async def test_a_paused_consumer_keeps_the_slots_of_what_is_in_flight() -> None:
    limiter = anyio.CapacityLimiter(4)
    async with fake_nsqds(1) as (nsqd,), sharing(nsqd, limiter) as (consumer, peer):
        await becomes([peer], 4)
        await peer.offer(b"a", b"b")
        taken = [await anext(consumer), await anext(consumer)]
        consumer.pause()
        await becomes([peer], 0)
        await until(lambda: limiter.borrowed_tokens == 2)  # once nothing more can be on its way
        for message in taken:
            message.finish()
        await until(lambda: limiter.borrowed_tokens == 0)


async def test_the_slots_of_a_consumer_in_backoff_go_to_the_other() -> None:
    limiter = anyio.CapacityLimiter(6)
    options = backing_off(0.15)
    async with (
        fake_nsqds(2) as (one, two),
        nsq.consume("t", "c", nsqd=one.address, limiter=limiter, options=options) as failing,
        sharing(two, limiter) as (_, second),
    ):
        first = await one.subscribed()
        await becomes([first], 3)
        await failure(failing, first)
        await becomes([second], 6)
        (await trial(failing, [first])).finish()
        await becomes([first], 3)
        await becomes([second], 3)
