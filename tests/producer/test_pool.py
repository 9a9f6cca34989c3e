"""Which nsqd a publish goes to, how much is under way at once, and what happens when there is none."""

from __future__ import annotations

from functools import partial

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.testing.faults import fault_proxy

from ..fake_nsqd import Events, FakeConnection, fake_nsqd, until
from .gate import Gate

pytestmark = pytest.mark.anyio

QUICK = nsq.ProducerOptions(reconnect_delay=0.01, max_reconnect_delay=0.02, connect_timeout=0.2)


async def store(connection: FakeConnection) -> None:
    """Take everything; the commands and bodies stay in `lines`."""
    await connection.identify()
    while True:
        await connection.command()
        connection.lines.append(connection.body)
        await connection.response()


@pytest.mark.parametrize(
    ("options", "size", "at_once"),
    [
        (nsq.ProducerOptions(max_outstanding=1), 10, 1),
        (nsq.ProducerOptions(max_outstanding=3), 10, 3),
        # A publish counts with its command line: "PUB t\\n", 4 bytes of size, the body.
        (nsq.ProducerOptions(max_outstanding_bytes=60), 20, 2),
        (nsq.ProducerOptions(max_outstanding_bytes=10), 50, 1),  # one alone always fits
    ],
    ids=["1", "3", "bytes", "larger than the bound"],
)
async def test_no_more_is_outstanding_than_allowed(
    options: nsq.ProducerOptions, size: int, at_once: int
) -> None:
    gate = Gate()
    published = 0

    async def publish() -> None:
        nonlocal published
        await producer.publish("t", b"x" * size)
        published += 1

    def is_published(count: int) -> bool:
        return published == count

    async with (
        fake_nsqd(gate.script) as fake,
        nsq.produce(fake.address, options=options) as producer,
        anyio.create_task_group() as tasks,
    ):
        for _ in range(6):
            tasks.start_soon(publish)
        assert await gate.is_stuck_at(at_once)
        await gate.answer()
        assert await gate.is_stuck_at(at_once + 1)
        assert published == 1
        for answered in range(2, 7):
            await gate.answer()
            await until(partial(is_published, answered))
    assert published == len(gate.received) == 6


async def test_waiting_for_room_ends_with_the_timeout() -> None:
    gate = Gate()
    options = nsq.ProducerOptions(max_outstanding=1, publish_timeout=0.3, drain_timeout=0)
    async with fake_nsqd(gate.script) as fake, nsq.produce(fake.address, options=options) as producer:
        with pytest.raises(nsq.OutcomeUnknown):
            await producer.publish("t", b"first")
        with pytest.raises(nsq.NotSent, match=r"no room on a connection within publish_timeout=0\.3 s"):
            await producer.publish("t", b"second")
    assert gate.received == [b"first"]


async def test_a_cancelled_wait_for_room_sends_nothing() -> None:
    gate = Gate()
    options = nsq.ProducerOptions(max_outstanding=1)
    async with (
        fake_nsqd(gate.script) as fake,
        nsq.produce(fake.address, options=options) as producer,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(producer.publish, "t", b"first")
        assert await gate.is_stuck_at(1)
        with anyio.move_on_after(0.02):
            await producer.publish("t", b"cancelled")
        tasks.start_soon(producer.publish, "t", b"third")
        await gate.answer()
        assert await gate.is_stuck_at(2)
        await gate.answer()
    assert gate.received == [b"first", b"third"]


async def test_connections_are_used_in_turn() -> None:
    async with fake_nsqd(store) as one, fake_nsqd(store) as two, fake_nsqd(store) as three:
        addresses = [one.address, two.address, three.address]
        async with nsq.produce(addresses) as producer:
            await until(lambda: producer.connections == tuple(addresses))
            for number in range(9):
                await producer.publish("t", b"%d" % number)
        for place, fake in enumerate((one, two, three)):
            (connection,) = fake.connections
            assert connection.lines == [b"%d" % number for number in range(place, 9, 3)]


async def test_a_full_connection_is_passed_over() -> None:
    gate = Gate()
    options = nsq.ProducerOptions(max_outstanding=1)
    async with fake_nsqd(gate.script) as full, fake_nsqd(store) as free:
        async with nsq.produce([full.address, free.address], options=options) as producer:
            await until(lambda: len(producer.connections) == 2)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(producer.publish, "t", b"stuck")
                await until(lambda: gate.received)
                for _ in range(5):
                    await producer.publish("t", b"x")
                await gate.answer()
        assert free.connections[0].lines == [b"x"] * 5
    assert gate.received == [b"stuck"]


async def test_no_connection_names_the_reasons() -> None:
    async def hang_up(connection: FakeConnection) -> None:
        await connection.introduction()

    async with fake_nsqd(hang_up) as other, fault_proxy(other.address) as nobody:
        await nobody.refuse()
        addresses = [nobody.address, other.address]
        async with nsq.produce(addresses, options=QUICK) as producer:
            with pytest.raises(nsq.NotSent, match=r"no connection within connect_timeout=0\.2 s") as caught:
                await producer.publish("t", b"x")
            assert producer.connections == ()
            assert "down" in repr(producer)
    assert f"nsqd {nobody.address}: cannot connect" in str(caught.value)
    assert f"nsqd {other.address}: the peer closed the connection before the answer" in str(caught.value)


async def test_no_connection_yet_is_told_too() -> None:
    async def be_silent(connection: FakeConnection) -> None:
        await connection.introduction()
        await anyio.sleep_forever()

    options = nsq.ProducerOptions(connect_timeout=0)
    async with fake_nsqd(be_silent) as fake, nsq.produce(fake.address, options=options) as producer:
        with pytest.raises(nsq.NotSent, match=f"nsqd {fake.address}: not connected yet"):
            await producer.publish("t", b"x")


async def test_a_lost_connection_comes_back_after_growing_delays() -> None:
    async with fake_nsqd(store) as fake, fault_proxy(fake.address) as proxy:
        events = Events()
        options = nsq.ProducerOptions(reconnect_delay=0.02, max_reconnect_delay=0.08)
        async with nsq.produce(proxy.address, options=options, on_event=events) as producer:
            await producer.publish("t", b"before")
            await proxy.refuse()
            proxy.cut()
            await until(lambda: len(events.of(nsq.events.ConnectFailed)) >= 4)
            assert producer.connections == ()
            await proxy.listen()
            await producer.publish("t", b"after")
        (lost,) = events.of(nsq.events.Disconnected)
        assert isinstance(lost.error, nsq.ConnectionLost)
        failed = events.of(nsq.events.ConnectFailed)[:4]
        # Each is spread by up to half of itself.
        delays = [lost.retry_in or 0, *(event.retry_in or 0 for event in failed)]
        for delay, whole in zip(delays, [0.02, 0.04, 0.08, 0.08, 0.08], strict=True):
            assert whole / 2 <= delay <= whole
    assert [connection.lines for connection in fake.connections] == [[b"before"], [b"after"]]


@pytest.mark.parametrize("reset", [False, True])
async def test_what_was_certainly_not_sent_is_sent_by_another(reset: bool) -> None:
    """A publish that finds its connection just lost goes to the one that is left."""
    async with fake_nsqd(store) as one, fake_nsqd(store) as two, fault_proxy(one.address) as proxy:
        events = Events()
        async with nsq.produce([proxy.address, two.address], options=QUICK, on_event=events) as producer:
            await until(lambda: len(producer.connections) == 2)
            await proxy.refuse()
            (proxy.reset if reset else proxy.cut)()
            await until(partial(events.of, nsq.events.Disconnected))
            for _ in range(4):
                await producer.publish("t", b"x")
        assert one.connections[0].lines == []
        assert two.connections[0].lines == [b"x"] * 4
