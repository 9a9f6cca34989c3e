"""A command that ends at once leaves no terminal without its cursor, which live displays hide."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Generator

import pytest

from .forwarders import Server, embedded_nsqds
from .processes import COMMAND, LIMIT, read_terminal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX terminals and signals")

HIDE, SHOW = b"\x1b[?25l", b"\x1b[?25h"

PROGRAM = """
import signal
from nsq_anyio.cli.signals import end_at_signals
end_at_signals([])
from rich.console import Console
from rich.live import Live
with Live(console=Console(stderr={stderr})):
    signal.raise_signal(signal.SIGTERM)
"""


@pytest.fixture(scope="module")
def nsqd() -> Generator[Server]:
    with embedded_nsqds(1) as (_, (nsqd,)):
        yield nsqd


def shown(arguments: list[str], *, stderr: bool, signals: int = 0) -> tuple[int, bytes]:
    """The exit code of a command, and what a terminal showed that is one of its streams.

    :param signals: how many it gets once it has hidden the cursor
    """
    ours, theirs = pty.openpty()
    streams = {"stderr" if stderr else "stdout": theirs, "stdout" if stderr else "stderr": subprocess.DEVNULL}
    env = {**os.environ, "TERM": "xterm-256color"}
    try:
        with subprocess.Popen(arguments, stdin=subprocess.DEVNULL, env=env, **streams) as process:  # type: ignore[call-overload]
            os.close(theirs)
            timer = threading.Timer(LIMIT, process.kill)
            timer.start()
            text = b""
            while signals and HIDE not in text:
                text += os.read(ours, 4096)
            for _ in range(signals):
                process.send_signal(signal.SIGTERM)
            text += read_terminal(ours)
            code = process.wait(LIMIT)
            timer.cancel()
    finally:
        os.close(ours)
    return code, text


@pytest.mark.parametrize("stderr", [False, True])
def test_the_end_by_a_signal_shows_the_cursor(stderr: bool) -> None:
    code, text = shown([sys.executable, "-c", PROGRAM.format(stderr=stderr)], stderr=stderr)
    assert code == 128 + signal.SIGTERM
    assert HIDE in text
    assert text.rfind(SHOW) > text.rfind(HIDE)


@pytest.mark.parametrize("signals", [1, 2])
def test_stat_shows_the_cursor_when_it_ends(nsqd: Server, signals: int) -> None:
    address = nsqd.http_url.removeprefix("http://")
    arguments = [*COMMAND, "stat", f"--nsqd-http-address={address}", "--interval=1s"]
    code, text = shown(arguments, stderr=False, signals=signals)
    assert code in {0, 128 + signal.SIGTERM}
    assert text.rfind(SHOW) > text.rfind(HIDE)
