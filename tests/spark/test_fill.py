"""From nsqd to the spool: what is finished is on disk, and what is not goes back, whatever fails."""

from __future__ import annotations

import errno
import os
import shutil
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from nsq_anyio.errors import ConnectionFailed
from nsq_anyio.spark import chunks
from nsq_anyio.spark.chunks import Partition
from nsq_anyio.spark.spool import Spool
from nsq_anyio.spark.spool_errors import AttemptSuperseded, SpoolError
from nsq_anyio.spark.task import SpooledPartition, fill, read_spooled_partition
from nsq_anyio.storage.place import Place

from .failing_disk import fail_writes
from .nsqds import Kind, Topic, running_nsqd, wait_until
from .reading import before_chunk, new_partition, options_of, returned, soon
from .rows import bodies, ids, on_disk, rows_of, spooled

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(30)]


def numbers(first: int, end: int) -> set[bytes]:
    return {str(number).encode() for number in range(first, end)}


def temporaries(partition: Partition) -> list[str]:
    return [path.name for path in on_disk(partition.path).iterdir() if path.name.startswith(".")]


async def test_each_message_is_stored_once_and_finished(topic: Topic, tmp_path: Path) -> None:
    topic.publish_numbers(500)
    partition = new_partition(tmp_path)
    await fill(options_of(topic), topic.nsqd.tcp_address, 400, partition)
    found = spooled(partition)
    assert len(found) == len(set(found)) == 400
    stored = partition.stored()
    assert (stored.rows, stored.ended) == (400, True)
    assert stored.chunks >= 8, "a chunk has half of maxInFlight at most"
    state = topic.state()
    assert (state.depth, state.in_flight, state.requeued) == (100, 0, 0)
    assert temporaries(partition) == []


async def test_nothing_waits(topic: Topic, tmp_path: Path) -> None:
    partition = new_partition(tmp_path)
    await fill(options_of(topic), topic.nsqd.tcp_address, 10, partition)
    assert partition.stored() == chunks.Stored(0, 0, 0, ended=True)


async def test_whole_partition_needs_no_nsqd(topic: Topic, tmp_path: Path, unreachable: str) -> None:
    topic.publish_numbers(100)
    partition = new_partition(tmp_path)
    await fill(options_of(topic), topic.nsqd.tcp_address, 50, partition)
    before = ids(partition.read())
    await fill(options_of(topic), unreachable, 50, partition)
    assert ids(partition.read()) == before
    assert len(before) == 50


async def test_rerun_goes_on_behind_what_is_stored(
    topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise SpoolError(tmp_path, "gone")

    topic.publish_numbers(300)
    partition = new_partition(tmp_path)
    before_chunk(monkeypatch, 2, fail)
    with pytest.raises(SpoolError, match="gone"):
        await fill(options_of(topic), topic.nsqd.tcp_address, 250, partition)
    before = ids(partition.read())
    assert not partition.stored().ended
    await returned(topic, 300 - len(before))
    await fill(options_of(topic), topic.nsqd.tcp_address, 250, partition)
    assert ids(partition.read())[: len(before)] == before
    found = spooled(partition)
    assert len(found) == len(set(found)) == 250
    assert topic.state().left == 50


def test_a_retry_reads_each_chunk_once(topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stored chunks are verified before anything is taken from nsqd, and not read again afterwards."""

    def fail() -> None:
        raise SpoolError(tmp_path, "gone")

    def counted(content: bytes, path: Place, place: str, number: int) -> chunks.Chunk:
        read.append(number)
        return decode(content, path, place, number)

    topic.publish_numbers(300)
    partition = new_partition(tmp_path)
    task = SpooledPartition("query", 1, 0, topic.nsqd.tcp_address, 250)
    before_chunk(monkeypatch, 2, fail)
    with pytest.raises(SpoolError, match="gone"):
        list(read_spooled_partition(options_of(topic), str(tmp_path), task))
    wait_until(lambda: topic.state().in_flight == 0, "nsqd to take back what was in flight")
    assert partition.stored().chunks == 2
    decode, read = chunks.decode, list[int]()
    monkeypatch.setattr(chunks, "decode", counted)
    found = bodies(read_spooled_partition(options_of(topic), str(tmp_path), task))
    assert len(found) == len(set(found)) == 250
    assert read == list(range(partition.stored().chunks))


async def test_bytes_count_over_attempts(
    topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise SpoolError(tmp_path, "gone")

    topic.publish([b"x" * 100] * 100)
    partition = new_partition(tmp_path)
    before_chunk(monkeypatch, 1, fail)
    options = options_of(topic, maxInFlight=20)
    with pytest.raises(SpoolError, match="gone"):
        await fill(options, topic.nsqd.tcp_address, 100, partition, max_bytes=3_000)
    assert partition.stored().bytes > 0
    await returned(topic, 100 - partition.stored().rows)
    await fill(options, topic.nsqd.tcp_address, 100, partition, max_bytes=3_000)
    assert 3_000 <= partition.stored().bytes <= 3_100
    assert topic.state().left == 100 - partition.stored().rows


async def test_second_attempt_while_the_first_lives(
    topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first hangs before it publishes a chunk; the second takes what there is, and ends the partition."""
    topic.publish_numbers(300)
    partition = new_partition(tmp_path)
    hangs, goes_on = threading.Event(), threading.Event()

    def hang() -> None:
        hangs.set()
        assert goes_on.wait(20)

    before_chunk(monkeypatch, 0, hang)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fill, options_of(topic), topic.nsqd.tcp_address, 300, partition)
        await soon(hangs.is_set, "the first attempt to hang")
        await soon(lambda: topic.state().in_flight == 100, "the first attempt to hold what it may")
        await fill(options_of(topic), topic.nsqd.tcp_address, 300, partition)
        goes_on.set()
    assert len(spooled(partition)) == 200
    await returned(topic, 100)
    assert topic.state().requeued >= 100, "handed back, not timed out"
    assert topic.state().timed_out == 0
    assert temporaries(partition) == []
    await fill(options_of(topic), topic.nsqd.tcp_address, 300, rest := new_partition(tmp_path, 2))
    assert {*spooled(partition), *spooled(rest)} == numbers(0, 300)


async def test_two_racing_attempts_lose_nothing(topic: Topic, tmp_path: Path) -> None:
    topic.publish_numbers(600)
    partition = new_partition(tmp_path)
    async with anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(fill, options_of(topic), topic.nsqd.tcp_address, 600, partition)
    assert partition.stored().ended
    await soon(lambda: topic.state().in_flight == 0, "nsqd to take back what was in flight")
    stored = spooled(partition)
    assert len(set(stored)) + topic.state().depth == 600
    await fill(options_of(topic), topic.nsqd.tcp_address, 600, rest := new_partition(tmp_path, 2))
    assert {*stored, *spooled(rest)} == numbers(0, 600)


async def test_another_attempt_stores_a_chunk_and_dies(
    real_topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This one gives back what it holds, waits for a while, and goes on behind what the other has stored."""
    real_topic.publish_numbers(200)
    partition = new_partition(tmp_path)
    store_chunk = Partition.store_chunk
    before_chunk(monkeypatch, 1, lambda: store_chunk(partition, 1, rows_of([b"other"])))
    await fill(options_of(real_topic), real_topic.nsqd.tcp_address, 201, partition, silence=0.3)
    assert partition.stored().ended
    found = spooled(partition)
    assert len(found) == len(set(found))
    assert {b"other", *numbers(0, 200)} == set(found)
    assert real_topic.state().left == 0


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
async def test_disk_gets_full_in_a_chunk(
    topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    topic.publish_numbers(300)
    partition = new_partition(tmp_path)
    with monkeypatch.context() as patch:
        fail_writes(patch, code, after=4)  # two for each chunk
        with pytest.raises(SpoolError, match=os.strerror(code)) as caught:
            await fill(options_of(topic), topic.nsqd.tcp_address, 300, partition)
    assert caught.value.path == str(partition.path / "000002.arrow")
    assert isinstance(caught.value.__cause__, OSError)
    assert temporaries(partition) == []
    assert partition.stored().chunks == 2
    # Whatever was finished is on disk, and the rest can be had at once.
    await returned(topic, 300 - partition.stored().rows)
    await fill(options_of(topic), topic.nsqd.tcp_address, 300, partition)
    assert set(spooled(partition)) == numbers(0, 300)


async def test_directory_vanishes(topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic.publish_numbers(300)
    partition = new_partition(tmp_path)
    before_chunk(monkeypatch, 2, lambda: shutil.rmtree(tmp_path / "query"))
    with pytest.raises(SpoolError, match="must outlive the query") as caught:
        await fill(options_of(topic), topic.nsqd.tcp_address, 300, partition)
    assert not isinstance(caught.value, AttemptSuperseded)
    await soon(lambda: topic.state().in_flight == 0, "nsqd to take back what was in flight")
    assert topic.state().depth >= 200, "only two chunks were finished"


async def test_batch_is_committed_meanwhile(
    topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic.publish_numbers(100)
    partition = new_partition(tmp_path)
    before_chunk(monkeypatch, 0, lambda: Spool.at(str(tmp_path), "query").commit(1))
    with pytest.raises(AttemptSuperseded, match="Spark has committed this batch"):
        await fill(options_of(topic), topic.nsqd.tcp_address, 100, partition)
    await returned(topic, 100)
    with pytest.raises(AttemptSuperseded, match="Spark has committed this batch"):
        await fill(options_of(topic), topic.nsqd.tcp_address, 100, partition)
    assert topic.state().left == 100


async def test_damaged_chunk_stops_it_before_it_takes_anything(topic: Topic, tmp_path: Path) -> None:
    topic.publish_numbers(10)
    partition = new_partition(tmp_path)
    (on_disk(partition.path) / "000000.arrow").write_bytes(b"not a chunk")
    with pytest.raises(SpoolError, match=r"000000\.arrow: is not a chunk of a spool"):
        await fill(options_of(topic), topic.nsqd.tcp_address, 10, partition)
    assert topic.state().depth == 10


async def test_large_message_comes_alone(topic: Topic, tmp_path: Path) -> None:
    topic.publish([b"x" * 50_000])
    partition = new_partition(tmp_path)
    await fill(options_of(topic), topic.nsqd.tcp_address, 1, partition, max_bytes=10)
    assert spooled(partition) == [b"x" * 50_000]
    assert partition.stored().ended


async def test_slow_disk_and_short_timeout(
    topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second chunk ages while the first is stored, and would time out while it is stored itself."""
    sync = os.fsync

    def slow_sync(file: int) -> None:
        time.sleep(0.6)
        sync(file)

    topic.publish_numbers(250)
    partition = new_partition(tmp_path)
    options = options_of(topic, msgTimeout=2)
    # nsqd looks at a new channel's timeouts within 5 s (its QueueScanRefreshInterval).
    await anyio.sleep(5.2)
    monkeypatch.setattr(os, "fsync", slow_sync)
    await fill(options, topic.nsqd.tcp_address, 250, partition)
    found = spooled(partition)
    assert len(found) == len(set(found)) == 250, "the disk's time says nothing of the messages"
    state = topic.state()
    assert (state.left, state.timed_out) == (0, 0)


@pytest.mark.parametrize("kind", ["real", "embedded"])
async def test_storing_takes_longer_than_nsqd_allows(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What times out meanwhile comes again: stored twice with the same id, and not lost."""
    with ExitStack() as running:
        flags = ["--msg-timeout=1s", "--max-msg-timeout=1s"]
        nsqd = await anyio.to_thread.run_sync(running.enter_context, running_nsqd(kind, flags))
        topic = nsqd.topic("slow")
        topic.publish_numbers(60)
        partition = new_partition(tmp_path)
        # nsqd looks at a new channel's timeouts within 5 s (its QueueScanRefreshInterval).
        before_chunk(monkeypatch, 0, lambda: wait_until(lambda: topic.state().timed_out, "a timeout"))
        await fill(options_of(topic), topic.nsqd.tcp_address, 60, partition)
        await fill(options_of(topic), topic.nsqd.tcp_address, 200, rest := new_partition(tmp_path, 2))
        assert topic.state().left == 0
    assert {*spooled(partition), *spooled(rest)} == numbers(0, 60)
    found = set(zip(ids(partition.read()), spooled(partition), strict=True))
    found |= set(zip(ids(rest.read()), spooled(rest), strict=True))
    assert len(found) == 60


async def test_cancellation_leaves_nothing_behind(
    topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic.publish_numbers(300)
    partition = new_partition(tmp_path)
    reached = threading.Event()
    before_chunk(monkeypatch, 2, reached.set)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fill, options_of(topic), topic.nsqd.tcp_address, 300, partition)
        await soon(reached.is_set, "the third chunk")
        tasks.cancel_scope.cancel()
    await soon(lambda: topic.state().in_flight == 0, "nsqd to take back what was in flight")
    assert topic.state().clients == 0
    assert temporaries(partition) == []
    await fill(options_of(topic), topic.nsqd.tcp_address, 400, partition)
    assert set(spooled(partition)) == numbers(0, 300)
    assert topic.state().left == 0


async def test_unreachable_nsqd_is_named(real_topic: Topic, tmp_path: Path, unreachable: str) -> None:
    partition = new_partition(tmp_path)
    with pytest.raises(ConnectionFailed, match=unreachable):
        await fill(options_of(real_topic, connectTimeout=0.3), unreachable, 10, partition)
    assert not partition.stored().ended, "a retry must read it"


@pytest.mark.parametrize("kind", ["real", "embedded"])
async def test_nsqd_vanishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
    with ExitStack() as running:
        nsqd = await anyio.to_thread.run_sync(running.enter_context, running_nsqd(kind))
        topic = nsqd.topic("vanishing")
        topic.publish_numbers(300)
        partition = new_partition(tmp_path)
        before_chunk(monkeypatch, 1, running.close)
        with pytest.raises(ConnectionFailed, match=nsqd.tcp_address):
            await fill(options_of(topic), nsqd.tcp_address, 300, partition)
    assert 0 < partition.stored().rows < 300
    assert not partition.stored().ended, "a retry must go on"
    assert temporaries(partition) == []
