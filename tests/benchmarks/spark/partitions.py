"""How fast several partitions read from one nsqd."""

from __future__ import annotations

import multiprocessing
import pickle
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import cast

from pyspark.sql.datasource import InputPartition

from nsq_anyio.spark.options import read_options
from nsq_anyio.spark.stream_reader import NsqStreamReader

from ...spark.nsqds import Topic

_barriers: list[Barrier] = []


@dataclass(frozen=True, slots=True)
class Task:
    """How one partition was read.

    :ivar planned: the rows that it was to read at most
    :ivar rows: those that it has read
    :ivar began_at: on the clock of the machine
    :ivar ended_at: likewise
    :ivar cpu_seconds: what its process used
    """

    planned: int
    rows: int
    began_at: float
    ended_at: float
    cpu_seconds: float


def read_in_parts(
    topic: Topic, directory: Path, *, rows: int, partitions: int, max_wait: float
) -> Sequence[Task]:
    """Read one batch, each partition in a process of its own, all of which begin together."""
    options = {
        **topic.options,
        "spoolDir": str(directory),
        "maxRowsPerBatch": str(rows),
        "minPartitions": str(partitions),
        "maxWait": str(max_wait),
    }
    reader = NsqStreamReader(read_options(options))
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    planned = reader.partitions(start, end)
    processes = multiprocessing.get_context("spawn")
    barrier = processes.Barrier(len(planned))
    with ProcessPoolExecutor(
        len(planned), mp_context=processes, initializer=_share, initargs=(barrier,)
    ) as pool:
        tasks = list(pool.map(_read, [pickle.dumps((reader, partition)) for partition in planned]))
    reader.stop()
    return tasks


def _share(barrier: Barrier) -> None:
    _barriers.append(barrier)


def _read(pickled: bytes) -> Task:
    reader, partition = cast("tuple[NsqStreamReader, InputPartition]", pickle.loads(pickled))
    _barriers[0].wait()
    began_at, used = time.monotonic(), time.process_time()
    rows = sum(batch.num_rows for batch in reader.read(partition))
    planned: int = vars(partition)["rows"]
    return Task(planned, rows, began_at, time.monotonic(), time.process_time() - used)
