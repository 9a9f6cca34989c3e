"""The commands that forward, and their counterparts of NSQ."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import anyio

from ..cli.forwarders import flags
from ..processes import ending
from ..real_servers import program
from .cluster import Server
from .observe import until_told

TOOLS = ("go", "ours")


def command(tool: str, name: str) -> Sequence[str]:
    """nsq_``name`` of Go, or ours."""
    if tool == "go":
        return [str(program(f"nsq_{name.replace('-', '_')}"))]
    return [sys.executable, "-m", "nsq_anyio", name]


async def forward(
    nsqd: Server, topic: str, channel: str, count: int, *arguments: str, one_by_one: Sequence[bytes] = ()
) -> None:
    """Run a command until a channel is empty after so many messages.

    :param one_by_one: published meanwhile, each when the channel is empty after the one before
    """

    async def is_done(count: int) -> bool:
        found = await nsqd.channel(topic, channel)
        left = found.depth + found.in_flight_count + found.deferred_count
        return (found.message_count, left) == (count, 0)

    source = flags(topic=topic, channel=channel, nsqd_tcp_address=nsqd.tcp_address)
    async with running(*arguments, *source):
        for number, body in enumerate(one_by_one):
            await until_told(partial(is_done, number), 30)
            await nsqd.publish(topic, body)
        await until_told(partial(is_done, count), 30)  # Go backs off, and the machine may be busy


@asynccontextmanager
async def running(*arguments: str) -> AsyncGenerator[None]:
    """A process that ends well when it is told to."""
    process = await anyio.open_process(arguments, stdout=None, stderr=subprocess.DEVNULL)
    async with ending(process):
        yield
        process.terminate()
        with anyio.fail_after(15):
            assert await process.wait() == 0
