"""How long it takes to list a spool of many chunks."""

from __future__ import annotations

import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from nsq_anyio.spark.chunks import encode
from nsq_anyio.spark.spool import Spool
from nsq_anyio.spark.spool_admin import SpoolInfo, find_spools
from nsq_anyio.storage.place import Place, storage_of

from ...spark.rows import rows_of


@dataclass(frozen=True, slots=True)
class Listed:
    """A spool as it was listed.

    :ivar seconds: the time that it took
    :ivar cpu_seconds: what this process used
    """

    info: SpoolInfo
    seconds: float
    cpu_seconds: float


def make_spool(directory: Place, chunks: int, *, partitions: int = 2) -> Spool:
    """Make a spool of so many chunks of one row, the last of each partition an end chunk.

    The files are put without the syncs and checks of a task, which would take minutes.
    """
    spool = Spool.create(str(directory), str(uuid.uuid4()), "clicks", "spark")
    spool.begin(1, [("127.0.0.1:4150", chunks)] * partitions)
    rows = rows_of([b"x" * 100])
    for number in range(partitions):
        partition = spool.partition(1, number)
        storage = storage_of(partition.path)
        count = chunks // partitions
        name = "/".join(partition.path.parts[-3:])
        files: dict[Place, bytes] = {}
        for place in range(count):
            record, content = encode(rows if place < count - 1 else rows.slice(0, 0), name, place)
            files[partition.path / f"{place:06d}.arrow"] = b"".join(content)
            files[partition.record / record.name] = b""
        with ThreadPoolExecutor(16) as threads:
            list(threads.map(storage.replace, files, files.values()))
    return spool


def list_spool(directory: Place, *, check: bool = False) -> Listed:
    """List the only spool of a directory."""
    began_at, used = time.perf_counter(), time.process_time()
    (info,) = find_spools(directory, check=check)
    return Listed(info, time.perf_counter() - began_at, time.process_time() - used)
