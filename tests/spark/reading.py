"""How tests read a topic without Spark."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import anyio.to_thread
import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition

from nsq_anyio.spark.bounded_reader import BoundedReader
from nsq_anyio.spark.chunks import Chunk, Partition
from nsq_anyio.spark.options import ReadOptions, read_options
from nsq_anyio.spark.spool import Spool
from nsq_anyio.spark.spool_admin import SpoolInfo, read_chunks
from nsq_anyio.spark.stream_reader import NsqStreamReader

from ..fake_nsqd import FakeNsqd
from .nsqds import Topic, wait_until
from .rows import bodies

T = TypeVar("T")


def options_of(topic: Topic, **more: str | float | bool | Path) -> ReadOptions:
    """Options that read a topic, in small chunks and without much patience."""
    small = {"maxInFlight": 100, "maxWait": 0.2, "connectTimeout": 5}
    texts = {name: str(value) for name, value in {**small, **more}.items()}
    return read_options({**topic.options, **texts})


def options_for(nsqd: FakeNsqd, **more: float) -> ReadOptions:
    """Options that read a fake nsqd, in small chunks."""
    small = {"maxInFlight": 10, "maxWait": 1.5, "connectTimeout": 10}
    texts = {name: str(value) for name, value in {**small, **more}.items()}
    return read_options({"topic": "t", "channel": "c", "nsqd": nsqd.address, **texts})


async def drained(reader: BoundedReader) -> list[bytes]:
    """Take and finish all that comes; return the bodies."""
    found: list[bytes] = []
    while chunk := await reader.take():
        found += bodies([chunk.record_batch()])
        reader.finish(chunk)
    return found


def new_partition(directory: Path, epoch: int = 1) -> Partition:
    """An empty partition of an epoch that has begun."""
    spool = Spool.create(str(directory), "query", "clicks", "spark")
    spool.begin(epoch, [("127.0.0.1:4150", 1)])
    return spool.partition(epoch, 0)


async def soon(is_so: Callable[[], object], what: str) -> None:
    """Wait, and let the tasks go on, until something is so."""
    await anyio.to_thread.run_sync(partial(wait_until, is_so, what), abandon_on_cancel=True)


async def returned(topic: Topic, count: int) -> None:
    """Wait until nobody has anything in flight, and nsqd offers so many messages again."""
    await soon(lambda: topic.state().in_flight == 0, "nsqd to take back what was in flight")
    state = await anyio.to_thread.run_sync(topic.state)
    assert state.depth == count


def before_chunk(monkeypatch: pytest.MonkeyPatch, number: int, action: Callable[[], object]) -> None:
    """Do something in the worker thread that is about to store a chunk, the first time."""
    store_chunk = Partition.store_chunk
    pending = [action]

    def act_and_store(self: Partition, place: int, batch: pa.RecordBatch) -> None:
        if place == number and pending:
            pending.pop()()
        store_chunk(self, place, batch)

    monkeypatch.setattr(Partition, "store_chunk", act_and_store)


def sound_chunks(info: SpoolInfo) -> list[Chunk]:
    """The chunks of a spool that are sound."""
    return [found for found in read_chunks(info) if isinstance(found, Chunk)]


Offset = dict[str, Any]


def logged(offset: Offset) -> Offset:
    """An offset as a restarted query has it, from its log."""
    found: Offset = json.loads(json.dumps(offset))
    return found


def read(reader: NsqStreamReader, partitions: Iterable[InputPartition]) -> list[bytes]:
    """Each partition as a task does it: in another process, with copies."""
    return [
        body
        for partition in partitions
        for body in bodies(
            cast("NsqStreamReader", pickle.loads(pickle.dumps(reader))).read(
                cast("InputPartition", pickle.loads(pickle.dumps(partition)))
            )
        )
    ]
