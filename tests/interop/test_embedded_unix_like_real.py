"""On unix sockets the embedded nsqd tells of itself what the real one tells."""

import tempfile
from pathlib import Path
from typing import Any

import httpx
import pytest

from nsq_anyio import embedded

from ..embedded.raw_client import raw_client
from ..real_servers import real_nsqd

pytestmark = pytest.mark.anyio


async def get(path: Path, target: str) -> Any:
    transport = httpx.AsyncHTTPTransport(uds=str(path))
    async with httpx.AsyncClient(transport=transport, trust_env=False) as http:
        return (await http.get(f"http://nsqd{target}")).json()


async def test_what_is_told_of_unix_sockets_is_told_by_the_real_one_too() -> None:
    with tempfile.TemporaryDirectory(prefix="nsqd-") as directory:  # short, as the name of a socket has to be
        await compare(Path(directory))


async def compare(directory: Path) -> None:
    paths = [directory / name for name in ("real", "real-http", "own", "own-http")]
    async with (
        real_nsqd(unix_path=paths[0], http_unix_path=paths[1]),
        embedded.nsqd(unix_path=paths[2], http_unix_path=paths[3]),
        raw_client(str(paths[0])) as real,
        raw_client(str(paths[2])) as own,
    ):
        await real.publish("t", b"x")
        await own.publish("t", b"x")
        for target in ("/info", "/stats?format=json&include_mem=false"):
            replies = [await get(path, target) for path in (paths[1], paths[3])]
            for reply in replies:
                del reply["start_time"]
                reply.pop("broadcast_address", None)
                for producer in reply.get("producers", ()):
                    del producer["connect_ts"]
            assert replies[1] == replies[0]
        for option in ("broadcast_tcp_port", "broadcast_http_port"):
            values = [await get(path, f"/config/{option}") for path in (paths[1], paths[3])]
            assert values == [0, 0]
