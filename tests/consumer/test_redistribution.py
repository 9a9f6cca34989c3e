"""When RDY counts follow a change: lower ones before what is answered next, higher ones soon after."""

import anyio
import anyio.lowlevel
import pytest

import nsq_anyio as nsq
from nsq_anyio.events import Event, RdyChanged

from .. import virtual_time
from ..fake_nsqd import FakeConnection, consuming, until
from .backoff import backing_off
from .flow import consuming_from, settled

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio

SELDOM = nsq.ConsumerOptions(rdy_redistribute_interval=5)


def since(peer: FakeConnection, line: bytes) -> list[bytes]:
    return [line.split()[0] for line in peer.lines[peer.lines.index(line) :]]


async def two_taken(consumer: nsq.Consumer, peer: FakeConnection) -> list[nsq.Message]:
    await peer.saw(b"RDY 4")
    await peer.offer(b"a", b"b")
    return [await anext(consumer), await anext(consumer)]


async def test_a_lower_max_in_flight_is_sent_before_the_answers_that_follow() -> None:
    async with consuming(max_in_flight=4, options=SELDOM) as (consumer, peer):
        messages = await two_taken(consumer, peer)
        consumer.max_in_flight = 1
        for message in messages:
            message.finish()
        await until(lambda: not peer.in_flight)
        assert since(peer, b"RDY 1") == [b"RDY", b"FIN", b"FIN"]


async def test_a_pause_is_sent_before_the_answers_that_follow() -> None:
    async with consuming(max_in_flight=4, options=SELDOM) as (consumer, peer):
        messages = await two_taken(consumer, peer)
        consumer.pause()
        for message in messages:
            message.finish()
        await until(lambda: not peer.in_flight)
        assert since(peer, b"RDY 0") == [b"RDY", b"FIN", b"FIN"]


async def test_backoff_is_sent_before_the_answers_that_follow() -> None:
    options = backing_off(10, rdy_redistribute_interval=5)
    async with consuming(max_in_flight=4, options=options) as (consumer, peer):
        first, second = await two_taken(consumer, peer)
        first.requeue(60)
        second.finish()
        await until(lambda: not peer.in_flight)
        assert since(peer, b"RDY 0") == [b"RDY", b"FIN"]


async def test_an_event_hook_may_change_max_in_flight_amid_a_change_of_it() -> None:
    """What it sets holds in the end, without waiting for the next look at the distribution."""
    consumers: list[nsq.Consumer] = []

    def hook(event: Event) -> None:
        if isinstance(event, RdyChanged) and event.rdy and consumers and consumers[0].max_in_flight == 6:
            consumers[0].max_in_flight = 2

    options = nsq.ConsumerOptions(rdy_redistribute_interval=5, lend_after=100)
    async with consuming_from(2, max_in_flight=4, options=options, on_event=hook) as (consumer, peers):
        await settled(peers, 2, 2)
        consumers.append(consumer)
        before = anyio.current_time()
        consumer.max_in_flight = 6
        await settled(peers, 1, 1)
        assert anyio.current_time() - before < 4
        assert consumer.max_in_flight == 2


async def test_an_event_hook_that_undoes_each_change_lets_other_tasks_run() -> None:
    consumers: list[nsq.Consumer] = []
    changes = turns = 0

    def hook(event: Event) -> None:
        nonlocal changes
        if isinstance(event, RdyChanged) and consumers and changes < 100:
            changes += 1
            consumers[0].max_in_flight = 3 if consumers[0].max_in_flight == 4 else 4

    async with consuming(max_in_flight=4, options=SELDOM, on_event=hook) as (consumer, peer):
        await peer.saw(b"RDY 4")
        consumers.append(consumer)
        consumer.max_in_flight = 3
        while changes < 100:
            await anyio.lowlevel.checkpoint()
            turns += 1
        assert turns >= 25
        await until(lambda: peer.rdy == consumer.max_in_flight)
