"""The program of docs/migrating/pynsq.md that keeps Tornado's server."""

from __future__ import annotations

import signal
import socket
import sys
from pathlib import Path

import anyio
import httpx
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from ..processes import ending
from ..real_servers import real_nsqd
from .programs import DOCS, LIMIT, pointed_at

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="module"),
    pytest.mark.timeout(180),
]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


async def test_it_serves_publishes_and_consumes_until_a_signal(tmp_path: Path) -> None:
    port = free_port()
    async with real_nsqd() as nsqd, httpx.AsyncClient() as http:
        program = pointed_at((DOCS / "with_tornado.py").read_text("utf-8"), nsqd)
        (tmp_path / "program.py").write_text(program.replace("8888", str(port)))
        with anyio.fail_after(LIMIT):
            process = await anyio.open_process([sys.executable, str(tmp_path / "program.py")], stderr=None)
            async with ending(process):
                while True:
                    try:
                        answer = await http.post(f"http://127.0.0.1:{port}/thumbnails", content=b"cat.png")
                    except httpx.ConnectError:  # it is not up yet
                        await anyio.sleep(0.05)
                    else:
                        break
                assert answer.status_code == 202
                assert process.stdout is not None
                # With PYTHONUNBUFFERED, each word is written alone.
                printed = BufferedByteReceiveStream(process.stdout)
                assert await printed.receive_until(b"\n", 100) == b"made cat.png"
                process.send_signal(signal.SIGTERM)
                assert await process.wait() == 0
