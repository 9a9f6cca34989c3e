"""Dead letters on a real nsqd: they die, are listed and retried, and kill -9 loses none of them."""

from __future__ import annotations

import json
import subprocess

import anyio
import pytest

import nsq_anyio as nsq

from ..cli.processes import COMMAND
from ..processes import ending
from .cluster import Cluster
from .observe import until_told

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]

MESSAGES = 10_000
LONG = 120.0
"""Seconds: ten thousand messages on a busy machine."""


def command(name: str, address: str, *more: str) -> list[str]:
    at = ["--topic=t.dead", f"--nsqd-tcp-address={address}", "--consumer-opt=msg_timeout,5s"]
    return [*COMMAND, "dead-letter", name, *at, *more]


async def discard(message: nsq.Message) -> None:
    """A handler."""
    raise nsq.Discard("no such user")


async def test_killed_in_the_middle_of_a_retry(cluster: Cluster) -> None:
    nsqd = await cluster.nsqd("real", channels={"t": ["c"], "t.dead": ["dead-letter"]})
    address = nsqd.tcp_address
    bodies = {b"message %d" % number for number in range(MESSAGES)}

    async def depth(topic: str, channel: str) -> int:
        found = await nsqd.channel(topic, channel)
        return found.depth + found.in_flight_count + found.deferred_count

    async with nsq.produce(address) as producer:
        ordered = sorted(bodies)
        await producer.publish_many("t", ordered[::2])
        await producer.publish_many("t", ordered[1::2], headers={"traceparent": "00-1"})
        async with (
            nsq.consume("t", "c", nsqd=address, max_in_flight=2000, dead_letter="{topic}.dead") as consumer,
            anyio.create_task_group() as tasks,
        ):

            async def run() -> None:
                await consumer.run(discard, concurrency=200)

            async def all_are_dead() -> bool:
                return await depth("t", "c") == 0

            tasks.start_soon(run)
            await until_told(all_are_dead, LONG)
            consumer.stop()
    assert await depth("t.dead", "dead-letter") == MESSAGES

    # List: all are seen, none is taken.
    with anyio.fail_after(LONG):
        listed = await anyio.run_process(command("list", address, "--json", "--limit=0"))
    assert len({json.loads(line)["id"] for line in listed.stdout.splitlines()}) == MESSAGES
    assert await depth("t.dead", "dead-letter") == MESSAGES

    # Retry, and kill -9 in the middle.
    process = await anyio.open_process(
        command("retry", address), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    async with ending(process):

        async def some_are_retried() -> bool:
            return await depth("t", "c") > MESSAGES / 10

        await until_told(some_are_retried)
        process.kill()
        await process.wait()
    left = await depth("t.dead", "dead-letter")
    assert 0 < left < MESSAGES

    # Retry again, until nsqd has delivered also what the killed one held.
    async def none_is_left() -> bool:
        done = await anyio.run_process(command("retry", address, "--json"))
        assert json.loads(done.stdout)["left"] == 0
        return await depth("t.dead", "dead-letter") == 0

    await until_told(none_is_left, LONG)
    retried = await depth("t", "c")
    assert retried >= MESSAGES

    seen: set[bytes] = set()
    with anyio.fail_after(LONG):
        async with nsq.consume("t", "c", nsqd=address, max_in_flight=2000) as consumer:
            for _ in range(retried):
                message = await anext(consumer)
                message.finish()
                seen.add(message.payload)
                number = int(message.payload.split()[1])
                assert dict(message.headers) in ({}, {"traceparent": "00-1"}), number
    assert seen == bodies
