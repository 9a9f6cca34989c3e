"""The ports of ``nsq-anyio up``."""

from __future__ import annotations

import re
import secrets
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from .servers import running

LIMIT = 15.0


@pytest.fixture
def host() -> str:
    """An address of this machine's own on which nobody else listens."""
    if sys.platform != "linux":
        pytest.skip("only 127.0.0.1 is a loopback address here")
    return "127." + ".".join(str(1 + secrets.randbelow(254)) for _ in range(3))


def table(process: subprocess.Popen[str]) -> dict[str, list[tuple[str, str]]]:
    """What ``up`` shows: the TCP and HTTP ports of servers, by their kind."""
    assert process.stdout is not None
    rows: dict[str, list[tuple[str, str]]] = {}
    line = "│"
    while not line.startswith("└"):
        line = process.stdout.readline()
        assert line, process.communicate()
        if line.startswith("│"):
            name, tcp, http = (cell.strip() for cell in line.strip("│\n").split("│"))
            rows.setdefault(name, []).append((tcp.rpartition(":")[2], http.rpartition(":")[2]))
    return rows


def stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=LIMIT)
    assert process.returncode == 0


def test_the_ports_are_those_of_nsq(host: str) -> None:
    with running("up", "--host", host, "--nsqds", "3", "--admin") as process:
        assert table(process) == {
            "nsqlookupd": [("4160", "4161")],
            "nsqd": [("4150", "4151"), ("4250", "4251"), ("4350", "4351")],
            "dashboard": [("", "4171")],
        }
        stop(process)


@pytest.mark.parametrize(
    ("port", "flags", "remedy"),
    [
        (4250, (), "use --free-ports"),
        (4161, ("--nsqds", "1"), "use --free-ports"),
        (4171, ("--admin",), "use another --admin-http-address"),
    ],
)
def test_a_taken_port_is_one_line_with_the_remedy(
    host: str, port: int, flags: tuple[str, ...], remedy: str
) -> None:
    with socket.create_server((host, port)), running("up", "--host", host, *flags) as process:
        _, errors = process.communicate(timeout=LIMIT)
    assert process.returncode == 1
    expected = rf"Error: cannot listen on {host}:{port}: .*in use.*; stop what listens there, or {remedy}\n"
    assert re.fullmatch(expected, errors)


def test_a_taken_port_of_the_last_run_is_one_line_with_the_remedy(tmp_path: Path) -> None:
    arguments = ("up", "--free-ports", "--nsqds", "1", "--data-path", str(tmp_path))
    with running(*arguments) as process:
        ((tcp, _),) = table(process)["nsqd"]
        stop(process)
    with socket.create_server(("127.0.0.1", int(tcp))), running(*arguments) as process:
        _, errors = process.communicate(timeout=LIMIT)
    assert process.returncode == 1
    assert f"127.0.0.1:{tcp}" in errors
    assert errors.endswith(
        f"stop what listens there, or remove {tmp_path / 'ports.json'} to take other ports\n"
    )


def test_data_of_a_run_with_free_ports_is_served_on_the_usual_ones_too(host: str, tmp_path: Path) -> None:
    seen: list[tuple[str, str]] = []
    for flags in (("--free-ports",), ()):
        with running("up", "--host", host, "--nsqds", "1", "--data-path", str(tmp_path), *flags) as process:
            seen += table(process)["nsqd"]
            stop(process)
    assert seen[0] != seen[1] == ("4150", "4151")
