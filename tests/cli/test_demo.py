"""``nsq-anyio demo``."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Generator

import anyio.from_thread
import pytest
from click.testing import CliRunner, Result

import nsq_anyio as nsq
from nsq_anyio.cli.backend import BACKENDS
from nsq_anyio.cli.main import cli

from .processes import read_terminal


def demo(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["demo", *arguments])


@pytest.fixture(scope="module")
def servers() -> Generator[tuple[str, str]]:
    """An nsqd's address and an nsqlookupd's URL, outside of the demo's own event loop."""
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(nsq.embedded.nsqlookupd()) as nsqlookupd,
        portal.wrap_async_context_manager(
            nsq.embedded.nsqd(lookupd_tcp_addresses=[nsqlookupd.tcp_address])
        ) as nsqd,
    ):
        yield nsqd.tcp_address, nsqlookupd.http_url


@pytest.mark.parametrize("backend", BACKENDS)
def test_json_is_one_line_that_accounts_for_every_message(backend: str) -> None:
    result = demo("--messages", "3001", "--json", "--backend", backend)
    assert result.exit_code == 0, result.output
    (line,) = result.stdout.splitlines()
    summary = json.loads(line)
    assert list(summary) == ["published", "finished", "unique", "seconds"]
    assert summary["published"] == summary["finished"] == summary["unique"] == 3001
    assert summary["seconds"] > 0


def test_the_table_has_a_row_for_each_nsqd_and_a_sum() -> None:
    result = demo("--messages", "2000")
    assert result.exit_code == 0, result.output
    rows = [line for line in result.stdout.splitlines() if "127.0.0.1:" in line]
    assert len(rows) == 2
    # Messages go to both in turn, but only as soon as both are connected.
    finished = [int(re.sub(r"\D", "", row.split("│")[3])) for row in rows]
    assert all(finished)
    assert sum(finished) == 2000
    (total,) = (line for line in result.stdout.splitlines() if "all" in line)
    assert total.count("2,000") == 2  # published and finished


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("by", ["nsqd", "nsqlookupd"])
def test_it_runs_on_given_servers(servers: tuple[str, str], by: str, backend: str) -> None:
    nsqd, nsqlookupd = servers
    address = {"nsqd": nsqd, "nsqlookupd": nsqlookupd}[by]
    result = demo(f"--{by}", address, "--messages", "500", "--json", "--backend", backend)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["unique"] == 500


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--messages", "0"], "--messages"),
        (["--topic", "two words"], "topic 'two words' is not valid"),
        (["--nsqd", "nowhere"], "nsqd address 'nowhere' has no valid port"),
        (["--nsqlookupd", "ftp://127.0.0.1:4161"], "ftp://127.0.0.1:4161"),
        (["--message", "1"], "--messages"),
    ],
)
def test_bad_options_are_explained(arguments: list[str], expected: str) -> None:
    result = demo(*arguments)
    assert result.exit_code == 2
    assert expected in result.stderr
    assert "Traceback" not in result.stderr


def test_an_unreachable_nsqlookupd_is_one_clear_line() -> None:
    result = demo("--nsqlookupd", "http://127.0.0.1:1", "--json")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("Error: http://127.0.0.1:1")
    assert "Traceback" not in result.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("backend", BACKENDS)
def test_ctrl_c_ends_it_without_a_traceback(backend: str) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "nsq_anyio", "demo", "--messages", "100000000", "--backend", backend]
    env = {**os.environ, "TERM": "xterm"}  # on a dumb terminal, no progress is shown
    with subprocess.Popen(command, stderr=theirs, stdout=subprocess.DEVNULL, env=env) as process:
        os.close(theirs)
        shown = b""
        while b"finished" not in shown:  # it publishes and consumes then
            shown += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        shown += read_terminal(ours)
    os.close(ours)
    assert process.returncode == 130
    assert b"Aborted!" not in shown
    assert b"Traceback" not in shown
