"""Fixtures for ansq's tests, whose source distribution lacks the file that has its own.

What the tests ask of them is all that is known: servers as processes, on NSQ's own ports unless told.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

LIMIT = 20.0


@dataclass
class Server:
    """An nsqd or nsqlookupd that can be stopped and started again."""

    command: Sequence[str]
    port: int
    http_port: int
    host: str = "127.0.0.1"
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def tcp_address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def http_address(self) -> str:
        return f"{self.host}:{self.http_port}"

    async def start(self) -> None:
        addresses = [f"--tcp-address={self.tcp_address}", f"--http-address={self.http_address}"]
        command = [*self.command, *addresses]
        self._process = await asyncio.to_thread(subprocess.Popen, command, stderr=subprocess.DEVNULL)
        await wait_until(self._listens)

    async def _listens(self) -> bool:
        try:
            for port in (self.port, self.http_port):
                _, writer = await asyncio.open_connection(self.host, port)
                writer.close()
        except OSError:
            return False
        return True

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            await asyncio.to_thread(process.wait, LIMIT)


async def wait_until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(LIMIT):
        while True:
            holds = condition()
            if await holds if asyncio.iscoroutine(holds) else holds:
                return
            await asyncio.sleep(0.05)


@asynccontextmanager
async def running(server: Server) -> AsyncGenerator[Server]:
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@pytest.fixture
def wait_for() -> Callable[[Callable[[], Any]], Any]:
    return wait_until


@pytest.fixture
def create_nsqd(tmp_path: Path) -> Callable[..., AbstractAsyncContextManager[Server]]:
    def create(
        port: int = 4150, http_port: int = 4151, lookupd_tcp_addresses: Sequence[str] = ()
    ) -> AbstractAsyncContextManager[Server]:
        data_path = tmp_path / str(port)
        data_path.mkdir()
        lookupds = [f"--lookupd-tcp-address={address}" for address in lookupd_tcp_addresses]
        command = ["nsqd", f"--data-path={data_path}", "--broadcast-address=127.0.0.1", *lookupds]
        return running(Server(command, port, http_port))

    return create


@pytest.fixture
def create_nsqlookupd() -> Callable[..., AbstractAsyncContextManager[Server]]:
    def create(port: int = 4160, http_port: int = 4161) -> AbstractAsyncContextManager[Server]:
        return running(Server(["nsqlookupd", "--broadcast-address=127.0.0.1"], port, http_port))

    return create


@pytest.fixture
async def nsqd(
    create_nsqd: Callable[..., AbstractAsyncContextManager[Server]],
) -> AsyncGenerator[Server]:
    async with create_nsqd() as server:
        yield server
