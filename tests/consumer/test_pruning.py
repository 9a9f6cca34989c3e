"""``prune_after_polls``: an nsqd that no nsqlookupd lists any more is drained and left."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.consumer.distribution import Budget
from nsq_anyio.events import ConnectionClosed, Disconnected

from .. import virtual_time
from ..fake_nsqd import Events, FakeConnection, FakeNsqd, client_tasks, fake_nsqds, serve, until
from .fake_lookupd import UNKNOWN_TOPIC, FakeLookupd, at, connected, fake_lookupd, polled, pruning
from .late_answers import impatient

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio


@asynccontextmanager
async def two_listed(
    options: nsq.ConsumerOptions, script: Any = serve, **arguments: Any
) -> AsyncGenerator[tuple[nsq.Consumer, FakeLookupd, list[FakeNsqd], list[FakeConnection]]]:
    """A consumer of two nsqds that one nsqlookupd lists, and their ends of its connections."""
    async with fake_nsqds(2, script) as nsqds, fake_lookupd(*nsqds) as lookupd:
        async with nsq.consume("t", "c", nsqlookupd=lookupd.url, options=options, **arguments) as consumer:
            yield consumer, lookupd, nsqds, [await nsqd.subscribed() for nsqd in nsqds]


async def test_it_is_left_after_so_many_polls_without_it() -> None:
    events = Events()
    async with two_listed(pruning(3), on_event=events) as (consumer, lookupd, nsqds, (gone, kept)):
        lookupd.names(nsqds[1])
        asked = len(lookupd.requests)
        await connected(consumer, nsqds[1])
        # One request may have been answered before the change, another be on its way.
        assert 3 <= len(lookupd.requests) - asked <= 5
        await until(gone.ended.is_set)
        assert gone.lines[-1] == b"CLS"
        assert b"CLS" not in kept.lines
        assert [(event.nsqd, event.confirmed) for event in events.of(ConnectionClosed)] == [
            (nsqds[0].address, True)
        ]
        assert events.of(Disconnected) == []


async def test_it_is_kept_while_it_is_listed_again_in_time() -> None:
    async with two_listed(pruning(4)) as (consumer, lookupd, nsqds, (one, _)):
        for _ in range(4):
            lookupd.names(nsqds[1])
            await polled(lookupd, 2)
            lookupd.names(*nsqds)
            await polled(lookupd, 2)
        assert len(consumer.connections) == 2
        assert b"CLS" not in one.lines


async def test_by_default_it_is_kept_for_ever() -> None:
    async with two_listed(pruning(0)) as (consumer, lookupd, nsqds, _):
        lookupd.names(nsqds[1])
        await polled(lookupd, 5)
        assert len(consumer.connections) == 2


async def test_what_it_has_sent_can_still_be_taken_and_answered() -> None:
    async with two_listed(pruning(), max_in_flight=4) as (consumer, lookupd, nsqds, (gone, _)):
        taken, waiting = await gone.messages(b"taken", b"waiting")
        message = await anext(consumer)
        lookupd.names(nsqds[1])
        await gone.saw(b"CLS")
        late = await gone.message(b"crossed with CLS")
        await gone.saw(b"REQ %b 0" % late)
        await anyio.sleep(0.03)
        assert not gone.ended.is_set()
        message.finish()
        (await anext(consumer)).requeue(0, backoff=False)
        await gone.saw(b"FIN " + taken, b"REQ %b 0" % waiting)
        await until(gone.ended.is_set)
        assert consumer.statistics().finished == 1


async def test_what_is_not_answered_in_time_is_handed_back() -> None:
    async with two_listed(pruning(drain_timeout=0.05)) as (consumer, lookupd, nsqds, (gone, _)):
        id = await gone.message()
        message = await anext(consumer)
        lookupd.names(nsqds[1])
        await gone.saw(b"REQ %b 0" % id)
        await until(gone.ended.is_set)
        assert message.responded


async def test_what_times_out_is_not_waited_for() -> None:
    options = pruning(drain_timeout=60)
    async with two_listed(options, impatient(60)) as (consumer, lookupd, nsqds, (gone, _)):
        await gone.message()
        await anext(consumer)
        lookupd.names(nsqds[1])
        await gone.saw(b"CLS")
        await until(gone.ended.is_set)
        assert consumer.statistics().timed_out == 1


async def test_an_nsqd_that_does_not_answer_cls_is_left_after_close_timeout() -> None:
    async def silent(peer: FakeConnection) -> None:
        await peer.subscribe()
        await peer.follow(answer_cls=False)

    options = pruning(close_timeout=0.05)
    async with two_listed(options, silent) as (consumer, lookupd, nsqds, (gone, _)):
        lookupd.names(nsqds[1])
        await until(gone.ended.is_set)
        await connected(consumer, nsqds[1])


async def test_it_is_connected_again_when_it_is_listed_again() -> None:
    async with two_listed(pruning(), max_in_flight=4) as (consumer, lookupd, nsqds, (gone, _)):
        lookupd.names(nsqds[1])
        await connected(consumer, nsqds[1])
        await until(gone.ended.is_set)
        lookupd.names(*nsqds)
        await connected(consumer, *nsqds)
        again = await nsqds[0].subscribed(1)
        await until(lambda: again.rdy == 2)


async def test_listed_again_while_it_is_drained_it_is_connected_anew_after_that() -> None:
    async with two_listed(pruning()) as (consumer, lookupd, nsqds, (gone, _)):
        await gone.message()
        message = await anext(consumer)
        lookupd.names(nsqds[1])
        await gone.saw(b"CLS")
        lookupd.names(*nsqds)
        await polled(lookupd, 2)
        message.finish()
        await nsqds[0].subscribed(1)
        assert gone.ended.is_set()


# Who says that it is gone.


@pytest.mark.parametrize("failure", ["status", "garbage", "silence"])
async def test_an_nsqlookupd_that_fails_says_nothing(failure: str) -> None:
    options = pruning(lookupd_poll_timeout=0.02)
    async with two_listed(options) as (consumer, lookupd, _, _):
        if failure == "status":
            lookupd.says({"message": "INTERNAL_ERROR"}, status=500)
        elif failure == "garbage":
            lookupd.body = b"<html>"
        else:
            lookupd.gate = anyio.Event()
        await polled(lookupd, 5)
        assert len(consumer.connections) == 2


async def test_an_nsqlookupd_that_does_not_know_the_topic_any_more_says_that_it_is_gone() -> None:
    async with two_listed(pruning()) as (consumer, lookupd, _, _):
        lookupd.says(UNKNOWN_TOPIC, status=404)
        await connected(consumer)


async def test_one_nsqlookupd_that_lists_it_is_enough() -> None:
    async with fake_nsqds(1) as (nsqd,), fake_lookupd(nsqd) as one, fake_lookupd(nsqd) as two:
        async with nsq.consume("t", "c", nsqlookupd=at(one, two), options=pruning()) as consumer:
            await connected(consumer, nsqd)
            one.names()
            await polled(one, 5)
            await connected(consumer, nsqd)
            two.names()
            await connected(consumer)


# The budget meanwhile.


async def test_the_others_get_its_room_at_once_beside_what_is_in_flight_on_it() -> None:
    async with two_listed(pruning(), max_in_flight=10) as (consumer, lookupd, nsqds, (gone, kept)):
        await until(lambda: (gone.rdy, kept.rdy) == (5, 5))
        await gone.message()
        message = await anext(consumer)
        lookupd.names(nsqds[1])
        await until(lambda: kept.rdy == 9)
        assert not gone.ended.is_set()
        message.finish()
        await until(lambda: kept.rdy == 10)


async def test_it_gets_no_turn_any_more_where_turns_are_taken() -> None:
    options = pruning(low_rdy_idle_timeout=0.02, low_rdy_timeout=0.02)
    async with two_listed(options, max_in_flight=2) as (consumer, lookupd, nsqds, (gone, kept)):
        await gone.message()
        message = await anext(consumer)
        lookupd.names(nsqds[1])
        await gone.saw(b"CLS")
        consumer.max_in_flight = 2
        seen = len(kept.lines)
        await anyio.sleep(0.1)
        assert kept.rdy == 1
        assert b"RDY 0" not in kept.lines[seen:]
        message.finish()


async def test_a_consumer_whose_only_nsqd_is_leaving_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    wait_for_one = Budget.wait_for_one

    async def counted(budget: Budget) -> None:
        nonlocal asked
        asked += 1
        await wait_for_one(budget)

    async def silent(peer: FakeConnection) -> None:
        await peer.subscribe()
        await peer.follow(answer_cls=False)

    monkeypatch.setattr(Budget, "wait_for_one", counted)
    options = pruning(close_timeout=0.1)
    async with two_listed(options, silent, max_in_flight=4) as (consumer, lookupd, _, _):
        lookupd.names()
        await connected(consumer)
    assert asked <= 2


# Faults and ends.


async def test_a_connection_that_is_lost_while_it_is_drained_is_done_with() -> None:
    events = Events()
    async with two_listed(pruning(), on_event=events) as (consumer, lookupd, nsqds, (gone, _)):
        await gone.message()
        message = await anext(consumer)
        lookupd.names(nsqds[1])
        await gone.saw(b"CLS")
        await gone.close()
        await connected(consumer, nsqds[1])
        message.finish()
        assert consumer.statistics().late == 1
        await polled(lookupd, 2)
        assert len(nsqds[0].connections) == 1


async def test_the_block_may_end_while_a_connection_is_drained() -> None:
    events = Events()
    ids: list[bytes] = []
    peers: list[FakeConnection] = []
    async with two_listed(pruning(), on_event=events) as (consumer, lookupd, nsqds, (gone, kept)):
        peers += [gone, kept]
        ids += [await gone.message()]
        await anext(consumer)
        lookupd.names(nsqds[1])
        await gone.saw(b"CLS")
    assert client_tasks() == []
    assert b"REQ %b 0" % ids[0] in peers[0].lines
    assert peers[0].lines.count(b"CLS") == 1
    closed = events.of(ConnectionClosed)
    assert [event.confirmed for event in closed] == [True, True]
    assert len({event.nsqd for event in closed}) == 2
