"""``to-http`` and ``to-nsq`` killed in the middle of their work, again and again: nothing is lost."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial

import anyio
import pytest

import nsq_anyio as nsq

from ..cli.forwarders import Answer, Request, flags, http_sink
from ..processes import ending
from .cluster import Cluster, Kind, Server
from .observe import until, until_told

pytestmark = pytest.mark.anyio

MESSAGES = 2000
KILLS = 4
MSG_TIMEOUT = "1s"
"""nsqd gives what a killed consumer held to the next one only after this."""


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    """Of the command; the tests themselves do nothing that depends on theirs."""
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


async def killed_in_the_middle(
    arguments: Sequence[str], arrived: Callable[[], int], is_source_empty: Callable[[], Awaitable[bool]]
) -> None:
    """Run a command, killing it whenever some more messages have arrived, until it has done its work.

    :param is_source_empty: also of what a killed one held, which nsqd gives out again after its timeout
    """
    for _ in range(KILLS):
        async with running(arguments) as process:
            await until(partial(_have_arrived, arrived, arrived() + MESSAGES // 10), 30.0)
            assert not await is_source_empty()
            process.kill()
    async with running(arguments) as process:
        await until_told(is_source_empty, 45.0)
        process.terminate()
        assert await process.wait() == 0


def _have_arrived(arrived: Callable[[], int], enough: int) -> bool:
    return arrived() >= enough


@asynccontextmanager
async def running(arguments: Sequence[str]) -> AsyncGenerator[anyio.abc.Process]:
    command = [sys.executable, "-m", "nsq_anyio", *arguments]
    process = await anyio.open_process(command, stdout=None, stderr=subprocess.DEVNULL)
    async with ending(process):
        yield process


async def publish(nsqd: Server, topic: str) -> set[bytes]:
    bodies = [b"%d" % number for number in range(MESSAGES)]
    await nsqd.publish(topic, *bodies)
    return set(bodies)


async def is_empty(nsqd: Server, topic: str, channel: str) -> bool:
    found = await nsqd.channel(topic, channel)
    return found.depth == found.in_flight_count == found.deferred_count == 0


@pytest.mark.timeout(150)
async def test_to_http(cluster: Cluster, nsqd_kind: Kind, backend: str, topic: str) -> None:
    def answer(_request: Request) -> Answer:
        time.sleep(0.002)  # in a thread of its own: a server that takes its time
        return 200, {}

    nsqd = await cluster.nsqd(nsqd_kind, channels={topic: ["nsq_to_http"]})
    published = await publish(nsqd, topic)
    with http_sink(answer) as sink:
        arguments = flags(
            topic=topic,
            nsqd_tcp_address=nsqd.tcp_address,
            post=sink.url,
            max_in_flight="50",
            consumer_opt=[f"msg_timeout,{MSG_TIMEOUT}", "requeue_delay,100ms"],
            backend=backend,
        )
        await killed_in_the_middle(
            ["to-http", *arguments, "-n", "20"],
            lambda: len(sink.requests),
            lambda: is_empty(nsqd, topic, "nsq_to_http"),
        )
        assert set(sink.bodies) == published


@pytest.mark.timeout(150)
async def test_to_nsq(cluster: Cluster, nsqd_kind: Kind, backend: str, topic: str) -> None:
    source = await cluster.nsqd(nsqd_kind, channels={topic: ["nsq_to_nsq"]})
    destination = await cluster.nsqd(nsqd_kind, channels={topic: ["ledger"]})
    published = await publish(source, topic)
    arrived: list[bytes] = []

    async def note(message: nsq.Message) -> None:
        arrived.append(message.body)

    arguments = flags(
        topic=topic,
        nsqd_tcp_address=source.tcp_address,
        destination_nsqd_tcp_address=destination.tcp_address,
        # Few at a time, so that a kill comes in the middle.
        max_in_flight="10",
        consumer_opt=[f"msg_timeout,{MSG_TIMEOUT}", "requeue_delay,100ms"],
        backend=backend,
    )
    async with (
        nsq.consume(topic, "ledger", nsqd=destination.tcp_address, max_in_flight=200) as consumer,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(consumer.run, note)
        await killed_in_the_middle(
            ["to-nsq", *arguments], lambda: len(arrived), lambda: is_empty(source, topic, "nsq_to_nsq")
        )
        await until_told(lambda: is_empty(destination, topic, "ledger"))
        tasks.cancel_scope.cancel()
    assert set(arrived) == published
