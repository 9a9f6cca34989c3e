"""Servers that keep their data at a path of the command line."""

import re
import signal
import subprocess
from pathlib import Path

import httpx
import pytest

from .servers import ANY_PORTS, listening, running

LIMIT = 15.0
_UP = ("up", "--free-ports")


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code and stderr of a process that ends by itself."""
    _, errors = process.communicate(timeout=LIMIT)
    return process.returncode, errors


def stop(process: subprocess.Popen[str]) -> int:
    process.send_signal(signal.SIGTERM)
    return ended(process)[0]


def get(address: str, path: str) -> httpx.Response:
    return httpx.get(f"http://{address}{path}", trust_env=False)


def test_up_keeps_its_ports_and_its_messages(tmp_path: Path) -> None:
    directory = tmp_path / "made"
    seen: list[list[str]] = []
    for run in range(2):
        with running(*_UP, "--nsqds", str(1 + run), f"--data-path={directory}") as process:
            assert process.stdout is not None
            shown = ""
            while "nsqlookupd=" not in shown:
                line = process.stdout.readline()
                assert line, shown
                shown += line
            seen.append(re.findall(r"127\.0\.0\.1:[0-9]+", shown.split("async with")[0]))
            http = seen[0][3]
            if not run:
                body = httpx.post(f"http://{http}/pub?topic=t", content=b"x", trust_env=False).text
                assert body == "OK"
            (topic,) = get(http, "/stats?format=json&topic=t").json()["topics"]
            assert topic["depth"] == 1
            assert stop(process) == 0
    assert seen[1][:4] == seen[0]
    assert len(seen[1]) == 6


@pytest.mark.parametrize("content", ['{"nsqd-1": [0, 70000]}', "[]"])
def test_up_refuses_damaged_ports(tmp_path: Path, content: str) -> None:
    (tmp_path / "ports.json").write_text(content)
    with running(*_UP, f"--data-path={tmp_path}") as process:
        code, text = ended(process)
    assert code == 1
    assert "ports.json is damaged" in text


@pytest.mark.parametrize("kind", ["missing", "locked"])
def test_nsqd_exits_where_its_data_path_cannot_be_used(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    if kind == "missing":
        with running("nsqd", *ANY_PORTS, f"--data-path={path}") as process:
            assert ended(process) == (1, f"Error: cannot use data path {path}: No such file or directory\n")
        return
    path.mkdir()
    with running("nsqd", *ANY_PORTS, f"--data-path={path}") as first:
        listening(first)
        with running("nsqd", *ANY_PORTS, f"--data-path={path}") as second:
            code, text = ended(second)
        assert code == 1
        assert "it is locked" in text
