"""Nothing is lost on a connection that is slow, stalls, and breaks in the middle of frames, under load."""

from __future__ import annotations

import logging
from functools import partial

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.testing.faults import CHUNK, fault_proxy

from .cluster import Cluster
from .ledger import Ledger
from .observe import Events

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])]

OPTIONS = nsq.ConsumerOptions(
    reconnect_delay=0.02,
    max_reconnect_delay=0.1,
    requeue_delay=0.05,
    max_attempts=0,
    max_backoff_duration=0,
)
CONNECTION = nsq.ConnectionOptions(
    heartbeat_interval=1.0, msg_timeout=1.5, handshake_timeout=1.0, output_buffer_timeout=0.025
)
CUT_AFTER = 100 * 1024 + 7
"""An odd number, so that the cut goes through a frame."""


async def test_a_bad_connection_under_load(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "nsq_anyio.consumer")  # a handler that fails is an error
    nsqd = await cluster.nsqd("real", channels={"t": ["c"]})
    ledger = Ledger(fail_share=0.1, handler_seconds=0.001, size=200)
    events = Events()
    stop = anyio.Event()

    def on_event(event: nsq.events.Event) -> None:
        ledger.on_event(event)
        if isinstance(event, nsq.events.Subscribed | nsq.events.Disconnected):
            events(event)

    async def publish(producer: nsq.Producer) -> None:
        while not stop.is_set():
            if len(ledger.confirmed) - len(ledger.starts) < 2000:
                await ledger.publish(producer, "t", 100)
            await anyio.sleep(0.005)

    async def losses(count: int) -> None:
        """Wait for so many more of them, and a connection after the last."""
        already = len(events.of(nsq.events.Disconnected))
        lost = await events.wait_for(nsq.events.Disconnected, already + count)
        await events.wait_for(nsq.events.Subscribed, len(lost) + 1)

    started = anyio.current_time()
    async with (
        fault_proxy(nsqd.tcp_address) as proxy,
        nsq.produce(nsqd.tcp_address) as producer,
        nsq.consume(
            "t",
            "c",
            nsqd=proxy.address,
            max_in_flight=100,
            options=OPTIONS,
            connection=CONNECTION,
            on_event=on_event,
        ) as consumer,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(publish, producer)
        tasks.start_soon(partial(consumer.run, ledger.handle, concurrency=20))
        await ledger.more_starts(1000)

        proxy.to_client.delay = proxy.to_server.delay = 0.01
        await ledger.more_starts(500)
        proxy.to_client.delay = proxy.to_server.delay = 0
        proxy.to_client.piece = proxy.to_server.piece = 1
        await ledger.more_starts(40)
        proxy.to_client.piece = proxy.to_server.piece = CHUNK
        assert not events.of(nsq.events.Disconnected)  # slow is not lost

        proxy.to_client.cut_after = CUT_AFTER
        await losses(10)
        proxy.to_client.cut_after = None
        proxy.to_server.cut_after = CUT_AFTER // 10
        await losses(10)
        proxy.to_server.cut_after = None
        for _ in range(5):
            await ledger.more_starts(100)
            proxy.reset()
            await losses(1)
        for _ in range(2):
            await ledger.more_starts(100)
            already = len(events.of(nsq.events.Disconnected))
            proxy.stalled = True
            (*_, lost) = await events.wait_for(nsq.events.Disconnected, already + 1)
            proxy.stalled = False
            assert isinstance(lost.error, nsq.HeartbeatTimeout)
            await events.wait_for(nsq.events.Subscribed, already + 2)
        await ledger.more_starts(1000)

        stop.set()
        await ledger.settled()
        with capsys.disabled():
            print(  # noqa: T201 - for the log of CI
                f"\n{proxy.accepted} connections in {anyio.current_time() - started:.1f} s; {ledger}; "
                f"{ledger.duplicates} finished again; {consumer.statistics().late} answers late"
            )
        consumer.stop()
    ledger.check()
