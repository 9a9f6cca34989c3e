"""When nsqlookupds are asked again because a connection was lost: soon, and never without a pause."""

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.events import Disconnected

from .. import virtual_time
from ..fake_nsqd import Events, FakeConnection, fake_nsqd, serve
from .fake_lookupd import connected, fake_lookupd

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
        assert [event.retry_in for event in events.of(Disconnected)] == [None]


async def test_flapping_connections_do_not_make_it_poll_without_a_pause() -> None:
    async def flap(connection: FakeConnection) -> None:
        await connection.subscribe()

    async with fake_nsqd(flap) as nsqd, fake_lookupd(nsqd) as lookupd:
        async with nsq.consume("t", "c", nsqlookupd=lookupd.url, options=RARELY):
            await anyio.sleep(4.5 * LEAST_INTERVAL)
        pauses = [later - earlier for earlier, later in zip(lookupd.times, lookupd.times[1:], strict=False)]
        assert pauses == pytest.approx([LEAST_INTERVAL] * 4, abs=0.1)
