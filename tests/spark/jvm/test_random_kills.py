"""Drivers, executors and workers are killed (SIGKILL) at random moments, twenty of them a storage.

This takes many minutes, so it runs only with ``NSQ_ANYIO_LEDGER=long``. The kills at chosen steps, of
`test_kill_elsewhere` and `test_kill_tasks`, are its short form.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from nsq_anyio.storage.place import Place

from ..cluster import Cluster
from ..nsqds import Topic, wait_until
from ..processes import Program, children, command_line
from ..storages import for_executors
from .program import running_driver
from .query import Query

pytestmark = [
    pytest.mark.timeout(3_600),
    pytest.mark.skipif(
        os.environ.get("NSQ_ANYIO_LEDGER") != "long",
        reason="takes many minutes: set NSQ_ANYIO_LEDGER to long",
    ),
]

KILLS = 20
MESSAGES = 4_000
"""For each run of the query, which reads them in batches of 500."""

LONGEST = 4.0
"""Seconds from the first chunk of a run to its kill, at most."""

MOST_RUNS = 60
VICTIMS = ("driver", "executor", "worker")


class Killed:
    """Runs a query again and again, and kills one of its processes in each run, until enough are killed."""

    def __init__(self, query: Query, cluster: Cluster, directory: Path) -> None:
        self.kills: list[str] = []
        self._query = query
        self._cluster = cluster
        self._directory = directory
        self._runs = 0
        self._rng = random.Random(19)
        self._config = {**cluster.config, **for_executors()}

    def run(self, victim: str | None) -> None:
        """Run the query once; without a victim, nothing is killed and the query must succeed."""
        self._runs += 1
        task = self._query.task(self._cluster.master, self._query.faults(), self._config)
        before = self._query.chunks()
        with running_driver(task, self._directory / f"log-{self._runs}") as driver:
            if victim is not None:
                wait_until(
                    lambda: driver.process.poll() is not None or self._query.chunks() - before, "a chunk", 120
                )
                # Not a wait for something: it is the moment that is random.
                time.sleep(self._rng.uniform(0, LONGEST))
                self._kill(victim, driver)
            code = driver.wait()
            killed = victim == "driver" and code == -signal.SIGKILL
            assert code == 0 or killed, f"{victim}: {code}\n{driver.tail}"

    def settle(self) -> None:
        """Wait until nobody reads any more: executors outlive their driver for a moment."""
        wait_until(lambda: not list(self._executors()), "the executors to end", 120)
        wait_until(lambda: self._query.topic.state().in_flight == 0, "nsqd to take back what was in flight")

    def _kill(self, victim: str, driver: Program) -> None:
        if driver.process.poll() is not None:
            return
        if victim == "driver":
            driver.kill()
            self.kills.append(victim)
            return
        found = list(self._executors() if victim == "executor" else self._workers())
        if found:
            # One that has ended meanwhile was not killed.
            with suppress(ProcessLookupError):
                os.kill(self._rng.choice(found), signal.SIGKILL)
                self.kills.append(victim)

    def _executors(self) -> Iterator[int]:
        for worker in children(os.getpid()):
            if self._cluster.master in command_line(worker):
                for executor in children(worker):
                    if any(part.endswith("CoarseGrainedExecutorBackend") for part in command_line(executor)):
                        yield executor

    def _workers(self) -> Iterator[int]:
        for executor in self._executors():
            for daemon in children(executor):
                yield from children(daemon)


@pytest.mark.parametrize("store", ["posix", "s3", "hdfs"], indirect=True)
def test_nothing_is_lost_whenever_it_is_killed(
    store: Place,
    spark_cluster: Cluster,
    real_topic: Topic,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    directory = tmp_path / "query"
    spool = {} if store == tmp_path else {"spoolDir": str(store)}
    query = Query.of(real_topic, directory, maxRowsPerBatch=500, **spool)
    killed = Killed(query, spark_cluster, tmp_path)
    published = 0
    for number in range(MOST_RUNS):
        if len(killed.kills) == KILLS:
            break
        killed.settle()
        real_topic.publish_numbers(MESSAGES, first=published)
        published += MESSAGES
        killed.run(VICTIMS[number % len(VICTIMS)])
    assert len(killed.kills) == KILLS
    for _ in range(6):
        killed.settle()
        if real_topic.state().left == 0:
            break
        killed.run(None)
    assert real_topic.state().left == 0
    ledger = query.ledger()
    ledger.check(range(published))
    counted = ", ".join(f"{killed.kills.count(each)} x {each}" for each in VICTIMS)
    with capsys.disabled():
        print(f"\nkilled {counted}; {published} published: {ledger}")  # noqa: T201 - the figures
