"""An nsqd that pushes what nobody asked for is refused, and what it makes this side hold is bounded."""

from typing import Any

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.events import Disconnected, LoopBlocked

from .. import virtual_time
from ..fake_nsqd import Events, FakeConnection, consuming, fake_nsqd, message_id, until

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio

BOASTING = {"max_rdy_count": 2**53}


async def lost(script: Any, **arguments: Any) -> str:
    """Why the connection that runs a script is given up."""
    events = Events()
    options = nsq.ConsumerOptions(reconnect_delay=10)
    async with (
        fake_nsqd(script) as nsqd,
        nsq.consume("t", "c", nsqd=nsqd.address, on_event=events, options=options, **arguments),
    ):
        await until(lambda: events.of(Disconnected))
    return str(events.of(Disconnected)[0])


@pytest.mark.parametrize("rdy", [1, 10])
async def test_what_is_held_is_bounded_by_what_was_asked_for(rdy: int) -> None:
    async def script(peer: FakeConnection) -> None:
        await peer.subscribe(BOASTING)
        await peer.expect(b"RDY %d" % rdy)
        await peer.messages(*[b"x"] * (3 * rdy))
        await anyio.sleep(0.05)
        await peer.messages(b"one more")
        await anyio.sleep_forever()

    reason = await lost(script, max_in_flight=rdy)
    assert f"{3 * rdy + 1} are unanswered, with a RDY of {rdy}" in reason


async def test_a_message_that_comes_twice_as_its_first_attempt_is_refused() -> None:
    async def script(peer: FakeConnection) -> None:
        await peer.subscribe(BOASTING)
        await peer.message(id=message_id(7))
        await peer.message(id=message_id(7))
        await anyio.sleep_forever()

    assert "twice" in await lost(script, max_in_flight=5)


async def test_one_message_again_and_again_does_not_pile_up() -> None:
    """Each time as a further attempt, as nsqd does after a timeout, and nobody takes any."""
    async with consuming(options=nsq.ConsumerOptions(max_attempts=0)) as (consumer, peer):
        for attempt in range(1, 500):
            await peer.message(id=message_id(7), attempts=attempt)
        await until(lambda: consumer.statistics().received == 499)
        assert consumer.in_flight == 1
        assert consumer.statistics().waiting <= 10
        assert (await anext(consumer)).attempts == 499


async def test_messages_that_time_out_untaken_do_not_pile_up() -> None:
    async def script(peer: FakeConnection) -> None:
        await peer.subscribe({"msg_timeout": 20})
        await peer.follow()

    options = nsq.ConsumerOptions(rdy_redistribute_interval=0.01)
    async with consuming(script, options=options, max_in_flight=5) as (consumer, peer):
        for _ in range(10):
            await peer.messages(*[b"x"] * 5)
            await until(lambda: not consumer.in_flight)
        assert consumer.statistics().waiting <= 10


async def test_a_blocked_loop_is_named_and_excuses_what_nsqd_timed_out() -> None:
    events = Events()

    async def script(peer: FakeConnection) -> None:
        await peer.subscribe({"msg_timeout": 100})
        await peer.follow()

    options = nsq.ConsumerOptions(rdy_redistribute_interval=0.05)
    async with consuming(script, options=options, on_event=events, max_in_flight=2) as (consumer, peer):
        await peer.messages(b"a", b"b")
        await until(lambda: consumer.in_flight == 2)
        virtual_time.pass_time(0.6)  # as a handler does
        await peer.messages(*[b"x"] * 12)  # six timeouts of two messages
        await until(lambda: events.of(LoopBlocked))
        await until(lambda: consumer.statistics().received == 14)
    (blocked,) = events.of(LoopBlocked)
    assert 0.5 <= blocked.seconds < 5
    assert "was blocked for" in str(blocked)
    assert not events.of(Disconnected)
