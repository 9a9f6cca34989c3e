"""A producer that finds its nsqds by nsqlookupds: they join, leave, and are tombstoned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.events import ConnectionClosed, LookupFailed

from .. import virtual_time
from ..consumer.fake_lookupd import FakeLookupd, fake_lookupd, producer
from ..fake_nsqd import Events, FakeNsqd, fake_nsqd, fake_nsqds, until
from .gate import Gate
from .test_pool import store

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio

OPTIONS: dict[str, Any] = {
    "lookupd_poll_interval": 0.02,
    "reconnect_delay": 0.01,
    "max_reconnect_delay": 0.02,
}
QUICK = nsq.ProducerOptions(**OPTIONS)


def lists(lookupd: FakeLookupd, nodes: Mapping[FakeNsqd, Mapping[str, bool]]) -> None:
    """Let it list nsqds with their topics, and whether each is tombstoned there."""
    lookupd.says(
        {
            "producers": [
                producer(nsqd.address) | {"topics": list(topics), "tombstones": list(topics.values())}
                for nsqd, topics in nodes.items()
            ]
        }
    )


async def polled(lookupd: FakeLookupd, times: int = 3) -> None:
    """It is asked so many times more; after 3, a poll that began after this call is over."""
    target = len(lookupd.requests) + times
    await until(lambda: len(lookupd.requests) >= target)


def stored(nsqd: FakeNsqd) -> list[bytes]:
    return [line for connection in nsqd.connections for line in connection.lines]


def connected(producer: nsq.Producer, *nsqds: FakeNsqd) -> bool:
    return sorted(producer.connections) == sorted(nsqd.address for nsqd in nsqds)


async def test_it_publishes_to_all_nsqds_that_any_nsqlookupd_names() -> None:
    async with (
        fake_nsqds(3, store) as (one, two, three),
        fake_lookupd(one, two) as first,
        fake_lookupd(two, three) as second,
        nsq.produce(nsqlookupd=[first.url, second.url], options=QUICK) as producer,
    ):
        await until(lambda: connected(producer, one, two, three))
        for number in range(6):
            await producer.publish("t", b"%d" % number)
        assert [len(stored(nsqd)) for nsqd in (one, two, three)] == [2, 2, 2]
        assert [len(nsqd.connections) for nsqd in (one, two, three)] == [1, 1, 1]
        assert {request.split()[1] for request in first.requests} == {"/nodes"}


async def test_those_given_stay_and_those_named_join_them() -> None:
    async with (
        fake_nsqds(2, store) as (given, named),
        fake_lookupd(given) as lookupd,
        nsq.produce(given.address, nsqlookupd=lookupd.url, options=QUICK) as producer,
    ):
        await until(lambda: connected(producer, given))
        lookupd.names(named)
        await until(lambda: connected(producer, given, named))
        await polled(lookupd)
        assert connected(producer, given, named)
        assert len(given.connections) == 1


async def test_one_that_is_not_named_any_more_is_left_once_it_has_answered() -> None:
    gate = Gate()
    events = Events()
    outcomes: list[int] = []

    async def publish(number: int) -> None:
        await producing.publish("t", b"%d" % number)
        outcomes.append(number)

    async with (
        fake_nsqd(gate.script) as leaving,
        fake_nsqd(store) as staying,
        fake_lookupd(leaving) as lookupd,
        nsq.produce(nsqlookupd=lookupd.url, options=QUICK, on_event=events) as producing,
        anyio.create_task_group() as tasks,
    ):
        await producing.ready()
        for number in range(3):
            tasks.start_soon(publish, number)
        assert await gate.is_stuck_at(3)
        lookupd.names(staying)
        await until(lambda: connected(producing, staying))
        for number in range(3, 6):
            await producing.publish("t", b"%d" % number)
        assert stored(staying) == [b"3", b"4", b"5"]
        assert producing.statistics().outstanding == 3
        assert events.of(ConnectionClosed) == []
        for _ in range(3):
            await gate.answer()
        await until(lambda: events.of(ConnectionClosed))
        assert sorted(outcomes) == [0, 1, 2]
        statistics = producing.statistics()
        assert (statistics.published, statistics.outstanding, statistics.resent) == (6, 0, 0)
        assert [each.nsqd for each in statistics.per_connection] == [staying.address]
    first, _ = events.of(ConnectionClosed)
    assert (first.nsqd, first.confirmed) == (leaving.address, True)


async def test_one_that_was_left_is_not_joined_again_by_an_older_answer() -> None:
    events = Events()
    async with (
        fake_nsqds(2, store) as (leaving, staying),
        fake_lookupd(leaving, staying) as quick,
        fake_lookupd(leaving, staying) as slow,
        nsq.produce(nsqlookupd=[quick.url, slow.url], options=QUICK, on_event=events) as producer,
    ):
        await until(lambda: connected(producer, leaving, staying))
        slow.gate = anyio.Event()
        await polled(slow, 1)
        quick.names(staying)
        await leaving.connections[0].close()
        await anyio.sleep(1)
        slow.names(staying)
        slow.gate.set()
        await until(lambda: connected(producer, staying))
        made = len(leaving.connections)
        await polled(slow)
        assert connected(producer, staying)
        assert len(leaving.connections) == made


async def test_none_is_left_while_no_other_is_connected() -> None:
    """An nsqlookupd that has just started names none until they have registered again."""
    async with (
        fake_nsqd(store) as nsqd,
        fake_lookupd(nsqd) as lookupd,
        nsq.produce(nsqlookupd=lookupd.url, options=QUICK) as producer,
    ):
        await producer.ready()
        lookupd.names()
        await polled(lookupd)
        await producer.publish("t", b"x")
        lookupd.says({"producers": [{"broadcast_address": "127.0.0.1", "tcp_port": 1}]})
        await polled(lookupd)
        await producer.publish("t", b"y")
        assert stored(nsqd) == [b"x", b"y"]


async def test_an_nsqlookupd_that_fails_takes_nothing_away() -> None:
    events = Events()
    async with (
        fake_nsqds(2, store) as (one, two),
        fake_lookupd(one) as failing,
        fake_lookupd(two) as other,
        nsq.produce(nsqlookupd=[failing.url, other.url], options=QUICK, on_event=events) as producer,
    ):
        await until(lambda: connected(producer, one, two))
        failing.says({}, status=500)
        await polled(failing)
        assert connected(producer, one, two)
        (first, *_) = events.of(LookupFailed)
        assert first.nsqlookupd == failing.url


async def test_a_topic_avoids_the_nsqds_where_it_is_tombstoned() -> None:
    async with (
        fake_nsqds(2, store) as (one, two),
        fake_lookupd() as lookupd,
    ):
        lists(lookupd, {one: {"t": True, "u": False}, two: {"t": False}})
        async with nsq.produce(nsqlookupd=lookupd.url, options=QUICK) as producer:
            await until(lambda: connected(producer, one, two))
            for _ in range(4):
                await producer.publish("t", b"t")
                await producer.publish("u", b"u")
            assert stored(one) == [b"u", b"u"] or stored(one).count(b"t") == 0
            assert stored(two).count(b"t") == 4
            assert stored(one).count(b"u") > 0
            # Where no other can take it, a tombstone is no reason to lose a message.
            lists(lookupd, {one: {"t": True}, two: {"t": True}})
            await polled(lookupd)
            for _ in range(4):
                await producer.publish("t", b"v")
            assert (stored(one) + stored(two)).count(b"v") == 4


async def test_before_any_is_known_a_publish_waits_for_publish_timeout_and_names_the_nsqlookupds() -> None:
    options = nsq.ProducerOptions(**OPTIONS, publish_timeout=0.3, connect_timeout=0.05)
    async with fake_lookupd() as lookupd:
        urls = [lookupd.url, "http://127.0.0.1:1"]
        async with nsq.produce(nsqlookupd=urls, options=options) as producer:
            with pytest.raises(nsq.NotSent) as caught:
                await producer.publish("t", b"x")
    text = str(caught.value)
    assert text.startswith("no connection within publish_timeout=0.3 s: ")
    assert f"nsqlookupd {lookupd.url}: it names no nsqd" in text
    assert "http://127.0.0.1:1" in text


@pytest.mark.parametrize("coalesce", [False, True])
async def test_a_publish_that_waits_is_sent_once_an_nsqd_is_named(coalesce: bool) -> None:
    options = nsq.ProducerOptions(**OPTIONS, connect_timeout=1, coalesce=coalesce)
    async with (
        fake_nsqd(store) as nsqd,
        fake_lookupd() as lookupd,
        nsq.produce(nsqlookupd=lookupd.url, options=options) as producer,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(producer.publish, "t", b"x")
        await anyio.sleep(1.2)  # longer than connect_timeout, which is for nsqds that are known
        lookupd.names(nsqd)
        await until(lambda: stored(nsqd) == [b"x"])


async def test_a_lost_nsqd_is_looked_up_at_once() -> None:
    options = nsq.ProducerOptions(lookupd_poll_interval=60, reconnect_delay=0.01)
    async with (
        fake_nsqds(2, store) as (one, two),
        fake_lookupd(one) as lookupd,
        nsq.produce(nsqlookupd=lookupd.url, options=options) as producer,
    ):
        await producer.ready()
        lookupd.names(one, two)
        await one.connections[0].close()
        await until(lambda: connected(producer, one, two))
    assert len(lookupd.requests) == 2


def test_one_of_both_must_be_given() -> None:
    with pytest.raises(nsq.InvalidOption, match="neither nsqd nor nsqlookupd is given"):
        nsq.produce()
    with pytest.raises(nsq.InvalidOption, match="nsqlookupd is empty"):
        nsq.produce(nsqlookupd=[])
    with pytest.raises(nsq.InvalidAddress):
        nsq.produce(nsqlookupd="nowhere else")
