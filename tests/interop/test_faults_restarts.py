"""Nothing is lost while one nsqd after the other is restarted under load, and handlers fail."""

from __future__ import annotations

import logging
import os
from functools import partial
from pathlib import Path

import anyio
import pytest

import nsq_anyio as nsq

from .cluster import Cluster, Server
from .ledger import Ledger
from .observe import Events

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"]),
    pytest.mark.timeout(300),
]

MESSAGES = int(os.environ.get("NSQ_ANYIO_FAULT_MESSAGES", "200000"))
"""Fewer, as this variable says, on a machine that is too slow for so many in a minute."""
NSQDS = 5
PUBLISHERS = 10
BATCH = 100
PUBLISHED_IN = 15.0
"""Seconds over which the messages are published, so that every nsqd is restarted meanwhile."""
RESTART_EVERY = 3.0
SETTLED_IN = 200.0

CONSUMING = nsq.ConsumerOptions(
    lookupd_poll_interval=0.3,
    requeue_delay=0.05,
    max_attempts=0,
    max_backoff_duration=0,
)
PRODUCING = nsq.ProducerOptions(reconnect_delay=0.05, max_reconnect_delay=0.2)


async def test_rolling_restarts_under_load(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "nsq_anyio.consumer")  # a handler that fails is an error
    lookupds = [await cluster.nsqlookupd("real") for _ in range(2)]
    paths = [tmp_path / str(number) for number in range(NSQDS)]
    nsqds: list[Server] = []
    for path in paths:
        path.mkdir()
        nsqds.append(await cluster.nsqd("real", lookupds=lookupds, data_path=path, channels={"t": ["c"]}))
    ledger = Ledger(fail_share=0.1, handler_seconds=0.0035)
    events = Events()
    restarts = 0
    published = anyio.Event()
    started = anyio.current_time()

    async def restart(place: int) -> None:
        nonlocal restarts
        await nsqds[place].stop()
        nsqds[place] = await cluster.nsqd(
            "real", lookupds=lookupds, data_path=paths[place], succeeding=nsqds[place]
        )
        restarts += 1

    async def keep_restarting() -> None:
        while not published.is_set() or restarts < NSQDS:
            await anyio.sleep(RESTART_EVERY)
            await restart(restarts % NSQDS)

    async def publish(producer: nsq.Producer, batches: int) -> None:
        for batch in range(batches):
            await ledger.publish(producer, "t", BATCH)
            await anyio.sleep_until(started + (batch + 1) * PUBLISHED_IN / batches)

    def on_consumer_event(event: nsq.events.Event) -> None:
        ledger.on_event(event)
        if isinstance(event, nsq.events.Disconnected | nsq.events.GaveUp):
            events(event)

    addresses = [nsqd.tcp_address for nsqd in nsqds]
    async with (
        nsq.produce(addresses, options=PRODUCING) as producer,
        nsq.consume(
            "t",
            "c",
            nsqlookupd=[lookupd.http_url for lookupd in lookupds],
            max_in_flight=500,
            options=CONSUMING,
            on_event=on_consumer_event,
        ) as consumer,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(partial(consumer.run, ledger.handle, concurrency=50))
        async with anyio.create_task_group() as faults:
            faults.start_soon(keep_restarting)
            async with anyio.create_task_group() as publishing:
                for _ in range(PUBLISHERS):
                    publishing.start_soon(publish, producer, MESSAGES // PUBLISHERS // BATCH)
            published.set()
        quiet = anyio.current_time()
        await ledger.settled(SETTLED_IN)
        with capsys.disabled():
            print(  # noqa: T201 - for the log of CI
                f"\n{restarts} restarts in {quiet - started:.1f} s, settled "
                f"{anyio.current_time() - quiet:.1f} s later; {ledger}; "
                f"{ledger.duplicates} finished again; {consumer.statistics().late} answers late"
            )
        consumer.stop()
    ledger.check()
    assert len(ledger.confirmed) >= MESSAGES - MESSAGES % (PUBLISHERS * BATCH)
    assert len(events.of(nsq.events.Disconnected)) >= NSQDS
    assert not events.of(nsq.events.GaveUp)
