"""What nsqlookupds are asked once a connection failed or was lost: soon, never without a pause, each anew."""

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.events import ConnectFailed, Disconnected, Event, LookupDone

from .. import virtual_time
from ..fake_nsqd import Events, FakeConnection, fake_nsqd, serve
from .fake_lookupd import UNKNOWN_TOPIC, at, connected, fake_lookupd

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio

LEAST_INTERVAL = 1.0
RARELY = nsq.ConsumerOptions(lookupd_poll_interval=60)


async def test_a_lost_nsqd_is_looked_up_soon_and_reconnected_when_it_is_still_listed() -> None:
    events = Events()
    async with fake_nsqd(serve) as nsqd, fake_lookupd(nsqd) as lookupd:
        async with nsq.consume("t", "c", nsqlookupd=lookupd.url, options=RARELY, on_event=events) as consumer:
            await connected(consumer, nsqd)
            await nsqd.connections[0].close()
            await anyio.sleep(1.5 * LEAST_INTERVAL)
            await connected(consumer, nsqd)
            assert len(nsqd.connections) == 2
        first, second = lookupd.times
        assert second - first == pytest.approx(LEAST_INTERVAL, abs=0.1)
        (lost,) = events.of(Disconnected)
        assert lost.retry_in == pytest.approx(0.375, abs=0.125)


async def test_flapping_connections_do_not_make_it_poll_without_a_pause() -> None:
    async def flap(connection: FakeConnection) -> None:
        await connection.subscribe()

    options = nsq.ConsumerOptions(lookupd_poll_interval=60, max_reconnect_delay=0.5)
    async with fake_nsqd(flap) as nsqd, fake_lookupd(nsqd) as lookupd:
        async with nsq.consume("t", "c", nsqlookupd=lookupd.url, options=options):
            await anyio.sleep(4.5 * LEAST_INTERVAL)
        pauses = [later - earlier for earlier, later in zip(lookupd.times, lookupd.times[1:], strict=False)]
        assert pauses == pytest.approx([LEAST_INTERVAL] * 4, abs=0.1)


async def test_an_nsqd_that_cannot_be_reached_is_tried_again_with_growing_delays() -> None:
    async def refuse(connection: FakeConnection) -> None:
        if len(nsqd.connections) > 4:
            await serve(connection)

    events = Events()
    async with fake_nsqd(refuse) as nsqd, fake_lookupd(nsqd) as lookupd:
        async with nsq.consume("t", "c", nsqlookupd=lookupd.url, options=RARELY, on_event=events) as consumer:
            started = anyio.current_time()
            await consumer.ready()
            assert anyio.current_time() - started < 0.5 + 1 + 2 + 4 + 1
            assert len(lookupd.requests) == 5  # each attempt follows a poll that lists the nsqd
    delays = [event.retry_in or 0 for event in events.of(ConnectFailed)]
    assert [low <= delay <= 2 * low for low, delay in zip((0.25, 0.5, 1, 2), delays, strict=True)] == [
        True
    ] * 4
    assert str(events.of(ConnectFailed)[0]).endswith(f"; next attempt in {delays[0]:.1f} s")


async def test_one_that_is_not_listed_any_more_is_not_tried_again() -> None:
    async def refuse(connection: FakeConnection) -> None:
        lookupd.says(UNKNOWN_TOPIC, status=404)
        await connection.close()

    async with fake_nsqd(refuse) as nsqd, fake_lookupd(nsqd) as lookupd:
        async with nsq.consume("t", "c", nsqlookupd=lookupd.url, options=RARELY):
            await anyio.sleep(30)
        assert len(nsqd.connections) == 1


async def test_an_answer_from_before_the_loss_does_not_bring_a_lost_nsqd_back() -> None:
    """A topic is deleted: one nsqlookupd says so at once, the other one is slower."""
    async with fake_nsqd(serve) as nsqd, fake_lookupd(nsqd) as quick, fake_lookupd(nsqd) as slow:
        async with nsq.consume("t", "c", nsqlookupd=at(quick, slow), options=RARELY) as consumer:
            await connected(consumer, nsqd)
            await anyio.sleep(5)
            slow.gate = anyio.Event()
            for lookupd in (quick, slow):
                lookupd.says(UNKNOWN_TOPIC, status=404)
            await nsqd.connections[0].close()
            await anyio.sleep(5)
            slow.gate.set()
            await anyio.sleep(90)
            assert len(nsqd.connections) == 1
            slow.names(nsqd)
            await anyio.sleep(90)
            assert len(nsqd.connections) > 1


async def test_an_answer_that_was_asked_for_before_the_loss_does_not_bring_a_lost_nsqd_back() -> None:
    def on_event(event: Event) -> None:
        if isinstance(event, LookupDone) and event.nsqlookupd == slow.url:
            listed.append(bool(event.nsqds))
            slow.says(UNKNOWN_TOPIC, status=404)

    listed: list[bool] = []
    async with fake_nsqd(serve) as nsqd, fake_lookupd(nsqd) as quick, fake_lookupd(nsqd) as slow:
        slow.gate = anyio.Event()
        async with nsq.consume(
            "t", "c", nsqlookupd=at(quick, slow), options=RARELY, on_event=on_event
        ) as consumer:
            await connected(consumer, nsqd)
            quick.says(UNKNOWN_TOPIC, status=404)
            await nsqd.connections[0].close()
            await anyio.sleep(5)
            assert len(slow.requests) == 1
            slow.gate.set()
            await anyio.sleep(1)
            assert listed[:2] == [True, False]  # it is asked again soon
            assert len(nsqd.connections) == 1


async def test_one_that_hangs_delays_no_reconnect_to_what_another_one_lists() -> None:
    async with fake_nsqd(serve) as nsqd, fake_lookupd(nsqd) as lookupd, fake_lookupd(nsqd) as hanging:
        hanging.gate = anyio.Event()
        async with nsq.consume("t", "c", nsqlookupd=at(lookupd, hanging), options=RARELY) as consumer:
            await connected(consumer, nsqd)  # which the first poll does not delay either
            assert anyio.current_time() - lookupd.times[0] < 0.1
            await nsqd.connections[0].close()
            await nsqd.subscribed(1)
            assert anyio.current_time() - lookupd.times[0] < 3
            assert len(hanging.requests) == 1
