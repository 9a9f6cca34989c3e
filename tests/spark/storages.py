"""Storages for tests of spools: servers of S3, Cloud Storage, Azure and HDFS, each in its own process."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

import httpx

from ..servers.storages import AZURE_SERVER, GCS_SERVER, HDFS_JARS, HDFS_PROGRAM, S3_SERVER
from .nsqds import wait_until

BUCKET = "spools"
KEY = "AKIATESTSTESTSTESTS0"
SECRET = "a secret that nobody should ever see"

ACCOUNT = "spark"
ACCOUNT_KEY = base64.b64encode(SECRET.encode()).decode()

EVERY_CASE = bool(os.environ.get("NSQ_ANYIO_EVERY_CASE"))
"""Whether to try all cases with servers, which takes minutes, instead of a sample."""

SETTINGS = ("AWS_", "GOOGLE_", "AZURE_", "HADOOP_USER_NAME")
"""How the names of the variables begin by which executors find a storage, as the driver does."""

_LIMIT = 90.0


@dataclass(frozen=True, slots=True)
class Server:
    """A running storage.

    :ivar root: the URL of a directory where spools may be
    :ivar environment: what processes have to know to use it
    """

    root: str
    environment: dict[str, str]


def for_executors() -> dict[str, str]:
    """Return the settings of a session by which its executors find a storage, as this process does."""
    settings = {name: value for name, value in os.environ.items() if name.startswith(SETTINGS)}
    return {f"spark.executorEnv.{name}": value for name, value in settings.items()}


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
def running_gcs() -> Generator[Server]:
    """Run a server that speaks Cloud Storage's XML API, with an empty bucket, for the length of the block."""
    if not GCS_SERVER.is_file():
        raise AssertionError(f"{GCS_SERVER} is missing: build it with `nox -s storages`")
    with _listening([str(GCS_SERVER), BUCKET], r"^gcs: (http://\S+)$") as endpoint:
        yield Server(f"gs://{BUCKET}", environment_of_gcs(endpoint))


def environment_of_gcs(endpoint: str) -> dict[str, str]:
    """The variables by which clients of Cloud Storage find their server; it asks for no token."""
    key = {"gcs_base_url": endpoint, "disable_oauth": True, "client_email": KEY, "private_key": SECRET}
    return {
        "GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps({**key, "private_key_id": KEY}),
        "GOOGLE_ALLOW_HTTP": "true",
    }


@contextmanager
def running_azure() -> Generator[Server]:
    """Run a server that speaks Azure Blob Storage, with an empty container, for the length of the block."""
    if not AZURE_SERVER.is_file():
        raise AssertionError(f"{AZURE_SERVER} is missing: fetch it with `nox -s storages`")
    node = shutil.which("node")
    assert node, "install Node.js: the server of Azure runs on it"
    flags = ["--blobPort", "0", "--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck"]
    environment = {**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{ACCOUNT_KEY}"}
    with _listening([node, str(AZURE_SERVER), *flags], r"listens on (http://\S+)$", environment) as endpoint:
        _make_container(endpoint)
        root = f"abfss://{BUCKET}@{ACCOUNT}.dfs.core.windows.net"
        yield Server(root, environment_of_azure(endpoint))


def environment_of_azure(endpoint: str) -> dict[str, str]:
    """The variables by which clients of Azure find their server and credentials."""
    return {
        "AZURE_STORAGE_ENDPOINT": f"{endpoint}/{ACCOUNT}",
        "AZURE_ALLOW_HTTP": "true",
        "AZURE_STORAGE_ACCOUNT_KEY": ACCOUNT_KEY,
    }


def _make_container(endpoint: str) -> None:
    """Make the container, which takes a request that is signed."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2023-11-03"}
    told = "".join(f"{name}:{value}\n" for name, value in headers.items())
    empty = "\n" * 12
    signed = f"PUT{empty}{told}/{ACCOUNT}/{ACCOUNT}/{BUCKET}\nrestype:container"
    digest = hmac.digest(base64.b64decode(ACCOUNT_KEY), signed.encode(), hashlib.sha256)
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
    url = f"{endpoint}/{ACCOUNT}/{BUCKET}?restype=container"
    httpx.put(url, headers=headers, trust_env=False).raise_for_status()


@contextmanager
def running_hdfs(java: str) -> Generator[Server]:
    """Run HDFS with one datanode for the length of the block."""
    if not HDFS_JARS.is_dir():
        raise AssertionError(f"{HDFS_JARS} is missing: fetch it with `nox -s storages`")
    with tempfile.TemporaryDirectory(prefix="nsq-anyio-hdfs-") as directory:
        command = [java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m"]
        command += ["-cp", f"{HDFS_JARS}/*", str(HDFS_PROGRAM), f"{directory}/hdfs"]
        environment = {name: value for name, value in os.environ.items() if name != "JDK_JAVA_OPTIONS"}
        with _listening(command, r"^webhdfs: http://(\S+)$", environment) as address:
            yield Server(f"webhdfs://{address}", {"HADOOP_USER_NAME": "spark"})


@contextmanager
def _listening(
    command: Sequence[str], pattern: str, environment: dict[str, str] | None = None
) -> Generator[str]:
    """Run a program until the end of the block, once it has printed the address that it listens on."""
    with tempfile.TemporaryDirectory(prefix="nsq-anyio-storage-") as directory:
        log = Path(directory, "log")

        def address() -> re.Match[str] | None:
            return re.search(pattern, log.read_text(), re.MULTILINE)

        with _running(command, environment or dict(os.environ), log, directory) as process:
            wait_until(lambda: process.poll() is not None or address(), command[0], _LIMIT)
            found = address()
            assert found, f"{command} ended with {process.poll()}:\n{log.read_text()}"
            yield found[1]


@contextmanager
def _running(
    command: Sequence[str], environment: dict[str, str], log: Path | None = None, directory: str | None = None
) -> Generator[subprocess.Popen[bytes]]:
    """Run a program that ends when this process does, as its standard input is closed then."""
    ends_with_tests = [shutil.which("setpriv") or "setpriv", "--pdeathsig", "KILL", "--"]
    with (log or Path(os.devnull)).open("wb") as output:
        process = subprocess.Popen(
            [*ends_with_tests, *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=environment,
            cwd=directory,
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
