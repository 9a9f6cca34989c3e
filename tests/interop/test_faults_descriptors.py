"""A process that runs out of file descriptors goes on once there are some, and does not spin until then."""

from __future__ import annotations

import subprocess
import sys
from contextlib import AsyncExitStack
from http import HTTPStatus

import anyio
import httpx
import pytest
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

import nsq_anyio as nsq
from nsq_anyio.testing.faults import fault_proxy

from ..processes import ending
from .cluster import Cluster
from .descriptors import LIMIT

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
    pytest.mark.parametrize("loop", ["asyncio", "uvloop", "trio"]),
    pytest.mark.skipif(sys.platform == "win32", reason="it has no limit of descriptors"),
]

COMMAND = [sys.executable, "-W", "error", "-m", "tests.interop.descriptors"]


class Output:
    """What the program says."""

    def __init__(self, process: Process) -> None:
        assert process.stdout is not None
        self._stream = BufferedByteReceiveStream(process.stdout)

    async def line(self) -> str:
        return (await self._stream.receive_until(b"\n", 1_000)).decode()


async def test_a_client_without_descriptors(cluster: Cluster, loop: str) -> None:
    nsqlookupd = await cluster.nsqlookupd("real")
    nsqd = await cluster.nsqd("real", lookupds=[nsqlookupd], channels={"t": ["c", "d"]})
    async with fault_proxy(nsqd.tcp_address) as proxy:
        with anyio.fail_after(50):
            process = await anyio.open_process(
                [*COMMAND, loop, "client", proxy.address, nsqlookupd.http_url], stderr=None
            )
            async with ending(process):
                output = Output(process)
                assert await output.line() == "exhausted"
                proxy.cut()
                assert process.stdin is not None
                await process.stdin.send(b"go on\n")
                assert await output.line() == "NotSent True"
                assert await output.line() == "idle"
                assert await output.line() == "DialFailed: True"
                assert await output.line() == "after"
                assert await output.line() == "after"
                assert await process.wait() == 0


async def test_servers_without_descriptors(loop: str) -> None:
    with anyio.fail_after(50):
        ended = await anyio.run_process([*COMMAND, loop, "servers"], check=False, stderr=subprocess.PIPE)
    errors = ended.stderr.decode()
    assert ended.stdout.decode().splitlines() == ["Too many open files True", "idle", "serving"], errors
    assert ended.returncode == 0, errors
    assert errors.count("accepting a connection failed") == 4, errors  # of each server, one


async def test_idle_connections_leave_descriptors_to_health_checks_and_nsqd(loop: str) -> None:
    async with (
        nsq.embedded.nsqd() as nsqd,
        fault_proxy(nsqd.tcp_address) as proxy,
        AsyncExitStack() as idle,
        httpx.AsyncClient(trust_env=False) as http,
    ):
        with anyio.fail_after(50):
            process = await anyio.open_process([*COMMAND, loop, "service", proxy.address], stderr=None)
            async with ending(process):
                address = await Output(process).line()
                host, _, port = address.rpartition(":")
                for _ in range(2 * LIMIT):
                    await idle.enter_async_context(await anyio.connect_tcp(host, int(port)))
                proxy.cut()
                assert (await http.get(f"http://{address}/healthz")).text == "OK\n"
                while (await http.get(f"http://{address}/readyz")).status_code != HTTPStatus.OK:  # noqa: ASYNC110
                    await anyio.sleep(0.1)  # nothing tells of it
                process.terminate()
