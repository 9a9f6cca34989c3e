"""A ledger over the life of a query: nsqds leave, move and come back, and workers and drivers are killed.

On a cluster with speculation. It takes many minutes, so it runs only with ``NSQ_ANYIO_LEDGER=short``, or with
``NSQ_ANYIO_LEDGER=long``: 500,000 messages and twenty kills of each kind.
"""

from __future__ import annotations

import os
import random
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal

from ...real_servers import RealServer, real_nsqlookupd
from ..cluster import Cluster
from ..nsqds import Nsqd, Topic, running_nsqd, wait_until
from .faults import Fault, Faults, Point
from .program import running_driver
from .query import Query

LEDGER = os.environ.get("NSQ_ANYIO_LEDGER")
IS_LONG = LEDGER == "long"
MESSAGES = 500_000 if IS_LONG else 12_000
KILLS = 20 if IS_LONG else 3
NSQDS = 4

pytestmark = [
    pytest.mark.timeout(7_200 if IS_LONG else 1_200),
    pytest.mark.skipif(not LEDGER, reason="takes many minutes: set NSQ_ANYIO_LEDGER to short or long"),
]

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "100ms",
}

IN_WORKERS: list[Point] = ["link", "linked", "filled"]
IN_DRIVERS: list[Point] = ["linked", "filled", "sink", "sunk", "commit", "committed"]


class Place:
    """An nsqd that keeps its messages on disk, wherever it runs."""

    def __init__(self, directory: Path, lookupd: RealServer) -> None:
        directory.mkdir()
        self.running: Nsqd | None = None
        self._stack = ExitStack()
        self._flags = [
            f"--data-path={directory}",
            f"--lookupd-tcp-address={lookupd.tcp_address}",
            "--broadcast-address=127.0.0.1",
            "--mem-queue-size=100",
        ]
        self._last: list[str] = []

    @property
    def nsqd(self) -> Nsqd:
        assert self.running is not None
        return self.running

    def start(self, *, at_its_old_address: bool = False) -> None:
        flags = self._last if at_its_old_address else []
        self.running = self._stack.enter_context(running_nsqd("real", [*self._flags, *flags]))
        self._last = [
            f"--tcp-address={self.running.tcp_address}",
            f"--http-address={self.running.http_address}",
        ]

    def stop(self) -> None:
        self._stack.close()
        self.running = None


@contextmanager
def places(directory: Path) -> Generator[tuple[str, list[Place]]]:
    """Run the nsqds, and an nsqlookupd that knows them; its URL and them."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(real_nsqlookupd()) as lookupd:
        found = [Place(directory / f"nsqd-{number}", lookupd) for number in range(NSQDS)]
        try:
            for place in found:
                place.start()
            yield lookupd.http_url, found
        finally:
            for place in found:
                place.stop()


def test_every_message_is_in_the_sink_or_still_waits(spark_cluster: Cluster, tmp_path: Path) -> None:
    rng = random.Random(11)
    with places(tmp_path) as (nsqlookupd, found):
        topics = [place.nsqd.topic("ledger") for place in found]
        batch = max(1_000, MESSAGES // (4 * KILLS))
        query = Query.of(
            topics[0],
            tmp_path,
            nsqlookupd=nsqlookupd,
            maxRowsPerBatch=batch,
            minPartitions=4,
            connectTimeout=3,
        )
        published = 0

        def publish(count: int) -> None:
            nonlocal published
            running = [place for place in found if place.running]
            for place in running:
                some = count // len(running)
                Topic(place.nsqd, "ledger", "spark").publish_numbers(some, first=published)
                published += some

        def run(faults: Faults, number: int, *moves: Place) -> int:
            """Run the query once; meanwhile these nsqds go, when it has begun to read."""
            task = query.task(spark_cluster.master, faults, {**spark_cluster.config, **SPECULATION})
            with running_driver(task, tmp_path / f"log-{number}") as driver:
                before = query.chunks()
                wait_until(
                    lambda: driver.process.poll() is not None or query.chunks() - before, "a chunk", 400
                )
                for place in moves:
                    place.stop()
                return driver.wait(900)

        leavers = found[-1:]  # one that never comes back
        for number in range(KILLS):
            publish(MESSAGES // KILLS)
            directory = tmp_path / f"faults-{number}"
            directory.mkdir()
            faults = Faults(
                str(directory),
                (
                    Fault(rng.choice(IN_WORKERS), "worker", time=1),
                    Fault(rng.choice(IN_DRIVERS), "driver", time=1),
                ),
            )
            moving = leavers if number == 1 else [found[number % (NSQDS - 1)]]
            run(faults, number, *moving)
            for place in moving:
                if place not in leavers:
                    place.start(at_its_old_address=number % 2 == 0)
        for number in range(KILLS, KILLS + 6):
            if run(Faults(str(tmp_path / "faults")), number) == 0 and not any(map(left, found)):
                break
        # What the one that has left holds is not lost: it waits there.
        for place in leavers:
            place.start()
        waiting = {
            int(body) for place in leavers for body in Topic(place.nsqd, "ledger", "spark").take(left(place))
        }
        stored = {row.number for row in query.ledger().rows}
    lost = set(range(published)) - stored - waiting
    assert not lost, f"{len(lost)} of {published} lost, such as {sorted(lost)[:10]}; {query.ledger()}"
    assert not stored - set(range(published))
    assert waiting, "the one that left took some with it"


def left(place: Place) -> int:
    """What waits at an nsqd that runs."""
    if place.running is None:
        return 0
    topic = Topic(place.nsqd, "ledger", "spark")
    wait_until(lambda: topic.state().in_flight == 0, "nsqd to take back what was in flight", 60)
    return topic.state().left
