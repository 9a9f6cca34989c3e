"""What busy polling takes from the other tasks of its event loop: ``python -m tests.benchmarks.fairness``.

A task works with round trips: it consumes at RDY 1, or publishes one message after another. Beside it, a
ticker wants a turn each millisecond, and a hundred tasks may nap again and again and count their turns. The
real nsqd runs on a core of its own.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass
from itertools import product
from typing import Any

import anyio
from rich.console import Console
from rich.table import Table

import nsq_anyio as nsq

from .nsqds import Nsqds, running_nsqds
from .surroundings import TWO_CORES, pinned_to

BACKENDS: dict[str, dict[str, Any]] = {
    "asyncio": {"backend": "asyncio"},
    "uvloop": {"backend": "asyncio", "backend_options": {"use_uvloop": True}},
    "trio": {"backend": "trio"},
}
WORK = ("consume", "publish")
OTHERS = 100
_TICK = 0.001
_NAP = 0.0005
_FASTEST = 40_000
"""Messages a second; a topic holds enough for this."""


@dataclass(frozen=True, slots=True)
class Turns:
    """What the tasks got done.

    :ivar late: by how many seconds the ticker ran late, but for one in a hundred times
    :ivar turns: of the napping tasks and the ticker, a second
    :ivar rate: messages a second
    """

    late: float
    turns: float
    rate: float


async def measure(
    nsqd: str, topic: str, *, work: str, others: int, busy_poll: float, seconds: float
) -> Turns:
    """Let all tasks run for some seconds, after a short warm-up.

    :param nsqd: its address; for the work "consume", its channel ``work`` of the topic is full
    :param busy_poll: the option of that name
    """
    connection = nsq.ConnectionOptions(busy_poll=busy_poll)
    worked = turns = 0
    late: list[float] = []

    async def tick() -> None:
        nonlocal turns
        while True:
            due = time.perf_counter() + _TICK
            await anyio.sleep(_TICK)
            late.append(time.perf_counter() - due)
            turns += 1

    async def nap() -> None:
        nonlocal turns
        while True:
            await anyio.sleep(_NAP)
            turns += 1

    async def consume() -> None:
        nonlocal worked
        async with nsq.consume(topic, "work", nsqd=nsqd, max_in_flight=1, connection=connection) as consumer:
            async for message in consumer:
                message.finish()
                worked += 1

    async def publish() -> None:
        nonlocal worked
        async with nsq.produce(nsqd=nsqd, connection=connection) as producer:
            while True:
                await producer.publish(topic, b"." * 100)
                worked += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon({"consume": consume, "publish": publish}[work])
        tasks.start_soon(tick)
        for _ in range(others):
            tasks.start_soon(nap)
        await anyio.sleep(0.3)
        late.clear()
        began_at, worked_before, turns_before = time.perf_counter(), worked, turns
        await anyio.sleep(seconds)
        took = time.perf_counter() - began_at
        found = Turns(
            statistics.quantiles(late, n=100)[-1],
            (turns - turns_before) / took,
            (worked - worked_before) / took,
        )
        tasks.cancel_scope.cancel()
        return found
    raise AssertionError("the tasks end when they are cancelled")


def filled(nsqds: Nsqds, work: str, seconds: float) -> str:
    """Make a topic with enough messages, or for the work "publish" an empty one, and return its name."""
    topic = f"fairness-{time.monotonic_ns()}"
    if work == "consume":
        nsqds.create(topic, "work")
        nsqds.fill(topic, "work", round(_FASTEST * (seconds + 0.5)), 100)
    else:
        nsqds.create(topic, "")
    return topic


def _measured(nsqds: Nsqds, backend: str, seconds: float, *, work: str, **more: Any) -> Turns:
    topic = filled(nsqds, work, seconds)
    (address,) = nsqds.addresses

    async def run() -> Turns:
        return await measure(address, topic, seconds=seconds, work=work, **more)

    with pinned_to(TWO_CORES.cores(TWO_CORES.client)):
        return anyio.run(run, **BACKENDS[backend])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--busy-poll", type=float, default=nsq.ConnectionOptions().busy_poll, metavar="S")
    parser.add_argument("--backend", choices=BACKENDS, action="append")
    arguments = parser.parse_args()
    console = Console()
    table = Table("loop", "work", "others", "busy_poll, µs", "ticker's p99, ms", "turns/s", "msg/s")
    for backend, work, others in product(arguments.backend or ("asyncio", "trio"), WORK, (0, OTHERS)):
        samples: dict[float, list[Turns]] = {0.0: [], arguments.busy_poll: []}
        for _ in range(arguments.rounds):
            for busy_poll, found in samples.items():
                with running_nsqds(cores=TWO_CORES.cores(TWO_CORES.servers)) as nsqds:
                    more = {"others": others, "busy_poll": busy_poll}
                    found.append(_measured(nsqds, backend, arguments.seconds, work=work, **more))
        for busy_poll, found in samples.items():
            late, turns, rate = (
                statistics.median(getattr(each, field) for each in found)
                for field in ("late", "turns", "rate")
            )
            row = f"{busy_poll * 1e6:.0f}", f"{late * 1e3:.2f}", f"{turns:,.0f}", f"{rate:,.0f}"
            table.add_row(backend, work, str(others), *row)
    console.print(table)


if __name__ == "__main__":
    main()
