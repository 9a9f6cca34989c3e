"""How a consumer ends: in order, within its time, and with nothing left behind."""

from collections.abc import Awaitable, Callable

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.events import ConnectionClosed, Disconnected
from nsq_anyio.protocol.frames import FRAME_RESPONSE, encode_frame, encode_message_frame

from ..fake_nsqd import (
    LIMIT,
    Events,
    FakeConnection,
    FakeNsqd,
    client_tasks,
    consuming,
    fake_nsqd,
    fake_nsqds,
    message_id,
    until,
)

pytestmark = pytest.mark.anyio


def after_cls(peer: FakeConnection) -> list[bytes]:
    """What the client has sent after CLS."""
    return peer.lines[peer.lines.index(b"CLS") + 1 :]


# The drain at the end of the block.


async def test_the_order_of_the_end() -> None:
    """CLS, then what nobody has started, then what comes until CLOSE_WAIT, and then the half-close."""
    ended = False

    async def script(peer: FakeConnection) -> None:
        nonlocal ended
        await peer.subscribe()
        await peer.expect(b"RDY 5")
        taken, waiting = await peer.messages(b"taken", b"waiting")
        await peer.expect(b"CLS", b"REQ %b 0" % waiting, b"REQ %b 0" % taken)
        late = await peer.message(b"late")
        await peer.expect(b"REQ %b 0" % late)
        await peer.response(b"CLOSE_WAIT")
        await peer.eof()
        ended = True

    async with consuming(script, max_in_flight=5) as (consumer, _):
        assert (await anext(consumer)).body == b"taken"
        await until(lambda: consumer.statistics().waiting == 1)
    assert ended


async def test_messages_in_one_piece_with_close_wait_are_handed_back() -> None:
    ended = False

    async def script(peer: FakeConnection) -> None:
        nonlocal ended
        await peer.subscribe()
        await peer.expect(b"RDY 1", b"CLS")
        late = encode_message_frame(0, 1, message_id(7), b"late")
        await peer.send(encode_frame(FRAME_RESPONSE, b"CLOSE_WAIT") + late)
        await peer.expect(b"REQ %b 0" % message_id(7))
        await peer.eof()
        ended = True

    async with consuming(script):
        pass
    assert ended


async def test_the_end_is_confirmed_when_nsqd_closes_its_side() -> None:
    events = Events()
    async with consuming(on_event=events) as (_, peer):
        pass
    assert [event.confirmed for event in events.of(ConnectionClosed)] == [True]
    assert events.of(Disconnected) == []
    assert peer.ended.is_set()


async def test_an_nsqd_that_does_not_answer_cls_delays_the_end_by_close_timeout_at_most() -> None:
    events = Events()

    async def script(peer: FakeConnection) -> None:
        await peer.subscribe()
        await peer.follow(answer_cls=False)

    options = nsq.ConsumerOptions(close_timeout=0.1)
    async with consuming(script, max_in_flight=2, options=options, on_event=events) as (consumer, peer):
        ids = await peer.messages(b"taken", b"waiting")
        await anext(consumer)
        began = anyio.current_time()
    assert anyio.current_time() - began < 2
    assert after_cls(peer) == [b"REQ %b 0" % id for id in reversed(ids)]
    assert [event.confirmed for event in events.of(ConnectionClosed)] == [False]


async def test_an_nsqd_that_hangs_up_during_the_drain_ends_it() -> None:
    events = Events()

    async def script(peer: FakeConnection) -> None:
        await peer.subscribe()
        await peer.expect(b"RDY 1", b"CLS")

    with anyio.fail_after(LIMIT):
        async with consuming(script, options=nsq.ConsumerOptions(close_timeout=60), on_event=events):
            pass
    assert [event.confirmed for event in events.of(ConnectionClosed)] == [False]
    assert [event.retry_in for event in events.of(Disconnected)] == [None]
    assert client_tasks() == []


async def test_all_connections_drain_at_the_same_time() -> None:
    async def slow(peer: FakeConnection) -> None:
        await peer.subscribe()
        await peer.follow(answer_cls=False)

    async with fake_nsqds(3, slow) as nsqds:
        addresses = [nsqd.address for nsqd in nsqds]
        options = nsq.ConsumerOptions(close_timeout=0.1)
        async with nsq.consume("t", "c", nsqd=addresses, options=options) as consumer:
            await until(lambda: len(consumer.connections) == 3)
            began = anyio.current_time()
        assert anyio.current_time() - began < 0.3 + 1
        for nsqd in nsqds:
            with anyio.fail_after(LIMIT):
                await nsqd.connections[0].ended.wait()


# The four ways out of the block.


class Mine(Exception):
    pass


MINE = Mine()


@pytest.mark.parametrize("way", ["normal", "error", "cancelled", "cancelled from within a group"])
async def test_whatever_ends_the_block_messages_go_back_and_nothing_is_left(way: str) -> None:
    async with fake_nsqds(2) as nsqds:

        async def block() -> None:
            async with nsq.consume(
                "t", "c", nsqd=[nsqd.address for nsqd in nsqds], max_in_flight=4
            ) as consumer:
                peers = [await nsqd.subscribed() for nsqd in nsqds]
                for peer in peers:
                    await peer.messages(b"a", b"b")
                await until(lambda: consumer.in_flight == 4)
                await anext(consumer)
                if way == "error":
                    raise MINE
                if way != "normal":
                    scope.cancel()
                    await anyio.sleep_forever()

        with anyio.CancelScope() as scope:
            if way == "error":
                with pytest.raises(Mine) as caught:
                    await block()
                assert caught.value is MINE
            elif way == "cancelled from within a group":
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(block)
            else:
                await block()
        assert scope.cancelled_caught == way.startswith("cancelled")
        assert client_tasks() == []
        for nsqd in nsqds:
            (peer,) = nsqd.connections
            with anyio.fail_after(LIMIT):
                await peer.ended.wait()
            assert peer.in_flight == set()
            assert sorted(after_cls(peer)) == [b"REQ %016x 0" % n for n in (1, 2)]


async def unreachable(_nsqd: FakeNsqd) -> None:
    """The block ends before a connection has come about."""


async def in_the_handshake(nsqd: FakeNsqd) -> None:
    await (await nsqd.connection()).introduction()


async def in_the_subscription(nsqd: FakeNsqd) -> None:
    peer = await nsqd.connection()
    await peer.identify()
    await peer.expect(b"SUB t c")


@pytest.mark.parametrize("moment", [unreachable, in_the_handshake, in_the_subscription])
async def test_a_connection_that_is_just_being_made_is_closed(
    moment: Callable[[FakeNsqd], Awaitable[None]],
) -> None:
    async with fake_nsqd() as nsqd:
        with anyio.fail_after(LIMIT):
            async with nsq.consume("t", "c", nsqd=nsqd.address):
                await moment(nsqd)
        assert client_tasks() == []
        if moment is not unreachable:
            await nsqd.connections[0].eof()


async def test_a_subscription_that_is_accepted_during_the_drain_brings_no_messages() -> None:
    async def late(peer: FakeConnection) -> None:
        await peer.identify()
        await peer.expect(b"SUB t c")
        await draining.wait()
        await peer.response()
        peer.subscribed.set()
        await peer.follow()

    async def first(peer: FakeConnection) -> None:
        await peer.subscribe()
        await peer.expect(b"RDY 1", b"CLS")
        draining.set()
        assert await peer.quiet(0.03)  # time for the other subscription
        await peer.response(b"CLOSE_WAIT")
        await peer.eof()

    draining = anyio.Event()
    async with fake_nsqd(first) as one, fake_nsqd(late) as two:
        async with nsq.consume("t", "c", nsqd=[one.address, two.address]) as consumer:
            await consumer.ready()
            await two.connection()
        peer = await two.connection()
        with anyio.fail_after(LIMIT):
            await peer.ended.wait()
        assert not [line for line in peer.lines if line.startswith(b"RDY")]
        assert client_tasks() == []
