"""The web examples, each in a process of its own, as their users start them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
DIRECTORY = ROOT / "examples" / "web"
LIMIT = 60.0


@contextmanager
def running(
    arguments: Sequence[str],
    nsqd: str,
    *,
    listener: socket.socket | None = None,
    env: Mapping[str, str] | None = None,
) -> Generator[subprocess.Popen[bytes]]:
    """Run ``python -m`` with the arguments; what still runs at the end, is killed with its children."""
    with subprocess.Popen(
        [sys.executable, "-m", *arguments],
        cwd=DIRECTORY,
        env={**os.environ, "NSQD": nsqd, "PYTHONPATH": str(DIRECTORY), **(env or {})},
        pass_fds=[listener.fileno()] if listener is not None else [],
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def listening() -> Generator[tuple[socket.socket, str]]:
    """A socket for a server to inherit, so that no request comes too early, and its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener, f"http://127.0.0.1:{listener.getsockname()[1]}"
