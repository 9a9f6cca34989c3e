"""What nsqd sends for large bodies, beside what is kept of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pyarrow as pa
from anyio.from_thread import start_blocking_portal
from pyspark.sql.datasource import InputPartition

from nsq_anyio.spark.options import read_options
from nsq_anyio.spark.stream_reader import NsqStreamReader

from ...recording_proxy import recording_proxy
from ...spark.nsqds import Topic


@dataclass(frozen=True, slots=True)
class Moved:
    """What was read.

    :ivar sent: the bytes that nsqd has sent, with frames and answers
    :ivar kept: the bytes of the bodies that are in the spool
    :ivar batches: the bytes of the bodies of each batch
    """

    sent: int
    kept: int
    batches: tuple[int, ...]


def read_by_bytes(topic: Topic, directory: Path, *, max_bytes: int, partitions: int) -> Moved:
    """Read all that waits, in batches of so many bytes, as a streaming query does."""
    with start_blocking_portal() as portal:
        with portal.wrap_async_context_manager(recording_proxy(topic.nsqd.tcp_address)) as proxy:
            reader = NsqStreamReader(
                read_options(
                    {
                        **topic.options,
                        "nsqd": proxy.address,
                        "spoolDir": str(directory),
                        "maxBytesPerBatch": str(max_bytes),
                        "minPartitions": str(partitions),
                    }
                )
            )
            batches = _read_all(reader)
            reader.stop()
            sent = sum(map(len, proxy.received))
    return Moved(sent, sum(batches), tuple(batches))


def _read_all(reader: NsqStreamReader) -> list[int]:
    """Return the bytes of the bodies of each batch."""

    def read(partition: InputPartition) -> int:
        columns = (cast("pa.BinaryArray", batch.column("body")) for batch in reader.read(partition))
        return sum(column.total_values_length for column in columns)

    reader.prepareForTriggerAvailableNow()
    found: list[int] = []
    start = reader.initialOffset()
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        planned = reader.partitions(start, end)
        with ThreadPoolExecutor(len(planned)) as tasks:
            found.append(sum(tasks.map(read, planned)))
        reader.commit(end)
        start = end
    return found
