"""Nothing is lost by a blocking handler in threads that fails now and then, while an nsqd is restarted."""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from functools import partial
from pathlib import Path

import anyio
import pytest

import nsq_anyio as nsq

from .cluster import Cluster
from .ledger import Failing, Ledger, number_in

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"]),
    pytest.mark.timeout(300),
]

MESSAGES = int(os.environ.get("NSQ_ANYIO_BLOCKING_MESSAGES", "20000"))
"""100000 by hand; fewer where each run of the tests pays for them."""
THREADS = 16
HANDLER_SECONDS = 0.005
BATCH = 100
SETTLED_IN = 200.0
CONSUMING = nsq.ConsumerOptions(
    reconnect_delay=0.05, max_reconnect_delay=0.2, requeue_delay=0.05, max_attempts=0, max_backoff_duration=0
)
PRODUCING = nsq.ProducerOptions(reconnect_delay=0.05, max_reconnect_delay=0.2)


class ThreadLedger(Ledger):
    """A ledger whose handler is a plain function.

    :ivar threads: the most of them that were at work at once
    """

    def __init__(self) -> None:
        super().__init__()
        self.threads = 0
        self._lock = threading.Lock()
        self._at_work = 0
        self._chance = random.Random(2)

    def handle_in_thread(self, message: nsq.Message) -> None:
        """Note the start and how it ends; one in twenty fails, and one in twenty answers from here."""
        with self._lock:
            self._at_work += 1
            self.threads = max(self.threads, self._at_work)
            self.starts[number_in(message.body)] += 1
            chance = self._chance.random()
        try:
            time.sleep(HANDLER_SECONDS)
            if chance < 0.05:
                with self._lock:
                    self.failures += 1
                raise Failing
            with self._lock:
                self.note_success(message)
            if chance < 0.1:
                message.touch()
                message.finish()
        finally:
            with self._lock:
                self._at_work -= 1


async def test_a_blocking_handler_loses_nothing(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "nsq_anyio.consumer")  # a handler that fails is an error
    paths = [tmp_path / str(number) for number in range(2)]
    for path in paths:
        path.mkdir()
    nsqds = [await cluster.nsqd("real", data_path=path, channels={"t": ["c"]}) for path in paths]
    addresses = [nsqd.tcp_address for nsqd in nsqds]
    ledger = ThreadLedger()
    async with (
        nsq.produce(addresses, options=PRODUCING) as producer,
        nsq.consume(
            "t", "c", nsqd=addresses, max_in_flight=200, options=CONSUMING, on_event=ledger.on_event
        ) as consumer,
        anyio.create_task_group() as tasks,
    ):
        await consumer.ready()
        started = anyio.current_time()
        tasks.start_soon(partial(consumer.run, ledger.handle_in_thread, concurrency=THREADS))
        for batch in range(MESSAGES // BATCH):
            await ledger.publish(producer, "t", BATCH)
            if batch == MESSAGES // BATCH // 2:
                await nsqds[1].stop()
                nsqds[1] = await cluster.nsqd("real", data_path=paths[1], succeeding=nsqds[1])
        published = anyio.current_time()
        await ledger.settled(SETTLED_IN)
        with capsys.disabled():
            print(  # noqa: T201 - for the log of CI
                f"\npublished in {published - started:.1f} s, settled "
                f"{anyio.current_time() - published:.1f} s later, {ledger.threads} threads at most; "
                f"{ledger}; "
                f"{ledger.duplicates} finished again; {consumer.statistics().late} answers late"
            )
        consumer.stop()
    ledger.check()
    assert len(ledger.confirmed) >= MESSAGES - MESSAGES % BATCH
    assert ledger.threads == THREADS
