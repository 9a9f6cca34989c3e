"""What tests of Spark share: one session, since a JVM takes seconds to start, and nsqds of both kinds."""

from __future__ import annotations

import os
import socket
from collections.abc import Generator, Iterator
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from nsq_anyio.spark import find_java, session
from nsq_anyio.storage.place import Place, place_of, storage_of

from .cluster import Cluster, environment, running_cluster
from .hierarchical import Hierarchy
from .nsqds import Kind, Nsqd, Topic, running_nsqd
from .storages import Server, running_azure, running_gcs, running_hdfs, running_s3

KINDS: tuple[Kind, ...] = ("embedded", "real")

TRIES = 2
"""How often the session runs a task that fails; Spark's own four take as long as they are many."""

_numbers = count(1)


@pytest.fixture
def anyio_backend() -> str:
    """The only one here: a task of Spark runs an event loop of its own, asyncio's."""
    return "asyncio"


@pytest.fixture(autouse=True)
def own_application(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let readers of this process be those of an application: other test processes have the same parent."""
    monkeypatch.setattr(os, "getppid", os.getpid)


@pytest.fixture(scope="session")
def java() -> str:
    """The Java that Spark runs on; without one the test fails, and the error says what to install."""
    return str(find_java())


@pytest.fixture(scope="session")
def spark(java: str) -> Iterator[SparkSession]:
    """A session of two cores in which `format("nsq")` is known, and a failing task is tried `TRIES` times."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment().items():
            patch.setenv(name, value)
        running = session(
            "tests",
            master=f"local[2,{TRIES}]",
            config={
                "spark.driver.memory": "1g",
                "spark.sql.shuffle.partitions": "2",
                "spark.ui.showConsoleProgress": "false",
            },
        )
        running.sparkContext.setLogLevel("ERROR")
        yield running
        running.stop()


@pytest.fixture(scope="session")
def spark_cluster(java: str, tmp_path_factory: pytest.TempPathFactory) -> Generator[Cluster]:
    """A standalone cluster of two workers, one core each."""
    with running_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="session")
def real_nsqd() -> Generator[Nsqd]:
    """The real nsqd."""
    # So that a task connects several times, as it does for thousands of messages in flight.
    with running_nsqd("real", ["--max-rdy-count=50"]) as running:
        yield running


@pytest.fixture(scope="session")
def embedded_nsqd() -> Generator[Nsqd]:
    """The embedded nsqd, in a process of its own."""
    with running_nsqd("embedded") as running:
        yield running


@pytest.fixture(params=KINDS, ids=[f"{kind}-nsqd" for kind in KINDS])
def nsqd(request: pytest.FixtureRequest) -> Nsqd:
    """An nsqd of either kind in turn."""
    running: Nsqd = request.getfixturevalue(f"{request.param}_nsqd")
    return running


@pytest.fixture
def topic(nsqd: Nsqd) -> Topic:
    """A topic that no other test uses, on an nsqd of either kind."""
    return nsqd.topic(new_name())


@pytest.fixture
def real_topic(real_nsqd: Nsqd) -> Topic:
    """A topic that no other test uses, on a real nsqd."""
    return real_nsqd.topic(new_name())


def new_name() -> str:
    return f"topic-{os.getpid()}-{next(_numbers)}"


@pytest.fixture(scope="session")
def s3() -> Generator[Server]:
    """A server of S3 that decides conditional puts."""
    with running_s3() as running:
        yield running


@pytest.fixture(scope="session")
def gcs() -> Generator[Server]:
    """A server of Cloud Storage that decides conditional puts."""
    with running_gcs() as running:
        yield running


@pytest.fixture(scope="session")
def azure() -> Generator[Server]:
    """A server of Azure Blob Storage that decides conditional puts."""
    with running_azure() as running:
        yield running


@pytest.fixture
def hierarchical(azure: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The same with a hierarchical namespace."""
    Hierarchy(monkeypatch)
    return azure


@pytest.fixture(scope="session")
def hdfs(java: str) -> Generator[Server]:
    """HDFS with one datanode."""
    with running_hdfs(java) as running:
        yield running


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A directory that exists and is empty, in the storage that a test names as its parameter."""
    if request.param == "posix":
        return tmp_path
    server: Server = request.getfixturevalue(request.param)
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    place = place_of(f"{server.root}/{new_name()}")
    storage_of(place).make(place)
    return place


@pytest.fixture
def unreachable() -> Generator[str]:
    """An address that refuses connections, and that nobody else gets meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"
