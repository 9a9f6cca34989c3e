"""The event loop ends while a consumer runs in another task: its messages are handed back all the same."""

from __future__ import annotations

import json
import subprocess
import sys

import anyio
import pytest

from ..tls_files import TLSFiles, tls_files
from .cluster import Cluster, Kind, Server
from .observe import until_told

__all__ = ["tls_files"]

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

PROGRAM = """
import asyncio, json, sys
import nsq_anyio as nsq

ADDRESS, HOW, LOOP, COUNT, LAYERS = *sys.argv[1:4], int(sys.argv[4]), json.loads(sys.argv[5])
if "tls" in LAYERS:
    LAYERS["tls"] = nsq.TLSOptions(ca_file=LAYERS["tls"])
CONNECTION = nsq.ConnectionOptions(**LAYERS)

async def main():
    held = asyncio.Event()
    started = 0

    async def handle(message):
        nonlocal started
        started += 1
        if started == COUNT - COUNT // 2:
            held.set()
            if HOW == "sys.exit":
                await until_all_are_here()
                sys.exit(3)
        await asyncio.sleep(60)

    async def until_all_are_here():
        while consumer.in_flight < COUNT:
            await asyncio.sleep(0.01)

    async def consume():
        nonlocal consumer
        async with nsq.consume(
            "t", "c", nsqd=ADDRESS, max_in_flight=COUNT, connection=CONNECTION
        ) as consumer:
            await consumer.run(handle, concurrency=COUNT - COUNT // 2)

    consumer = None
    global task
    task = asyncio.ensure_future(consume())
    await held.wait()
    await until_all_are_here()
    if HOW == "sys.exit":
        await asyncio.sleep(60)

if LOOP == "uvloop":
    import uvloop
    uvloop.run(main())
else:
    asyncio.run(main())
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize(("how", "status"), [("main returns", 0), ("sys.exit", 3)])
@pytest.mark.parametrize("count", [1, 50])
async def test_the_loop_ends_first(
    cluster: Cluster, nsqd_kind: Kind, how: str, status: int, loop: str, count: int
) -> None:
    nsqd = await cluster.nsqd(nsqd_kind, channels={"t": ["c"]})
    await run_to_its_end(nsqd, how, loop, count, {}, status)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("layers", [("tls",), ("snappy",), ("deflate",), ("tls", "deflate")], ids="-".join)
async def test_the_loop_ends_first_over_layers(
    cluster: Cluster, nsqd_kind: Kind, loop: str, layers: tuple[str, ...], tls_files: TLSFiles
) -> None:
    nsqd = await cluster.nsqd(
        nsqd_kind,
        channels={"t": ["c"]},
        tls_cert=tls_files.certificate_file,
        tls_key=tls_files.private_key_file,
    )
    options = {layer: tls_files.ca_file if layer == "tls" else True for layer in layers}
    await run_to_its_end(nsqd, "main returns", loop, 50, options, 0)


async def run_to_its_end(
    nsqd: Server, how: str, loop: str, count: int, layers: dict[str, str | bool], status: int
) -> None:
    """Run the program, and see that nsqd has all messages back at once."""
    await nsqd.publish("t", *[b"x"] * 50)
    command = [sys.executable, "-c", PROGRAM, nsqd.tcp_address, how, loop, str(count), json.dumps(layers)]
    with anyio.fail_after(30):
        ended = await anyio.run_process(command, check=False, stderr=subprocess.PIPE)
    assert ended.returncode == status, ended.stderr.decode()

    async def all_are_back() -> bool:
        channel = await nsqd.channel("t", "c")
        return channel.in_flight_count == 0 and channel.depth + channel.deferred_count == 50

    await until_told(all_are_back, 5)
