"""A resolver that is silent: blocks that wait for a look-up end in time, and so does the program."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from socket import AI_NUMERICHOST, EAI_NONAME, gaierror, getaddrinfo
from typing import Any
from unittest import mock

import nsq_anyio as nsq

from ..interop.observe import until
from .loops import LOOPS, Loop, every_loop

SILENCE = 60.0
BOUND = 10.0
"""Seconds for the end of a block: far more than it takes, on a busy machine too."""

NAME = "nsq.invalid"
CONSUMER = nsq.ConsumerOptions(close_timeout=0.1, drain_timeout=0.1)
PRODUCER = nsq.ProducerOptions(drain_timeout=0.1, connect_timeout=0.3)
BY_NSQLOOKUPD = f"http://{NAME}:4161"
BY_NSQD = f"{NAME}:4150"

asked = threading.Event()


def silent(host: str | bytes, port: object, *arguments: int, **options: int) -> list[Any]:
    """As `socket.getaddrinfo`. Trio first asks whether the name is an address."""
    if host not in {NAME, NAME.encode()}:
        return getaddrinfo(host, port, *arguments, **options)  # type: ignore[arg-type]
    if not AI_NUMERICHOST & (arguments[3] if len(arguments) > 3 else 0):
        asked.set()
        time.sleep(SILENCE)
    raise gaierror(EAI_NONAME, "unknown")


async def until_asked() -> None:
    await until(asked.is_set, BOUND)


async def consume(*, nsqd: str | None = None, nsqlookupd: str | None = None) -> None:
    async with nsq.consume("t", "c", nsqd=nsqd, nsqlookupd=nsqlookupd, options=CONSUMER):
        await until_asked()


async def publish() -> None:
    async with nsq.produce(BY_NSQD, options=PRODUCER) as producer:
        try:
            await producer.publish("t", b"x")
        except nsq.NotSent:
            await until_asked()


async def produce() -> None:
    async with nsq.produce(nsqlookupd=BY_NSQLOOKUPD, options=PRODUCER):
        await until_asked()


async def embedded() -> None:
    async with nsq.embedded.nsqd(lookupd_tcp_addresses=[f"{NAME}:4160"]):
        await until_asked()


def consume_in_thread(backend: str) -> None:
    with nsq.sync.consume("t", "c", nsqd=BY_NSQD, options=CONSUMER, backend=backend):  # type: ignore[arg-type]
        assert asked.wait(BOUND)


def cells(loop: Loop) -> dict[str, Callable[[], None]]:
    """What a program may be doing while a look-up takes long."""
    return {
        "consume": lambda: loop.run(lambda: consume(nsqd=BY_NSQD)),
        "consume by nsqlookupd": lambda: loop.run(lambda: consume(nsqlookupd=BY_NSQLOOKUPD)),
        "publish": lambda: loop.run(publish),
        "produce by nsqlookupd": lambda: loop.run(produce),
        "embedded nsqd": lambda: loop.run(embedded),
        "sync.consume": lambda: consume_in_thread(loop.backend),
    }


def run_cells(loop: Loop) -> None:
    """Tell how many seconds each cell takes, in a line of JSON."""
    seconds: dict[str, float] = {}
    with mock.patch("socket.getaddrinfo", silent):
        for name, run in cells(loop).items():
            asked.clear()
            started = time.monotonic()
            run()
            seconds[name] = time.monotonic() - started
    sys.stdout.write(json.dumps(seconds))


@every_loop
def test_each_cell_and_the_program_end(loop: Loop) -> None:
    command = [sys.executable, "-W", "error", "-m", "tests.endings.test_silent_resolver", loop.name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SILENCE - BOUND)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    seconds: dict[str, float] = json.loads(done.stdout)
    assert len(seconds) == len(cells(loop))
    assert {name: each for name, each in seconds.items() if each > BOUND} == {}


if __name__ == "__main__":
    run_cells(next(each.values[0] for each in LOOPS if each.id == sys.argv[1]))  # type: ignore[arg-type]
