"""The embedded nsqd on unix sockets."""

import os
import socket
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from nsq_anyio import embedded
from nsq_anyio.embedded import Authorization, AuthRequest, AuthState, ListenFailed, NsqdOptions
from nsq_anyio.errors import InvalidOption
from tests.embedded.raw_client import connect, raw_client, sized
from tests.tls_files import TLSFiles

pytestmark = pytest.mark.anyio


@pytest.fixture
def directory() -> Generator[Path]:
    """A short path: the system takes no more than about 100 characters."""
    with tempfile.TemporaryDirectory(prefix="nsqd-") as path:
        yield Path(path)


def files(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


async def get(path: str, target: str) -> Any:
    transport = httpx.AsyncHTTPTransport(uds=path)
    async with httpx.AsyncClient(transport=transport, trust_env=False) as http:
        return (await http.get(f"http://nsqd{target}")).json()


async def test_clients_and_http_on_unix_sockets(directory: Path) -> None:
    tcp, http = directory / "tcp.sock", directory / "http.sock"
    async with embedded.nsqd(unix_path=tcp, http_unix_path=str(http)) as nsqd:
        assert nsqd.tcp_address == str(tcp)
        assert nsqd.http_url == f"unix:{http}"
        async with raw_client(nsqd.tcp_address) as client:
            await client.negotiate({"snappy": True})
            await client.publish("t", b"x")
            await client.subscribe("t", "c", rdy=1)
            assert (await client.message()).body == b"x"
        assert (await get(str(http), "/stats?format=json"))["topics"][0]["topic_name"] == "t"
    assert files(directory) == []


async def test_only_clients_on_a_unix_socket(directory: Path) -> None:
    async with (
        embedded.nsqd(unix_path=directory / "tcp.sock") as nsqd,
        httpx.AsyncClient(trust_env=False) as http,
    ):
        info = (await http.get(f"{nsqd.http_url}/info")).json()
        assert (info["tcp_port"], nsqd.http_url) == (-1, f"http://127.0.0.1:{info['http_port']}")


async def test_the_auth_server_is_told_no_address(directory: Path) -> None:
    asked: list[AuthRequest] = []

    def auth(request: AuthRequest) -> AuthState:
        asked.append(request)
        return AuthState((Authorization(),))

    options = NsqdOptions(auth=auth)
    async with (
        embedded.nsqd(unix_path=directory / "s", options=options) as nsqd,
        raw_client(nsqd.tcp_address) as client,
    ):
        await client.ask(b"AUTH\n" + sized(b"secret"))
    assert asked == [AuthRequest("secret", "", tls=False, common_name="")]


async def test_tls_on_a_unix_socket(directory: Path, tls_files: TLSFiles) -> None:
    options = NsqdOptions(
        tls_cert=tls_files.server.certificate_file,
        tls_key=tls_files.server.private_key_file,
        tls_required=True,
    )
    async with (
        embedded.nsqd(unix_path=directory / "s", options=options) as nsqd,
        raw_client(nsqd.tcp_address) as client,
    ):
        assert (await client.negotiate({"tls_v1": True}))["tls_v1"]
        await client.publish("t", b"x")


async def test_a_relative_path(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(directory)
    async with embedded.nsqd(unix_path="s") as nsqd:
        assert nsqd.tcp_address == str(directory / "s")
        # It is removed wherever the process has gone meanwhile.
        monkeypatch.chdir("/")
    assert files(directory) == []


async def test_a_path_in_use_is_left_alone(directory: Path) -> None:
    path = directory / "s"
    async with embedded.nsqd(unix_path=path) as nsqd:
        with pytest.raises(ListenFailed, match=f"cannot listen on {path}: .*in use; use another path"):
            async with embedded.nsqd(unix_path=path):
                pass
        async with raw_client(nsqd.tcp_address) as client:
            await client.publish("t", b"x")
    path.write_text("important")
    with pytest.raises(ListenFailed, match="in use"):
        async with embedded.nsqd(unix_path=path):
            pass
    assert path.read_text() == "important"


async def test_a_path_that_cannot_be(directory: Path) -> None:
    for path in (directory / "none" / "s", directory / ("s" * 200)):
        with pytest.raises(ListenFailed, match="use another path"):
            async with embedded.nsqd(unix_path=path):
                pass
    with pytest.raises(InvalidOption, match=r"path .* is not valid"):
        async with embedded.nsqd(unix_path=directory / "a\nb"):
            pass
    with pytest.raises(InvalidOption, match=r"port 4150 with path .* use one of them"):
        async with embedded.nsqd(unix_path=directory / "s", tcp_port=4150):
            pass
    assert files(directory) == []


async def test_the_file_is_removed_when_the_start_fails_later(directory: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with pytest.raises(ListenFailed):
            async with embedded.nsqd(unix_path=directory / "s", http_port=taken.getsockname()[1]):
                pass
    assert files(directory) == []


async def test_a_file_that_somebody_removed_is_no_fault(directory: Path) -> None:
    async with embedded.nsqd(unix_path=directory / "s") as nsqd:
        os.remove(nsqd.tcp_address)  # noqa: PTH107
    assert files(directory) == []


async def test_clients_are_cut_at_the_end(directory: Path) -> None:
    async with embedded.nsqd(unix_path=directory / "s") as nsqd:
        stream = await connect(nsqd.tcp_address)
        await stream.send(b"  V2SUB t c\n")
        assert await stream.receive()
    with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
        await stream.receive()
    await stream.aclose()
