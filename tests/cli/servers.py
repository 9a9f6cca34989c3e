"""The commands that run servers, as processes of their own."""

import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

ANY_PORTS = ("--tcp-address=127.0.0.1:0", "--http-address=127.0.0.1:0")


@contextmanager
def running(*arguments: str) -> Generator[subprocess.Popen[str]]:
    """``python -m nsq_anyio`` with ``arguments``; killed at the end if it still runs."""
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "nsq_anyio", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def listening(process: subprocess.Popen[str], *names: str) -> dict[str, str]:
    """The addresses that a server tells on stderr, of TCP, HTTP and ``names``."""
    assert process.stderr is not None
    found: dict[str, str] = {}
    while not {"TCP", "HTTP", *names} <= found.keys():
        line = process.stderr.readline()
        assert line, f"it ended with {process.wait()} before it listened"
        if match := re.search(r"\b(TCP|HTTP|HTTPS): listening on (\S+)\n", line):
            found[match[1]] = match[2]
    return found
