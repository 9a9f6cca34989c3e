"""Large messages, many servers, many partitions, many chunks, and nothing at all.

What depends on the clock has generous bounds here; ``python -m tests.benchmarks.spark`` prints the figures.
"""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import time
import tracemalloc
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import obstore
import pyarrow as pa
import pytest
from anyio.from_thread import start_blocking_portal

from nsq_anyio.spark import bounded_reader, stream_reader
from nsq_anyio.spark.batch_reader import peek
from nsq_anyio.spark.chunks import Partition, Stored
from nsq_anyio.spark.lease import Lease
from nsq_anyio.spark.spool import Spool
from nsq_anyio.spark.stream_reader import NsqStreamReader
from nsq_anyio.spark.task import fill, stored_rows
from nsq_anyio.storage.place import Place, storage_of
from nsq_anyio.storage.posix import PosixStorage

from ..benchmarks.dashboard.answers import Cluster
from ..benchmarks.spark.cluster import plan_over
from ..benchmarks.spark.idle import wait_idle
from ..benchmarks.spark.large import read_by_bytes
from ..benchmarks.spark.listing import list_spool, make_spool
from ..benchmarks.spark.partitions import read_in_parts
from ..recording_proxy import RecordingProxy, recording_proxy
from .conftest import new_name
from .nsqds import Nsqd
from .reading import before_chunk, new_partition, options_of, returned, soon
from .rows import on_disk, rows_of

pytestmark = pytest.mark.timeout(120)

MIB = 1024 * 1024
WANTED = 1.2
"""How many bytes nsqd may send for each byte that is kept."""

_REQUEST = re.compile(rb"^(GET|HEAD|PUT|POST|DELETE) (\S+) HTTP/1\.1\r$", re.MULTILINE)


def requests(proxy: RecordingProxy) -> Counter[str]:
    """The methods of all requests that went through a proxy."""
    return Counter(method.decode() for sent in proxy.sent for method, _ in _REQUEST.findall(sent))


def counted_calls(patch: pytest.MonkeyPatch) -> Counter[str]:
    """The calls of the client of S3 from now on, each of which is one request."""
    made: Counter[str] = Counter()
    for name in ("put", "get", "head", "list", "list_with_delimiter", "delete"):
        call = getattr(obstore, name)

        def counted(*arguments: Any, call: Any = call, name: str = name, **more: Any) -> Any:
            made[name] += 1
            return call(*arguments, **more)

        patch.setattr(obstore, name, counted)
    return made


def believe(_file: int) -> None:
    """Take it for granted that the disk keeps what it was given."""


@pytest.mark.parametrize("small", [0, 24], ids=["all-large", "small-ones-first"])
def test_nsqd_sends_hardly_more_than_is_kept(real_nsqd: Nsqd, tmp_path: Path, small: int) -> None:
    topic = real_nsqd.topic(new_name())
    bodies = [b"x" * 10_240] * small + [b"x" * MIB] * 24
    for first in range(0, len(bodies), 4):
        topic.publish(bodies[first : first + 4])
    found = read_by_bytes(topic, tmp_path, max_bytes=7 * MIB, partitions=2)
    assert found.kept == sum(map(len, bodies))
    assert found.sent <= WANTED * found.kept
    assert max(found.batches) <= 7 * MIB + 2 * MIB, "each partition may exceed its share by one message"
    assert topic.state().left == 0


@pytest.mark.parametrize(
    ("size", "rows", "expected"),
    [
        pytest.param(MIB, 4, [12, 12, 12, 4], id="large"),
        pytest.param(20 * MIB, 1, [1] * 10, id="each too large to be joined"),
        pytest.param(100, 2_500, [10_000, 10_000, 5_000], id="small"),
    ],
)
def test_chunks_are_joined_up_to_a_number_of_rows_or_bytes(
    tmp_path: Path, size: int, rows: int, expected: list[int]
) -> None:
    """The JVM has a whole batch in its memory, and Python two of them."""
    partition = new_partition(tmp_path)
    chunk = rows_of([b"x" * size] * rows)
    for number in range(10):
        partition.store_chunk(number, chunk)
    partition.end(10)
    assert [batch.num_rows for batch in stored_rows(partition)] == expected


@pytest.mark.anyio
async def test_a_peek_has_no_more_than_some_bodies_in_memory(
    real_nsqd: Nsqd, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bounded_reader, "CHUNK_BYTES", 2 * MIB)
    monkeypatch.setattr(bounded_reader, "BYTES_IN_FLIGHT", 4 * MIB)
    topic = real_nsqd.topic(new_name())
    for _ in range(10):
        topic.publish([b"x" * MIB] * 4)
    tracemalloc.start()
    try:
        with (tmp_path / "rows").open("w+b") as file:
            await peek(options_of(topic, peek=True, maxWait=1), topic.nsqd.tcp_address, 40, file)
            file.seek(0)
            with pa.ipc.open_stream(file) as batches:
                assert sum(batch.num_rows for batch in batches) == 40
        assert tracemalloc.get_traced_memory()[1] < 20 * MIB
    finally:
        tracemalloc.stop()
    await returned(topic, 40)


def test_a_plan_over_many_nsqds_asks_each_once_for_its_own_channel(tmp_path: Path) -> None:
    cluster = Cluster(nsqds=50, topics=100, spread=50, clients=10, active=0)
    found = plan_over(cluster, tmp_path, triggers=4)
    assert found.partitions == 50
    assert min(found.cpu_seconds) < 1, "the whole plan, with its directories, on a machine of any load"
    expected = {
        "format": ["json"],
        "topic": [cluster.topics_of(0)[0]],
        "channel": ["consumer-1"],
        "include_clients": ["false"],
        "include_mem": ["false"],
    }
    assert found.asked == ((expected,) * 4,) * 50


def test_partitions_of_one_nsqd_wait_for_nobody(real_nsqd: Nsqd, tmp_path: Path) -> None:
    """None takes what another one was to read: with a maxWait of 50 s, the test would end by its timeout."""
    topic = real_nsqd.topic(new_name())
    rows = 40_000
    topic.publish([b"x" * 100] * rows)
    tasks = read_in_parts(topic, tmp_path, rows=rows, partitions=4, max_wait=50)
    assert [task.rows for task in tasks] == [task.planned for task in tasks] == [rows // 4] * 4
    assert max(task.ended_at for task in tasks) - min(task.began_at for task in tasks) < 40
    state = topic.state()
    assert (state.left, state.requeued, state.timed_out) == (0, 0, 0)


def test_a_spool_is_listed_without_reading_its_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    get = PosixStorage.get

    def noted(self: PosixStorage, target: Path) -> bytes:
        read.append(target.name)
        return get(self, target)

    spool = make_spool(tmp_path, 10_000)
    monkeypatch.setattr(PosixStorage, "get", noted)
    found = list_spool(tmp_path)
    assert (found.info.state, found.info.rows, found.info.damage) == ("unchecked", 9_998, ())
    assert set(read) == {"plan.json", "query.json"}
    assert found.cpu_seconds < 2
    chunks = [path.stat() for path in on_disk(spool.path).rglob("*.arrow")]
    assert found.info.bytes == sum(chunk.st_size for chunk in chunks)
    assert found.info.last_written is not None
    assert found.info.last_written.timestamp() == pytest.approx(max(chunk.st_mtime for chunk in chunks))


@pytest.mark.parametrize("store", ["s3"], indirect=True)
def test_a_spool_in_s3_is_listed_by_pages(store: Place) -> None:
    make_spool(store, 2_100)
    program = (
        "import sys\n"
        "from nsq_anyio.spark.spool_admin import find_spools\n"
        "(info,) = find_spools(sys.argv[1])\n"
        "print(info.state, info.rows)\n"
    )
    command = [sys.executable, "-c", program, str(store)]
    endpoint = os.environ["AWS_ENDPOINT_URL"].removeprefix("http://")
    with start_blocking_portal() as portal:
        with portal.wrap_async_context_manager(recording_proxy(endpoint)) as proxy:
            # A process keeps to its endpoint, so another one looks.
            there = {**os.environ, "AWS_ENDPOINT_URL": f"http://{proxy.address}"}
            shown = subprocess.run(command, env=there, stdout=subprocess.PIPE, text=True, check=True).stdout
            made = requests(proxy)
    assert shown == "unchecked 2098\n"
    # Two partitions with 1,050 chunks and as many records each.
    assert made.total() < 40
    assert set(made) == {"GET", "HEAD"}


def test_an_idle_stream_asks_each_nsqd_once_a_trigger(embedded_nsqd: Nsqd, tmp_path: Path) -> None:
    topic = embedded_nsqd.topic(new_name())
    with start_blocking_portal() as portal:
        with portal.wrap_async_context_manager(recording_proxy(embedded_nsqd.http_address)) as proxy:
            pace = {"nsqdHttp": f"http://{proxy.address}", "pollInterval": "0.05"}
            found = wait_idle(topic, tmp_path, triggers=20, **pace)
            made = requests(proxy)
    # Two more have planned the batch of one row, and found that there is no other.
    assert made == {"GET": found.triggers + 2}
    assert found.seconds >= 20 * 0.05
    assert found.cpu_seconds / found.triggers < 0.05, "seconds a trigger: 5 % of a core, at one a second"


@pytest.mark.parametrize("store", ["s3"], indirect=True)
def test_an_idle_stream_leaves_s3_alone(
    store: Place, embedded_nsqd: Nsqd, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = embedded_nsqd.topic(new_name())
    made: list[Counter[str]] = []
    # It is renewed by the clock, whatever the triggers do.
    monkeypatch.setattr(stream_reader, "Lease", partial(Lease, renew_every=3600))
    storage_of(store).verify_exclusive_put(store)  # which each process does once
    for triggers in (1, 20):
        with monkeypatch.context() as patch:
            made.append(counted_calls(patch))
            wait_idle(topic, str(store), triggers=triggers, pollInterval="0.02", maxWait="0.2")
    assert made[0] == made[1], "what the batch needs, and nothing for each trigger"
    assert made[0]["put"] > 0


@pytest.mark.anyio
@pytest.mark.parametrize("store", ["posix", "s3"], indirect=True)
async def test_an_attempt_that_waits_for_another_looks_seldom(
    store: Place, embedded_nsqd: Nsqd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks more and more seldom, as the storage suggests, and is there soon after the end."""
    topic = embedded_nsqd.topic(new_name())
    topic.publish_numbers(10)
    spool = Spool.create(str(store), "query", topic.name, topic.channel)
    spool.begin(1, [(topic.nsqd.tcp_address, 10)])
    partition = spool.partition(1, 0)
    looks: list[float] = []
    ends: list[float] = []
    stored = Partition.stored

    def look(self: Partition) -> Stored:
        looks.append(time.monotonic())
        return stored(self)

    # A busy disk would take the time that is measured here.
    monkeypatch.setattr(os, "fsync", believe)
    before_chunk(monkeypatch, 0, lambda: partition.store_chunk(0, rows_of([b"other"])))
    monkeypatch.setattr(Partition, "stored", look)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fill, options_of(topic), topic.nsqd.tcp_address, 10, partition)
            # The first look finds that there is something to do, the second one is that of waiting.
            await soon(lambda: len(looks) > 1, "the attempt to give back what it has taken")
            await soon(lambda: time.monotonic() - looks[1] > 3, "the attempt to wait for a while")
            await anyio.to_thread.run_sync(partition.end, 1)
            ends.append(time.monotonic())
    longest = storage_of(store).poll_interval
    assert len(looks) < 3 / longest + 8
    (ended_at,) = ends
    assert min(look for look in looks if look > ended_at) - ended_at < longest + 5
    await soon(lambda: topic.state().depth == 10, "nsqd to take back what was in flight")


def test_a_task_needs_neither_pandas_nor_httpx(embedded_nsqd: Nsqd, tmp_path: Path) -> None:
    """Each takes about a second to import, in each new process of Python, before the first row."""
    topic = embedded_nsqd.topic(new_name())
    topic.publish_numbers(10)
    reader = NsqStreamReader(options_of(topic, spoolDir=tmp_path))
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    (partition,) = reader.partitions(start, end)
    task = NsqStreamReader(options_of(topic, spoolDir=tmp_path))
    (tmp_path / "task").write_bytes(pickle.dumps((task, partition)))
    program = (
        "import pickle, sys\n"
        "task, partition = pickle.load(open(sys.argv[1], 'rb'))\n"
        "print(sum(batch.num_rows for batch in task.read(partition)))\n"
        "print({'pandas', 'httpx', 'nsq_anyio.producer'} & set(sys.modules))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "task")]
    shown = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert shown == "10\nset()\n"
    reader.stop()
