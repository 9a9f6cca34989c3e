"""``nsq-anyio stat`` as a process, on embedded nsqds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator
from typing import Any

import httpx
import pytest

from nsq_anyio.cli.backend import BACKENDS

from .forwarders import Server, embedded_nsqds
from .processes import COMMAND, LIMIT, end, read_terminal, run, running

DEAD = "127.0.0.1:1"
HEADER = [
    "------rate------+----------------depth----------------+--------------metadata---------------",
    "ingress  egress |   total     mem    disk inflt   def |     req     t-o         msgs clients",
]


@pytest.fixture(scope="module")
def cluster() -> Generator[tuple[str, list[Server]]]:
    """Two nsqds with a topic of one channel, and another topic that has none."""
    with embedded_nsqds(2) as (nsqlookupd, nsqds):
        for nsqd in nsqds:
            _create(nsqd, "clicks", "archive")
            nsqd.publish("clicks", b"1", b"2", b"3")
        nsqds[0].publish("views", b"1")
        yield nsqlookupd, nsqds


def _create(nsqd: Server, topic: str, channel: str) -> None:
    _post(nsqd, f"topic/create?topic={topic}")
    _post(nsqd, f"channel/create?topic={topic}&channel={channel}")


def _post(nsqd: Server, endpoint: str) -> None:
    assert httpx.post(f"{nsqd.http_url}/{endpoint}", trust_env=False).status_code == 200


def _json(log: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.splitlines()]


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_channel_has_the_columns_of_nsq_stat(cluster: tuple[str, list[Server]], backend: str) -> None:
    arguments = ["-topic=clicks", "-channel", "archive", "-interval=50ms", "-count=27", "-backend", backend]
    result = run("stat", *arguments, f"-lookupd-http-address={cluster[0]}")
    assert (result.returncode, result.stderr) == (0, b"")
    row = "      0       0 |       6       6       0     0     0 |       0       0            6       0"
    assert result.stdout.decode().splitlines() == [*HEADER, *[row] * 25, *HEADER, *[row] * 2]


def test_all_channels_are_named(cluster: tuple[str, list[Server]]) -> None:
    result = run("stat", "--interval=50ms", "--count=1", f"--lookupd-http-address={cluster[0]}")
    assert result.returncode == 0
    lines = result.stdout.decode().splitlines()
    assert [line.rpartition(" | ")[2] for line in lines[1:]] == ["topic/channel", "clicks/archive", "views/"]


def test_a_paused_topic_is_told(cluster: tuple[str, list[Server]]) -> None:
    nsqlookupd, nsqds = cluster
    arguments = ["--interval=50ms", "--count=1", f"--lookupd-http-address={nsqlookupd}", "--topic=clicks"]
    _post(nsqds[0], "topic/pause?topic=clicks")
    try:
        result = run("stat", *arguments)
    finally:
        _post(nsqds[0], "topic/unpause?topic=clicks")
    assert result.stdout.decode().splitlines()[-1].endswith(" | clicks/archive (topic paused)")
    assert run("stat", *arguments).stdout.decode().splitlines()[-1].endswith(" | clicks/archive")


def test_json(cluster: tuple[str, list[Server]]) -> None:
    arguments = ["--interval=50ms", "--count=2", "--json", f"--lookupd-http-address={cluster[0]}"]
    result = run("stat", *arguments, "--topic=clicks")
    assert result.returncode == 0
    for line in _json(result.stdout):
        assert line.pop("time").endswith("+00:00")
        assert line == {
            "channels": [
                {
                    "topic": "clicks",
                    "channel": "archive",
                    "paused": False,
                    "topic_paused": False,
                    "ingress": 0.0,
                    "egress": 0.0,
                    "depth": 6,
                    "backend_depth": 0,
                    "in_flight": 0,
                    "deferred": 0,
                    "requeued": 0,
                    "timed_out": 0,
                    "messages": 6,
                    "clients": 0,
                }
            ],
            "failures": [],
        }


def test_a_server_that_does_not_answer_is_named_and_the_others_shown(
    cluster: tuple[str, list[Server]],
) -> None:
    arguments = ["--interval=50ms", "--count=2", f"--nsqd-http-address={DEAD}"]
    arguments.append(f"--nsqd-http-address={cluster[1][0].http_url}")
    result = run("stat", *arguments, "--topic=clicks", "--channel=archive")
    assert result.returncode == 0
    assert result.stdout.decode().splitlines()[2].split("|")[1].split() == ["3", "3", "0", "0", "0"]
    (warning,) = result.stderr.decode().splitlines()
    assert f"WARNING nsq_anyio.cli.stat.views: http://{DEAD}: " in warning
    (line,) = _json(run("stat", *arguments, "--json", "--count=1").stdout)
    assert [failure["url"] for failure in line["failures"]] == [f"http://{DEAD}"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--topic=none"], "no nsqd has topic 'none'"),
        (["--topic=clicks", "--channel=none"], "no nsqd has channel 'none' of topic 'clicks'"),
    ],
)
def test_what_nobody_has_is_an_error(
    cluster: tuple[str, list[Server]], arguments: list[str], problem: str
) -> None:
    result = run("stat", *arguments, f"--lookupd-http-address={cluster[0]}")
    assert result.returncode == 1
    assert result.stderr.decode() == f"Error: {problem}\n"


@pytest.mark.parametrize("backend", BACKENDS)
def test_rates_follow_what_is_published_until_a_signal(
    cluster: tuple[str, list[Server]], backend: str
) -> None:
    nsqd = cluster[1][0]
    topic = f"rates-{backend}"
    _create(nsqd, topic, "c")
    arguments = ["--interval=100ms", "--json", f"--topic={topic}", f"--nsqd-http-address={nsqd.http_url}"]
    with running("stat", *arguments, f"--backend={backend}") as process:
        assert process.stdout is not None
        process.stdout.readline()
        nsqd.publish(topic, b"1", b"2")
        rates: list[float] = []
        messages = 0
        while messages < 2:
            (channel,) = json.loads(process.stdout.readline())["channels"]
            rates.append(channel["ingress"])
            messages = channel["messages"]
        assert sum(rates) > 0
        end(process)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such pipes")
def test_a_reader_that_goes_away_ends_it(cluster: tuple[str, list[Server]]) -> None:
    with running("stat", "--interval=1h", f"--lookupd-http-address={cluster[0]}") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.wait(LIMIT) == 141
        assert process.stderr.read() == b""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_on_a_terminal_it_is_a_table(cluster: tuple[str, list[Server]]) -> None:
    ours, its = os.openpty()
    arguments = ["stat", "--interval=50ms", "--count=2", f"--lookupd-http-address={cluster[0]}"]
    arguments.append(f"--nsqd-http-address={DEAD}")
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "160", "LINES": "40"}
    with subprocess.Popen(
        [*COMMAND, *arguments], stdin=its, stdout=its, stderr=its, env=environment
    ) as process:
        os.close(its)
        shown = read_terminal(ours).decode()
        os.close(ours)
        assert process.wait(LIMIT) == 0
    for part in ("in/s", "timed out", "clicks", "archive", "views", f"http://{DEAD}: "):
        assert part in shown
    assert "\x1b[1A" in shown  # it went up again, to draw over the table before
