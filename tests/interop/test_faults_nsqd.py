"""An nsqd that is killed, or that stops for a while: the consumer notices, and goes on by itself."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import anyio
import pytest

import nsq_anyio as nsq

from .cluster import Cluster, Server
from .ledger import Ledger
from .observe import PROMPT, Events

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])]

CHANNELS = {"t": ["c"]}
OPTIONS = nsq.ConsumerOptions(
    lookupd_poll_interval=0.3,
    reconnect_delay=0.05,
    max_reconnect_delay=0.2,
    requeue_delay=0.05,
    max_attempts=0,
    max_backoff_duration=0,
)
PRODUCING = nsq.ProducerOptions(reconnect_delay=0.05, max_reconnect_delay=0.2)


@asynccontextmanager
async def consuming(
    ledger: Ledger,
    events: Events,
    *,
    nsqd: str | None = None,
    nsqlookupd: str | None = None,
    connection: nsq.ConnectionOptions = PROMPT,
) -> AsyncGenerator[nsq.Consumer]:
    """A consumer that handles with the ledger for the length of the block."""

    def on_event(event: nsq.events.Event) -> None:
        events(event)
        ledger.on_event(event)

    async with (
        nsq.consume(
            "t",
            "c",
            nsqd=nsqd,
            nsqlookupd=nsqlookupd,
            max_in_flight=100,
            options=OPTIONS,
            connection=connection,
            on_event=on_event,
        ) as consumer,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(partial(consumer.run, ledger.handle, concurrency=20))
        yield consumer
        consumer.stop()


async def publish_until(stop: anyio.Event, ledger: Ledger, address: str, events: Events) -> None:
    """Publish small batches, through losses of the connection, until told to stop."""
    async with nsq.produce(address, options=PRODUCING, on_event=events) as producer:
        while not stop.is_set():
            await ledger.publish(producer, "t", 20)
            await anyio.sleep(0.005)


@pytest.mark.parametrize("found_by", ["address", "nsqlookupd"])
async def test_a_killed_nsqd_under_load(
    cluster: Cluster, found_by: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What it had in memory is gone; everything that its successor takes arrives."""
    caplog.set_level(logging.CRITICAL, "nsq_anyio.consumer")  # a handler that fails is an error
    lookupd = await cluster.nsqlookupd("real")
    nsqd = await cluster.nsqd("real", lookupds=[lookupd], channels=CHANNELS)
    ledger = Ledger(fail_share=0.1, handler_seconds=0.002)
    events, publishing = Events(), Events()
    stop = anyio.Event()

    async def kill_and_restart(nsqd: Server) -> Server:
        losses = len(publishing.of(nsq.events.Disconnected))
        await nsqd.kill()
        # After the last answer of this one has been read, and before its successor takes anything.
        await publishing.wait_for(nsq.events.Disconnected, losses + 1)
        ledger.note_lost()
        return await cluster.nsqd("real", lookupds=[lookupd], channels=CHANNELS, succeeding=nsqd)

    by_address = found_by == "address"
    async with (
        consuming(
            ledger,
            events,
            nsqd=nsqd.tcp_address if by_address else None,
            nsqlookupd=None if by_address else lookupd.http_url,
        ),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(publish_until, stop, ledger, nsqd.tcp_address, publishing)
        for restarts in (1, 2):
            await ledger.more_starts(500)
            nsqd = await kill_and_restart(nsqd)
            await events.wait_for(nsq.events.Subscribed, restarts + 1)
        await ledger.more_starts(500)
        stop.set()
        await ledger.settled()
    ledger.check()
    lost = events.of(nsq.events.Disconnected)
    assert len(lost) == 2
    for event in lost:
        assert type(event.error) is nsq.ConnectionLost
    assert ledger.failures


async def test_an_nsqd_that_stops_for_longer_than_its_heartbeats(cluster: Cluster) -> None:
    """Nothing is lost: what was in flight comes again after its timeout."""
    nsqd = await cluster.nsqd("real", channels=CHANNELS)
    ledger = Ledger(handler_seconds=0.002)
    events = Events()
    stop = anyio.Event()
    connection = nsq.ConnectionOptions(
        heartbeat_interval=1.0, handshake_timeout=0.5, msg_timeout=1.0, output_buffer_timeout=0.025
    )
    async with (
        consuming(ledger, events, nsqd=nsqd.tcp_address, connection=connection),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(publish_until, stop, ledger, nsqd.tcp_address, Events())
        await ledger.more_starts(500)
        nsqd.suspend()
        try:
            suspended = anyio.current_time()
            (lost,) = await events.wait_for(nsq.events.Disconnected)
            silence = anyio.current_time() - suspended
            (failed, *_) = await events.wait_for(
                nsq.events.ConnectFailed
            )  # the kernel accepts, nsqd does not
        finally:
            nsqd.resume()
        assert isinstance(lost.error, nsq.HeartbeatTimeout)
        assert 1.9 < silence < 8
        assert isinstance(failed.error, nsq.HandshakeFailed)
        await events.wait_for(nsq.events.Subscribed, 2)
        await ledger.more_starts(500)
        stop.set()
        await ledger.settled()
    ledger.check()
    assert len(events.of(nsq.events.Disconnected)) == 1
