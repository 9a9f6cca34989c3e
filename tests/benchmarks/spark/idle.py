"""What a query costs that waits for messages, apart from Spark's own part."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from nsq_anyio.spark.options import read_options
from nsq_anyio.spark.stream_reader import NsqStreamReader

from ...spark.nsqds import Topic


@dataclass(frozen=True, slots=True)
class Idle:
    """A query that waited.

    :ivar triggers: how often it asked for messages
    :ivar seconds: how long it waited
    :ivar cpu_seconds: what this process used meanwhile
    """

    triggers: int
    seconds: float
    cpu_seconds: float

    @property
    def share(self) -> float:
        """The share of a core."""
        return self.cpu_seconds / self.seconds


def wait_idle(topic: Topic, spool_dir: Path | str, *, triggers: int, **more: str) -> Idle:
    """Read a batch of one row, then ask for more so many times, as Spark's driver does; there is none."""
    topic.publish([b"only"])
    reader = NsqStreamReader(read_options({**topic.options, "spoolDir": str(spool_dir), **more}))
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    for partition in reader.partitions(start, end):
        assert sum(batch.num_rows for batch in reader.read(partition)) == 1
    reader.latestOffset(end, reader.getDefaultReadLimit())
    began_at, used = time.monotonic(), time.process_time()
    for _ in range(triggers):
        assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end
    found = Idle(triggers, time.monotonic() - began_at, time.process_time() - used)
    reader.stop()
    return found
