"""Which nsqd gets a publish in each mode, and what a producer tells of itself."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any, Literal

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.testing.faults import fault_proxy

from ..fake_nsqd import Events, FakeConnection, fake_nsqd, until
from .gate import Gate

pytestmark = pytest.mark.anyio

QUICK: dict[str, Any] = {"reconnect_delay": 0.01, "max_reconnect_delay": 0.02}


async def store(connection: FakeConnection) -> None:
    """Take everything; the bodies stay in `lines`."""
    await connection.identify({"version": "1.3.0"})
    while True:
        await connection.command()
        connection.lines.append(connection.body)
        await connection.response()


async def test_least_outstanding_prefers_the_idle_one() -> None:
    gate = Gate()
    options = nsq.ProducerOptions(mode="least_outstanding")
    async with fake_nsqd(gate.script) as busy, fake_nsqd(store) as idle:
        async with nsq.produce([busy.address, idle.address], options=options) as producer:
            await until(lambda: len(producer.connections) == 2)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(producer.publish, "t", b"stuck")
                await until(lambda: gate.received)
                for _ in range(10):
                    await producer.publish("t", b"x")
                await gate.answer()
        assert gate.received == [b"stuck"]
        assert idle.connections[0].lines == [b"x"] * 10


@pytest.mark.parametrize("mode", ["hostpool", "epsilon_greedy"])
async def test_a_host_that_was_lost_is_left_out_when_it_is_back(
    mode: Literal["hostpool", "epsilon_greedy"],
) -> None:
    options = nsq.ProducerOptions(mode=mode, **QUICK)
    events = Events()
    async with fake_nsqd(store) as one, fake_nsqd(store) as two, fault_proxy(one.address) as proxy:
        async with nsq.produce([proxy.address, two.address], options=options, on_event=events) as producer:
            await until(lambda: len(producer.connections) == 2)
            proxy.cut()
            await until(partial(events.of, nsq.events.Disconnected))
            await until(lambda: len(producer.connections) == 2)
            for _ in range(10):
                await producer.publish("t", b"x")
        (left_out,) = events.of(nsq.events.NsqdLeftOut)
        assert (left_out.nsqd, left_out.seconds) == (proxy.address, 30)
        assert str(left_out).startswith(f"{proxy.address}: left out for 30 s: nsqd")
        assert [connection.lines for connection in one.connections] == [[], []]
        assert two.connections[0].lines == [b"x"] * 10


async def test_a_host_that_does_not_answer_in_time_is_left_out() -> None:
    gate = Gate()
    options = nsq.ProducerOptions(mode="hostpool", publish_timeout=0.2, drain_timeout=0)
    events = Events()
    async with fake_nsqd(gate.script) as silent, fake_nsqd(store) as good:
        async with nsq.produce([silent.address, good.address], options=options, on_event=events) as producer:
            await until(lambda: len(producer.connections) == 2)
            with pytest.raises(nsq.OutcomeUnknown):
                await producer.publish("t", b"first")
            for _ in range(5):
                await producer.publish("t", b"x")
        assert [event.nsqd for event in events.of(nsq.events.NsqdLeftOut)] == [silent.address]
        assert gate.received == [b"first"]


async def test_with_all_left_out_one_is_taken_all_the_same() -> None:
    options = nsq.ProducerOptions(mode="hostpool", **QUICK)
    events = Events()
    async with fake_nsqd(store) as fake, fake_nsqd(store) as other:
        async with (
            fault_proxy(fake.address) as one,
            fault_proxy(other.address) as two,
            nsq.produce([one.address, two.address], options=options, on_event=events) as producer,
        ):
            await until(lambda: len(producer.connections) == 2)
            one.cut()
            two.cut()
            await until(lambda: len(events.of(nsq.events.NsqdLeftOut)) == 2)
            await until(lambda: len(producer.connections) == 2)
            for _ in range(4):
                await producer.publish("t", b"x")
        stored = [line for nsqd in (fake, other) for each in nsqd.connections for line in each.lines]
        assert stored == [b"x"] * 4


async def test_epsilon_greedy_prefers_the_fast_one() -> None:
    async def be_slow(connection: FakeConnection) -> None:
        await connection.identify()
        while True:
            await connection.command()
            connection.lines.append(connection.body)
            await anyio.sleep(0.02)
            await connection.response()

    options = nsq.ProducerOptions(mode="epsilon_greedy")
    async with fake_nsqd(be_slow) as slow, fake_nsqd(store) as fast:
        async with nsq.produce([slow.address, fast.address], options=options) as producer:
            await until(lambda: len(producer.connections) == 2)
            for _ in range(200):
                await producer.publish("t", b"x")
        assert len(slow.connections[0].lines) < 60 < 140 < len(fast.connections[0].lines)


# What it tells


async def test_statistics() -> None:
    gate = Gate()
    options = nsq.ProducerOptions(max_outstanding=3)
    async with fake_nsqd(store) as one, fake_nsqd(gate.script) as two, fault_proxy("127.0.0.1:1") as nobody:
        addresses = [one.address, two.address, nobody.address]
        async with nsq.produce(addresses, options=options) as producer, anyio.create_task_group() as tasks:
            await until(lambda: len(producer.connections) == 2)
            await producer.publish("t", b"12345")
            tasks.start_soon(producer.publish, "t", b"12345")
            await until(lambda: gate.received)
            statistics = producer.statistics()
            first, second, third = statistics.per_connection
            assert (statistics.connections, statistics.outstanding, statistics.waiting) == (2, 1, 0)
            assert statistics.published == 1
            assert statistics.outstanding_bytes == len(b"PUB t\n\0\0\0\x0512345")
            assert (first.nsqd, first.connected, first.published, first.commands) == (one.address, True, 1, 1)
            assert first.identity is not None
            assert (first.identity.version, first.authorization) == ("1.3.0", None)
            assert (second.outstanding, second.published, second.commands) == (1, 0, 1)
            assert (third.connected, third.identity) == (False, None)
            await gate.answer()
            await until(lambda: producer.statistics().published == 2)
            assert producer.statistics().outstanding_bytes == 0


async def test_what_waits_for_room_is_counted() -> None:
    gate = Gate()
    options = nsq.ProducerOptions(max_outstanding=3)
    async with (
        fake_nsqd(gate.script) as fake,
        nsq.produce(fake.address, options=options) as producer,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(producer.publish_many, "t", [b"a", b"b"])
        await until(lambda: gate.received)
        tasks.start_soon(producer.publish_many, "t", [b"c", b"d"])
        await until(lambda: producer.statistics().waiting == 2)
        assert await gate.is_stuck_at(1)  # messages count, not commands
        await gate.answer()
        assert await gate.is_stuck_at(2)
        await gate.answer()
        await until(lambda: producer.statistics().published == 4)


async def test_events_of_publishes_go_to_the_hook_only(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "nsq_anyio.producer")

    async def refuse(connection: FakeConnection) -> None:
        await connection.identify()
        await connection.command()
        await connection.response()
        await connection.command()
        await connection.error(b"E_BAD_MESSAGE PUB no")

    events = Events()
    options = nsq.ProducerOptions(**QUICK)
    async with (
        fake_nsqd(refuse) as fake,
        nsq.produce(fake.address, options=options, on_event=events) as producer,
    ):
        await producer.publish_many("t", [b"a", b"b"])
        with pytest.raises(nsq.PublishRejected):
            await producer.publish("t", b"x")
    (published,) = events.of(nsq.events.PublishedMessages)
    assert (published.nsqd, published.topic, published.messages) == (fake.address, "t", 2)
    (failed,) = events.of(nsq.events.PublishFailed)
    assert (failed.topic, failed.messages, type(failed.error)) == ("t", 1, nsq.PublishRejected)
    assert not [record for record in caplog.records if "Publish" in record.getMessage()]


async def test_a_hook_that_raises_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def hook(event: nsq.events.Event) -> None:
        raise LookupError("mine")

    async with fake_nsqd(store) as fake, nsq.produce(fake.address, on_event=hook) as producer:
        await producer.publish("t", b"x")
    assert fake.connections[0].lines == [b"x"]
    assert "the on_event hook raised" in caplog.text
