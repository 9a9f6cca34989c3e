"""Static nsqds are reconnected for as long as the block lasts."""

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.events import Connected, ConnectFailed, Disconnected, Subscribed
from nsq_anyio.testing.faults import fault_proxy

from .. import virtual_time
from ..fake_nsqd import LIMIT, Events, FakeConnection, client_tasks, fake_nsqd, serve, until

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio

SOON = nsq.ConsumerOptions(reconnect_delay=0.01, max_reconnect_delay=0.04)


async def test_it_goes_on_until_the_first_connection_comes_about() -> None:
    events = Events()
    async with fake_nsqd(serve) as nsqd, fault_proxy(nsqd.address) as proxy:
        await proxy.refuse()
        async with nsq.consume("t", "c", nsqd=proxy.address, options=SOON, on_event=events) as consumer:
            await until(lambda: len(events.of(ConnectFailed)) >= 4)
            assert not consumer.connections
            await proxy.listen()
            with anyio.fail_after(LIMIT):
                await consumer.ready()
            peer = await nsqd.subscribed()
            await peer.message(b"hello")
            assert (await anext(consumer)).body == b"hello"
    failures = events.of(ConnectFailed)
    assert all(isinstance(event.error, nsq.DialFailed) for event in failures)
    bounds = [0.01, 0.02, 0.04, 0.04]
    for event, bound in zip(failures, bounds, strict=False):
        assert event.retry_in is not None
        assert bound / 2 <= event.retry_in <= bound


@pytest.mark.parametrize("fault", ["close", "cut", "reset"])
async def test_a_lost_connection_is_made_again_and_messages_go_on(fault: str) -> None:
    events = Events()
    async with (
        fake_nsqd(serve) as nsqd,
        fault_proxy(nsqd.address) as proxy,
        nsq.consume("t", "c", nsqd=proxy.address, options=SOON, on_event=events) as consumer,
    ):
        first = await nsqd.subscribed()
        await first.message(b"one")
        (await anext(consumer)).finish()
        await consumer.ready()
        if fault == "close":
            await first.close()
        else:
            getattr(proxy, fault)()
        second = await nsqd.subscribed(1)
        await second.saw(b"RDY 1")
        await second.message(b"two")
        message = await anext(consumer)
        assert message.body == b"two"
        message.finish()
        (lost,) = events.of(Disconnected)
        assert lost.nsqd == proxy.address
        assert lost.retry_in is not None
        assert 0.005 <= lost.retry_in <= 0.01
    assert [type(event) for event in events if isinstance(event, Connected | Subscribed)] == [
        Connected,
        Subscribed,
    ] * 2


async def test_messages_of_a_lost_connection_that_nobody_has_started_are_not_started() -> None:
    async with (
        fake_nsqd(serve) as nsqd,
        nsq.consume("t", "c", nsqd=nsqd.address, options=SOON, max_in_flight=3) as consumer,
    ):
        first = await nsqd.subscribed()
        await first.messages(b"a", b"b")
        await until(lambda: consumer.statistics().waiting == 2)
        await first.close()
        second = await nsqd.subscribed(1)
        assert consumer.statistics().waiting == 0
        await second.message(b"again", attempts=2)
        assert (await anext(consumer)).body == b"again"


async def test_a_handshake_that_fails_is_tried_again() -> None:
    events = Events()

    async def fail(peer: FakeConnection) -> None:
        await peer.introduction()
        await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with (
        fake_nsqd(fail, fail, serve) as nsqd,
        nsq.consume("t", "c", nsqd=nsqd.address, options=SOON, on_event=events) as consumer,
    ):
        with anyio.fail_after(LIMIT):
            await consumer.ready()
    assert [type(event.error) for event in events.of(ConnectFailed)] == [nsq.HandshakeFailed] * 2


async def test_a_subscription_that_is_refused_for_now_is_tried_again() -> None:
    events = Events()

    async def refuse(peer: FakeConnection) -> None:
        await peer.identify()
        await peer.expect(b"SUB t c")
        await peer.error(b"E_SUB_FAILED too many channel consumers")

    async with (
        fake_nsqd(refuse, serve) as nsqd,
        nsq.consume("t", "c", nsqd=nsqd.address, options=SOON, on_event=events) as consumer,
    ):
        with anyio.fail_after(LIMIT):
            await consumer.ready()
    (failed,) = events.of(ConnectFailed)
    assert "too many channel consumers" in str(failed.error)


async def test_bytes_that_are_no_nsq_end_the_connection_and_nothing_else() -> None:
    async def garbage(peer: FakeConnection) -> None:
        await peer.subscribe()
        await peer.send(b"\xff" * 100)
        await peer.quiet(5)

    async with (
        fake_nsqd(garbage, serve) as nsqd,
        nsq.consume("t", "c", nsqd=nsqd.address, options=SOON) as consumer,
    ):
        peer = await nsqd.subscribed(1)
        await peer.message(b"hello")
        assert (await anext(consumer)).body == b"hello"


async def test_the_others_go_on_while_one_cannot_be_reached() -> None:
    events = Events()
    async with fake_nsqd(serve) as nsqd:
        addresses = ["127.0.0.1:1", nsqd.address]
        async with nsq.consume("t", "c", nsqd=addresses, options=SOON, on_event=events) as consumer:
            peer = await nsqd.subscribed()
            await until(lambda: len(events.of(ConnectFailed)) >= 2)
            await peer.message(b"hello")
            assert (await anext(consumer)).body == b"hello"
        assert client_tasks() == []


async def test_the_end_of_the_block_does_not_wait_for_the_next_attempt() -> None:
    options = nsq.ConsumerOptions(reconnect_delay=60)
    events = Events()
    with anyio.fail_after(LIMIT):
        async with nsq.consume("t", "c", nsqd="127.0.0.1:1", options=options, on_event=events):
            await until(lambda: events.of(ConnectFailed))
    assert client_tasks() == []


async def test_after_stop_a_lost_connection_is_not_made_again_nor_announced() -> None:
    events = Events()
    async with (
        fake_nsqd(serve) as nsqd,
        nsq.consume("t", "c", nsqd=nsqd.address, options=SOON, on_event=events) as consumer,
    ):
        await consumer.ready()
        consumer.stop()
        await nsqd.connections[0].close()
        await until(lambda: not consumer.connections)
        await anyio.sleep(0.05)
        assert len(nsqd.connections) == 1
        assert [event for event in events.of(Disconnected) if event.retry_in is not None] == []
