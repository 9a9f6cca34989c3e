"""The launchers of the real servers, and the script that builds these."""

import re
import shutil
import signal
import socket
import ssl
from pathlib import Path

import anyio
import httpx
import pytest
import trustme

from nsq_anyio.testing import real_server

from ..real_servers import RealServer, RealServerError, program, real_nsqd, real_nsqlookupd
from ..servers import build

pytestmark = pytest.mark.anyio


async def get(url: str) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False) as client:
        return (await client.get(url)).raise_for_status()


async def post(url: str, body: bytes = b"") -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        (await client.post(url, content=body)).raise_for_status()


async def until_registered(lookupd: RealServer) -> list[dict[str, object]]:
    """Return the nsqds that `lookupd` knows, once it knows any."""
    with anyio.fail_after(10):
        while True:
            producers: list[dict[str, object]] = (await get(f"{lookupd.http_url}/nodes")).json()["producers"]
            if producers:
                return producers
            await anyio.sleep(0.01)


def is_listening(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


async def test_nsqd_reports_where_it_listens() -> None:
    async with real_nsqd() as nsqd:
        info = (await get(f"{nsqd.http_url}/info")).json()
        assert info["version"] == "1.3.0"
        assert info["tcp_port"] == nsqd.tcp_port != 0
        assert info["http_port"] == nsqd.http_port != 0
        assert info["broadcast_address"] == "127.0.0.1"
        assert nsqd.https_url is None
        assert is_listening(nsqd.tcp_address)
    assert nsqd.process.returncode == 0
    assert not is_listening(nsqd.tcp_address)


async def test_nsqd_registers_its_picked_ports() -> None:
    async with real_nsqlookupd() as lookupd, real_nsqd(lookupd_tcp_addresses=[lookupd.tcp_address]) as nsqd:
        await post(f"{nsqd.http_url}/topic/create?topic=clicks")
        producers = await until_registered(lookupd)
        assert [
            (producer["broadcast_address"], producer["tcp_port"], producer["http_port"])
            for producer in producers
        ] == [("127.0.0.1", nsqd.tcp_port, nsqd.http_port)]


async def test_a_killed_nsqd_has_a_successor_on_its_ports() -> None:
    async with real_nsqd() as first:
        await first.kill()
        assert first.process.returncode == -signal.SIGKILL
        assert not is_listening(first.tcp_address)
        async with real_nsqd(tcp_port=first.tcp_port, http_port=first.http_port) as second:
            assert (second.tcp_address, second.http_url) == (first.tcp_address, first.http_url)
            assert (await get(f"{second.http_url}/ping")).text == "OK"


async def test_a_successor_has_the_messages_of_its_data_path(tmp_path: Path) -> None:
    async with real_nsqd(data_path=tmp_path) as first:
        await post(f"{first.http_url}/pub?topic=clicks", b"kept")
        await first.stop()
    async with real_nsqd(data_path=tmp_path) as second:
        (topic,) = (await get(f"{second.http_url}/stats?format=json")).json()["topics"]
        assert (topic["topic_name"], topic["depth"]) == ("clicks", 1)


async def test_flags_reach_the_server() -> None:
    async with real_nsqd(flags=["--max-rdy-count=7", "--broadcast-address=other.example"]) as nsqd:
        info = (await get(f"{nsqd.http_url}/info")).json()
        assert info["broadcast_address"] == "other.example"


async def test_nsqd_that_requires_tls_reports_where_it_speaks_https(tmp_path: Path) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    trust = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    flags = [f"--tls-cert={certificate}", f"--tls-key={key}", "--tls-required=true"]
    async with real_nsqd(flags=flags) as nsqd, httpx.AsyncClient(trust_env=False, verify=trust) as client:
        assert (await client.get(f"{nsqd.http_url}/info")).status_code == 403
        assert (await client.get(f"{nsqd.https_url}/info")).json()["tcp_port"] == nsqd.tcp_port


async def test_a_server_that_does_not_start_shows_its_log() -> None:
    with pytest.raises(RealServerError, match=r"nsqd ended with \d+ while it started(?s:.*)no-such-flag"):
        async with real_nsqd(flags=["--no-such-flag"]):
            pytest.fail("it started")


async def test_a_taken_port_is_named() -> None:
    async with real_nsqlookupd() as first:
        with pytest.raises(RealServerError, match="address already in use"):
            async with real_nsqlookupd(tcp_port=first.tcp_port):
                pytest.fail("it started")


async def test_a_server_that_ends_by_itself_fails_the_block() -> None:
    with pytest.raises(RealServerError, match="nsqlookupd ended by itself with -9"):
        async with real_nsqlookupd() as lookupd:
            lookupd.process.kill()
            await lookupd.process.wait()


async def test_an_error_in_the_block_is_not_replaced() -> None:
    with pytest.raises(LookupError, match="mine"):
        async with real_nsqlookupd() as lookupd:
            lookupd.process.kill()
            await lookupd.process.wait()
            raise LookupError("mine")


async def test_a_cancelled_block_leaves_no_server() -> None:
    started: list[RealServer] = []
    with anyio.CancelScope() as scope:
        async with real_nsqd() as nsqd:
            started.append(nsqd)
            scope.cancel()
            await anyio.sleep_forever()
    (nsqd,) = started
    assert nsqd.process.returncode == 0
    assert not is_listening(nsqd.tcp_address)


async def test_a_stopped_process_is_killed_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nsq_anyio.testing.real_server.STOP_LIMIT", 0.1)
    async with real_nsqd() as nsqd:
        nsqd.process.send_signal(signal.SIGSTOP)
    assert nsqd.process.returncode == -signal.SIGKILL


async def test_the_log_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async with real_nsqlookupd() as lookupd:
        assert "TCP: listening on" in lookupd.log
        monkeypatch.setattr("nsq_anyio.testing.real_server.LOG_TAIL", 10)
        assert 0 < len(lookupd.log) <= 10  # characters are no more than bytes


async def test_missing_programs_fail_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(
        RealServerError, match=re.escape(f"{tmp_path}/nsqd is missing: name the directory that has nsqd")
    ):
        async with real_server.real_nsqd(tmp_path):
            pytest.fail("it started")


def test_every_tool_of_the_module_is_built() -> None:
    assert {"nsqd", "nsqlookupd", "nsqadmin", "nsq_tail", "nsq_to_file", "to_nsq"} <= set(build.programs())
    for name in build.programs():
        assert program(name).is_file()


@pytest.mark.parametrize(
    ("version", "enough"),
    [
        ("go version go1.24 linux/amd64", True),
        ("go version go1.24.3 linux/amd64", True),
        ("go version go1.100.0 darwin/arm64", True),
        ("go version go2.0 linux/amd64", True),
        ("go version go1.23.9 linux/amd64", False),
        ("go version go1.9 linux/amd64", False),
        ("go version devel +a1b2c3 linux/amd64", False),
    ],
)
def test_which_go_is_new_enough(version: str, enough: bool) -> None:
    assert build.is_new_enough(version) is enough


def copied_module(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make `build` take its module from a copy, and return the copy's path."""
    module = Path(shutil.copytree(build.MODULE, directory / "module"))
    monkeypatch.setattr(build, "MODULE", module)
    return module


def fake_go(directory: Path, body: str) -> Path:
    """Put a `go` into `directory` that says it is new, and runs `body` for anything but `go version`."""
    go = directory / "go"
    go.write_text(
        f'#!/bin/sh\ncase "$1" in version) echo go version go1.99.0 test/test ;; *) {body} ;; esac\n'
    )
    go.chmod(0o755)
    return go


# The last argument but one of `go build ... -o DIRECTORY/ tool` is where the programs belong.
PRETEND = " ".join(f'touch "$4{name}";' for name in build.programs())


def test_a_build_is_repeated_only_when_its_inputs_change(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = copied_module(tmp_path, monkeypatch)
    go = fake_go(tmp_path, PRETEND)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    out = tmp_path / "out" / "bin"
    assert build.build(out)
    assert sorted(path.name for path in out.iterdir()) == sorted(build.programs())
    assert not build.build(out)

    (out / "nsqd").unlink()
    assert build.build(out)
    assert (out / "nsqd").exists()

    (module / "go.sum").write_text("changed")
    assert build.build(out)

    go.write_text(go.read_text().replace("1.99.0", "1.99.1"))
    assert build.build(out)
    assert not build.build(out)


def test_a_failed_build_says_what_go_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake_go(tmp_path, "echo no such module >&2; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    out = tmp_path / "out" / "bin"
    for _ in range(2):  # nothing of the first failure passes for a build
        with pytest.raises(build.BuildError, match=r"build .* tool ended with 1:\nno such module"):
            build.build(out)
    assert list(out.iterdir()) == []
