"""Storages for tests of spools: a directory, a server of S3, and HDFS, each in a process of its own."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import httpx

from ..servers.storages import HDFS_JARS, HDFS_PROGRAM, S3_SERVER
from .nsqds import wait_until

__all__ = [
    "BUCKET",
    "KEY",
    "SECRET",
    "Server",
    "environment_of_s3",
    "running_careless_s3",
    "running_hdfs",
    "running_s3",
]

BUCKET = "spools"
KEY = "AKIATESTSTESTSTESTS0"
SECRET = "a secret that nobody should ever see"

_LIMIT = 90.0
_LISTENING = re.compile(r"^webhdfs: http://(\S+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Server:
    """A running storage.

    :ivar root: the URL of a directory where spools may be
    :ivar environment: what processes have to know to use it
    """

    root: str
    environment: dict[str, str]


@contextmanager
def running_s3() -> Generator[Server]:
    """Run a server that speaks S3, with an empty bucket, for the length of the block."""
    if not S3_SERVER.is_file():
        raise AssertionError(f"{S3_SERVER} is missing: build it with `nox -s storages`")
    with tempfile.TemporaryDirectory(prefix="nsq-anyio-s3-") as directory:
        Path(directory, "objects", BUCKET).mkdir(parents=True)
        # It takes no port 0, so one is asked of the system; somebody else may get it first.
        for _ in range(5):
            port = _free_port()
            flags = ["--port", f"127.0.0.1:{port}", "--quiet", "--health", "/health"]
            environment = {**os.environ, "ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
            with _running([str(S3_SERVER), *flags, "posix", f"{directory}/objects"], environment) as process:
                if not _answers(process, f"http://127.0.0.1:{port}/health"):
                    continue
                yield Server(f"s3://{BUCKET}", environment_of_s3(f"http://127.0.0.1:{port}"))
                return
    raise AssertionError("the S3 server does not start")


def environment_of_s3(endpoint: str) -> dict[str, str]:
    """The variables by which clients of S3 find their server and credentials."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
    }


@contextmanager
def running_hdfs(java: str) -> Generator[Server]:
    """Run HDFS with one datanode for the length of the block."""
    if not HDFS_JARS.is_dir():
        raise AssertionError(f"{HDFS_JARS} is missing: fetch it with `nox -s storages`")
    with tempfile.TemporaryDirectory(prefix="nsq-anyio-hdfs-") as directory:
        log = Path(directory, "log")
        command = [java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m"]
        with _running(
            [*command, "-cp", f"{HDFS_JARS}/*", HDFS_PROGRAM, f"{directory}/hdfs"],
            {name: value for name, value in os.environ.items() if name != "JDK_JAVA_OPTIONS"},
            log,
        ) as process:
            wait_until(
                lambda: process.poll() is not None or _LISTENING.search(log.read_text()), "HDFS", _LIMIT
            )
            found = _LISTENING.search(log.read_text())
            assert found, f"HDFS ended with {process.poll()}:\n{log.read_text()}"
            yield Server(f"webhdfs://{found[1]}", {"HADOOP_USER_NAME": "spark"})


@contextmanager
def _running(
    command: Sequence[str | Path], environment: dict[str, str], log: Path | None = None
) -> Generator[subprocess.Popen[bytes]]:
    """Run a program that ends when this process does, as its standard input is closed then."""
    ends_with_tests = [shutil.which("setpriv") or "setpriv", "--pdeathsig", "KILL", "--"]
    with (log or Path(os.devnull)).open("wb") as output:
        process = subprocess.Popen(
            [*ends_with_tests, *command], stdin=subprocess.PIPE, stdout=output, stderr=output, env=environment
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


def _answers(process: subprocess.Popen[bytes], url: str) -> bool:
    def is_ready() -> bool:
        if process.poll() is not None:
            return True
        try:
            return httpx.get(url, trust_env=False).is_success
        except httpx.TransportError:
            return False

    wait_until(is_ready, url)
    return process.poll() is None


def _free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


class _Careless(BaseHTTPRequestHandler):
    """Speaks as much S3 as a put, a get and a delete need, and ignores all conditions."""

    protocol_version = "HTTP/1.1"
    objects: ClassVar[dict[str, bytes]] = {}

    def do_PUT(self) -> None:
        self.objects[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(200)

    def do_GET(self) -> None:
        found = self.objects.get(self.path)
        self._answer(404 if found is None else 200, found or b"")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(200, b"<DeleteResult><Deleted><Key>any</Key></Deleted></DeleteResult>")

    def _answer(self, status: int, content: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", '"0"')
        self.send_header("Last-Modified", formatdate(usegmt=True))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@contextmanager
def running_careless_s3() -> Generator[str]:
    """Run a server of S3 that replaces what it should not, for the length of the block."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Careless) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
