"""Lives of a streaming query, in each of which something happens to its spool at another time.

The reader is driven as Spark drives it, with its offsets as they come from Spark's log. nsqd is a list: what
was not finished is in it, so that each message can be accounted for.
"""

from __future__ import annotations

import json
import os
import pickle
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadMaxRows

from nsq_anyio.spark import chunks, task
from nsq_anyio.spark.chunks import Partition
from nsq_anyio.spark.depth import DepthClient
from nsq_anyio.spark.options import ReadOptions, read_options
from nsq_anyio.spark.plan import Depth
from nsq_anyio.spark.spool_files import put
from nsq_anyio.spark.stream_reader import NsqStreamReader
from nsq_anyio.spark.task import stored_rows
from nsq_anyio.storage.place import Place, storage_of

from .rows import bodies, rows_of

NSQD = "127.0.0.1:4150"
BATCH = 30
CHUNK = 5

Damage = Callable[[Any], object]
"""What happens to a spool, given its place."""
Offset = dict[str, Any]


class _Killed(Exception):
    """The end of a task's process."""


class Query:
    """A query of two partitions that reads 60 messages in two batches.

    :ivar waiting: what nsqd has
    :ivar sink: what the sink has got
    """

    def __init__(self, directory: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        self.waiting = [b"%d" % number for number in range(2 * BATCH)]
        self.sink: list[bytes] = []
        self._options = read_options(
            {
                "nsqd": NSQD,
                "topic": "clicks",
                "channel": "spark",
                "spoolDir": str(directory),
                "minPartitions": "2",
            }
        )
        self.monkeypatch = monkeypatch
        # The disk is believed to keep what it was given: power does not fail here.
        monkeypatch.setattr(os, "fsync", _believe)
        monkeypatch.setattr(DepthClient, "ask", self._ask)
        monkeypatch.setattr(task, "bounded_reader", self._reader)

    def accounted(self) -> Counter[bytes]:
        """What is in the sink or waits."""
        return Counter(self.sink + self.waiting)

    @property
    def spool(self) -> Place:
        """The only directory in `directory`."""
        entries = storage_of(self.directory).entries(self.directory)
        (name,) = (entry.name for entry in entries if entry.is_directory)
        return self.directory / name

    def reader(self) -> NsqStreamReader:
        return NsqStreamReader(self._options)

    def plan(self, reader: NsqStreamReader, start: Offset) -> Offset:
        return cast("Offset", json.loads(json.dumps(reader.latestOffset(start, ReadMaxRows(BATCH)))))

    def read(self, reader: NsqStreamReader, start: Offset, end: Offset) -> list[bytes]:
        """A batch as its tasks read it, each in a process of its own."""
        found: list[bytes] = []
        for partition in reader.partitions(start, end):
            task = cast("NsqStreamReader", pickle.loads(pickle.dumps(reader)))
            found += bodies(task.read(cast("InputPartition", pickle.loads(pickle.dumps(partition)))))
        return found

    def before_chunk(self, partition: str, number: int, action: Callable[[], object]) -> None:
        """Do something before a chunk is stored, once."""
        store_chunk = Partition.store_chunk
        pending = [action]

        def act_and_store(self: Partition, place: int, batch: pa.RecordBatch) -> None:
            if (self.path.name, place) == (partition, number) and pending:
                pending.pop()()
            store_chunk(self, place, batch)

        self.monkeypatch.setattr(Partition, "store_chunk", act_and_store)

    def before_reading_back(self, action: Callable[[], object]) -> None:
        """Do something when a partition has ended, and nothing of it is read yet; once."""
        pending = [action]

        def act_and_read(partition: Partition, first: int = 0) -> Iterator[pa.RecordBatch]:
            if pending:
                pending.pop()()
            return stored_rows(partition, first)

        self.monkeypatch.setattr(task, "stored_rows", act_and_read)

    def _ask(self) -> list[Depth]:
        return [Depth(NSQD, len(self.waiting))]

    @asynccontextmanager
    async def _reader(
        self, _options: ReadOptions, _nsqd: str, rows: int, *, max_bytes: int | None = None
    ) -> AsyncGenerator[_Reader]:
        assert max_bytes is None
        reader = _Reader(self.waiting, rows)
        try:
            yield reader
        finally:
            self.waiting[:0] = reader.in_flight


class _Chunk(list[bytes]):
    def record_batch(self) -> pa.RecordBatch:
        return rows_of(self)


class _Reader:
    refused = 0

    def __init__(self, waiting: list[bytes], rows: int) -> None:
        self._waiting = waiting
        self._rows = rows
        self.in_flight: list[bytes] = []

    async def take(self) -> _Chunk:
        count = min(CHUNK, self._rows)
        chunk = _Chunk(self._waiting[:count])
        del self._waiting[:count]
        self._rows -= len(chunk)
        self.in_flight += chunk
        return chunk

    def finish(self, chunk: list[bytes]) -> None:
        for body in chunk:
            self.in_flight.remove(body)


def _believe(_file: int) -> None:
    pass


def between_batches(query: Query, damage: Damage) -> None:
    """The sink has the first batch, and Spark has not told yet."""
    reader = query.reader()
    start = reader.initialOffset()
    first = query.plan(reader, start)
    query.sink += query.read(reader, start, first)
    damage(query.spool)
    _second_batch(query, reader, first)


def after_a_commit(query: Query, damage: Damage) -> None:
    """The first batch is deleted from the spool, and the second is read and not yet in the sink."""
    reader = query.reader()
    start = reader.initialOffset()
    first = query.plan(reader, start)
    query.sink += query.read(reader, start, first)
    second = query.plan(reader, first)
    reader.commit(first)
    query.read(reader, first, second)
    damage(query.spool)
    restarted = query.reader()
    query.sink += query.read(restarted, first, second)
    query.plan(restarted, second)
    restarted.commit(second)


def between_kill_and_restart(query: Query, damage: Damage) -> None:
    """The first batch is read, all of it is finished, and the sink has nothing."""
    reader = query.reader()
    start = reader.initialOffset()
    first = query.plan(reader, start)
    query.read(reader, start, first)
    damage(query.spool)
    restarted = query.reader()
    query.sink += query.read(restarted, restarted.initialOffset(), first)
    _second_batch(query, restarted, first)


def after_a_kill_in_mid_read(query: Query, damage: Damage) -> None:
    """The first partition has ended, and the second one has two chunks."""
    reader = query.reader()
    start = reader.initialOffset()
    first = query.plan(reader, start)

    def kill() -> None:
        raise _Killed

    query.before_chunk("1", 2, kill)
    with pytest.raises(_Killed):
        query.read(reader, start, first)
    damage(query.spool)
    restarted = query.reader()
    query.sink += query.read(restarted, restarted.initialOffset(), first)
    _second_batch(query, restarted, first)


def after_a_kill_before_the_record(query: Query, damage: Damage) -> None:
    """The second partition has a chunk that is not noted, and not finished either."""
    reader = query.reader()
    start = reader.initialOffset()
    first = query.plan(reader, start)

    def put_and_die(target: Place, *content: bytes | memoryview, record: Place) -> bool:
        put(target, *content)
        raise _Killed

    query.before_chunk("1", 1, lambda: query.monkeypatch.setattr(chunks, "put", put_and_die))
    with pytest.raises(_Killed):
        query.read(reader, start, first)
    query.monkeypatch.setattr(chunks, "put", put)
    # nsqd gives them to nobody until the spool has been looked at: each row comes once.
    held = [query.waiting.pop(0) for _ in range(CHUNK)]
    chunk = query.spool / "1" / "1" / "000001.arrow"
    damage(query.spool)
    if not storage_of(chunk).exists(chunk):
        query.waiting[:0] = held
    restarted = query.reader()
    query.sink += query.read(restarted, restarted.initialOffset(), first)
    _second_batch(query, restarted, first)


def after_a_kill_before_the_read(query: Query, damage: Damage) -> None:
    """Spark has logged the batch, and no task has run."""
    reader = query.reader()
    start = reader.initialOffset()
    first = query.plan(reader, start)
    damage(query.spool)
    restarted = query.reader()
    query.sink += query.read(restarted, restarted.initialOffset(), first)
    _second_batch(query, restarted, first)


def while_it_is_filled(query: Query, damage: Damage) -> None:
    """A task has stored two chunks of the second partition, and goes on."""
    query.before_chunk("1", 2, lambda: damage(query.spool))
    _whole_life(query)


def before_it_is_replayed(query: Query, damage: Damage) -> None:
    """A task has ended the first partition, and reads it back."""
    query.before_reading_back(lambda: damage(query.spool))
    _whole_life(query)


Life = Callable[[Query, Damage], None]
LIVES: Sequence[Life] = (
    between_batches,
    after_a_commit,
    between_kill_and_restart,
    after_a_kill_in_mid_read,
    after_a_kill_before_the_record,
    after_a_kill_before_the_read,
    while_it_is_filled,
    before_it_is_replayed,
)


def _whole_life(query: Query) -> None:
    reader = query.reader()
    start = reader.initialOffset()
    first = query.plan(reader, start)
    query.sink += query.read(reader, start, first)
    _second_batch(query, reader, first)


def _second_batch(query: Query, reader: NsqStreamReader, first: Offset) -> None:
    second = query.plan(reader, first)
    reader.commit(first)
    query.sink += query.read(reader, first, second)
    query.plan(reader, second)
    reader.commit(second)
