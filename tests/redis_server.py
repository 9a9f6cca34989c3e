"""A Redis server in a process of its own, in a temporary directory. A test that cannot start it fails."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

_PROGRAMS = ("redis-server", "valkey-server")
_SECONDS_TO_START = 15.0


class RedisServer:
    """A server on a free port of 127.0.0.1.

    :ivar url: its address, for a client
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port: int = free.getsockname()[1]
        self.url: str = f"redis://127.0.0.1:{self._port}/0"
        self.process: subprocess.Popen[bytes]

    def start(self) -> None:
        """Start it, and wait until it answers."""
        program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
        assert program is not None, "there is no redis-server: `apt-get install redis-server`"
        flags = {"port": str(self._port), "bind": "127.0.0.1", "save": "", "dir": str(self._directory)}
        arguments = [part for name, value in flags.items() for part in (f"--{name}", value)]
        self.process = subprocess.Popen([program, *arguments], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + _SECONDS_TO_START
        while not self._answers():
            assert self.process.poll() is None, "redis-server has ended"
            assert time.monotonic() < deadline, "redis-server does not answer"
            time.sleep(0.01)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._port), 1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False

    def kill(self) -> None:
        """Kill it: it forgets everything."""
        self.process.kill()
        self.process.wait()


@contextmanager
def redis_server() -> Generator[RedisServer]:
    """Run a server for the length of the block."""
    with tempfile.TemporaryDirectory(prefix="redis-") as directory:
        server = RedisServer(Path(directory))
        server.start()
        try:
            yield server
        finally:
            server.kill()
