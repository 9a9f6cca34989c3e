"""Chunks of a partition: whole or not there, each number taken once, and the end is final."""

from __future__ import annotations

import errno
import io
import os
import resource
import signal
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsq_anyio.spark.chunks import Partition, Stored, make_all
from nsq_anyio.spark.schema import arrow_schema
from nsq_anyio.spark.spool import Spool
from nsq_anyio.spark.spool_errors import AttemptSuperseded, SpoolDamaged, SpoolError
from nsq_anyio.spark.spool_files import put
from nsq_anyio.spark.task import stored_rows

from .failing_disk import fail_writes
from .rows import bodies, ids, on_disk, rows_of, spooled

LARGE = rows_of([b"x" * 100_000])


@pytest.fixture
def partition(tmp_path: Path) -> Partition:
    """An empty partition of an epoch of a query."""
    (tmp_path / "query" / "1").mkdir(parents=True)
    found = Partition(tmp_path / "query" / "1" / "0")
    make_all([found])
    return found


def names(partition: Partition) -> list[str]:
    return sorted(path.name for path in on_disk(partition.path).iterdir())


@contextmanager
def largest_file(size: int) -> Generator[None]:
    """Have the system refuse to write more to a file, as a quota or a full disk do: after a part of it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


@settings(max_examples=20)  # each one syncs its files
@given(st.lists(st.lists(st.binary(max_size=50), min_size=1, max_size=20), max_size=8), st.booleans())
def test_what_is_published_is_read(chunks: list[list[bytes]], ended: bool) -> None:
    with TemporaryDirectory() as directory:
        partition = Partition(Path(directory, "0"))
        make_all([partition])
        for number, chunk in enumerate(chunks):
            partition.store_chunk(number, rows_of(chunk))
        if ended:
            partition.end(len(chunks))
        everything = [body for chunk in chunks for body in chunk]
        assert spooled(partition) == everything
        assert partition.stored() == Stored(
            len(chunks), len(everything), sum(map(len, everything)), ended=ended
        )
        assert len(names(partition)) == len(chunks) + ended


@settings(max_examples=20)
@given(st.lists(st.sampled_from([1, 100, 4_000, 9_999, 10_000, 12_000]), max_size=6))
def test_replay_joins_chunks_and_repeats_itself(sizes: list[int]) -> None:
    with TemporaryDirectory() as directory:
        partition = Partition(Path(directory, "0"))
        make_all([partition])
        for number, size in enumerate(sizes):
            partition.store_chunk(number, rows_of([b"x"] * size))
        partition.end(len(sizes))
        first, second = list(stored_rows(partition)), list(stored_rows(partition))
    assert ids(first) == ids(second)
    assert sum(batch.num_rows for batch in first) == sum(sizes)
    # A row costs Spark less in a large batch; only the last one may be small.
    assert all(batch.num_rows >= 10_000 for batch in first[:-1])
    assert all(batch.schema.equals(arrow_schema()) for batch in first)


def test_rows_can_be_read_after_their_files_are_deleted(partition: Partition) -> None:
    partition.store_chunk(0, rows_of([b"a"]))
    reading = partition.read()
    batch = next(reading)
    (on_disk(partition.path) / "000000.arrow").unlink()
    assert bodies([batch]) == [b"a"]


def test_of_racing_attempts_one_takes_each_number(partition: Partition) -> None:
    attempts = 4
    start = threading.Barrier(attempts)

    def attempt(name: bytes) -> list[int]:
        """Take as many numbers as possible; return those that were won."""
        start.wait()
        won: list[int] = []
        for number in range(25):
            try:
                partition.store_chunk(number, rows_of([name]))
            except AttemptSuperseded:
                continue
            won.append(number)
        return won

    with ThreadPoolExecutor(attempts) as pool:
        won = dict(enumerate(pool.map(attempt, [b"%d" % name for name in range(attempts)])))
    assert sorted(number for numbers in won.values() for number in numbers) == list(range(25))
    assert spooled(partition) == [
        b"%d" % next(name for name, numbers in won.items() if number in numbers) for number in range(25)
    ]


def test_nothing_follows_the_end(partition: Partition) -> None:
    partition.store_chunk(0, rows_of([b"a"]))
    partition.end(1)
    with pytest.raises(AttemptSuperseded) as caught:
        partition.store_chunk(1, rows_of([b"b"]))
    assert caught.value.path == str(partition.path / "000001.arrow")
    with pytest.raises(AttemptSuperseded):
        partition.end(1)
    assert spooled(partition) == [b"a"]


def test_own_link_whose_answer_was_lost_counts(partition: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    link = os.link

    def link_twice(source: Path, target: Path) -> None:
        """What a network filesystem does when the first answer does not come."""
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", link_twice)
    partition.store_chunk(0, rows_of([b"a"]))
    assert spooled(partition) == [b"a"]
    assert names(partition) == ["000000.arrow"]


def test_file_too_large_is_no_chunk_at_all(partition: Partition) -> None:
    partition.store_chunk(0, rows_of([b"a"]))
    with largest_file(10_000), pytest.raises(SpoolError, match="File too large: free some space") as caught:
        partition.store_chunk(1, LARGE)
    assert caught.value.path == str(partition.path / "000001.arrow")
    assert names(partition) == ["000000.arrow"]
    partition.store_chunk(1, LARGE)
    assert partition.stored().chunks == 2


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (errno.ENOSPC, "free some space; what was not stored stays in NSQ"),
        (errno.EDQUOT, "free some space"),
        (errno.EROFS, "let the user that runs the driver and the executors write there"),
        (errno.ESTALE, "must outlive the query"),
        (errno.EIO, os.strerror(errno.EIO)),
    ],
)
def test_failed_write_is_explained(
    partition: Partition, monkeypatch: pytest.MonkeyPatch, code: int, remedy: str
) -> None:
    fail_writes(monkeypatch, code)
    with pytest.raises(SpoolError) as caught:
        partition.store_chunk(0, rows_of([b"a"]))
    assert str(partition.path / "000000.arrow") in str(caught.value)
    assert os.strerror(code) in str(caught.value)
    assert remedy in str(caught.value)
    assert isinstance(caught.value.__cause__, OSError)
    assert names(partition) == []


def test_filesystem_without_hard_links_is_named(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: Path, target: Path) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(SpoolError, match="a filesystem with hard links"):
        partition.store_chunk(0, rows_of([b"a"]))
    assert names(partition) == []


def test_partial_writes_are_continued(partition: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    class Reluctant(io.FileIO):
        def write(self, content: object, /) -> int:
            return super().write(memoryview(content)[:7])  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]

    def open_reluctantly(path: Path, mode: str, buffering: int) -> io.FileIO:
        return Reluctant(path, mode)

    monkeypatch.setattr(Path, "open", open_reluctantly)
    assert put(partition.path / "file", b"0123456789", b"0123456789" * 4)
    monkeypatch.undo()
    assert (on_disk(partition.path) / "file").read_bytes() == b"0123456789" * 5


@pytest.mark.parametrize("content", [b"", b"ARROW1\0\0", b"no chunk" * 100])
def test_damaged_chunk_is_named(partition: Partition, content: bytes) -> None:
    partition.store_chunk(0, rows_of([b"a"]))
    path = on_disk(partition.path) / "000001.arrow"
    path.write_bytes(content)
    for read in (partition.stored, lambda: spooled(partition)):
        with pytest.raises(SpoolError, match="is not a chunk of a spool") as caught:
            read()
        assert caught.value.path == str(path)


def test_cut_chunk_is_named(partition: Partition) -> None:
    partition.store_chunk(0, LARGE)
    path = on_disk(partition.path) / "000000.arrow"
    path.write_bytes(path.read_bytes()[:50_000])
    with pytest.raises(SpoolDamaged, match="is damaged: its checksum is wrong") as caught:
        spooled(partition)
    assert caught.value.path == str(path)


def test_missing_number_is_named(partition: Partition) -> None:
    partition.store_chunk(1, rows_of([b"b"]))
    with pytest.raises(SpoolError) as caught:
        spooled(partition)
    assert caught.value.path == str(partition.path / "000000.arrow")


def test_what_a_killed_writer_left_is_no_chunk(partition: Partition) -> None:
    (on_disk(partition.path) / ".000000.arrow-0f").write_bytes(b"half of it")
    assert partition.stored() == Stored(0, 0, 0, ended=False)
    partition.store_chunk(0, rows_of([b"a"]))
    assert spooled(partition) == [b"a"]


def test_attempt_after_the_commit_is_lost(partition: Partition) -> None:
    epoch = on_disk(partition.path).parent
    Spool(epoch.parent).commit(1)
    for action in (
        partition.stored,
        lambda: spooled(partition),
        lambda: partition.store_chunk(0, rows_of([b"a"])),
    ):
        with pytest.raises(AttemptSuperseded, match="Spark has committed this batch"):
            action()
    assert not epoch.exists()


def test_vanished_spool_is_not_taken_for_a_commit(partition: Partition) -> None:
    query = on_disk(partition.path).parent.parent
    query.rename(query.with_name("elsewhere"))
    for action in (
        lambda: spooled(partition),
        lambda: partition.store_chunk(0, rows_of([b"a"])),
        partition.stored,
    ):
        with pytest.raises(
            SpoolError, match="must be a path that the driver and all executors share"
        ) as caught:
            action()
        assert not isinstance(caught.value, AttemptSuperseded)
        assert caught.value.path == str(query)
