"""A partition that is read through a spool: what the driver sends to the task, and how the task reads it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import anyio
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from .fill import fill
from .options import ReadOptions
from .spool import Spool
from .stored_rows import stored_rows
from .unreachable import fill_unless_unreachable


class SpooledPartition(InputPartition):
    """What one task reads.

    :ivar spool: the spool's name in ``spoolDir``
    :ivar epoch: the number of the batch
    :ivar number: the number of the partition in the batch
    :ivar nsqd: the nsqd to read from, as ``host:port``
    :ivar rows: the most rows to read
    :ivar max_bytes: the most bytes of bodies to read, which the last message may exceed; None for no limit
    :ivar others: the other nsqds of the query; None if the task has to fail when its nsqd is unreachable
    """

    def __init__(
        self,
        spool: str,
        epoch: int,
        number: int,
        nsqd: str,
        rows: int,
        *,
        max_bytes: int | None = None,
        others: tuple[str, ...] | None = None,
    ) -> None:
        self.spool = spool
        self.epoch = epoch
        self.number = number
        self.nsqd = nsqd
        self.rows = rows
        self.max_bytes = max_bytes
        self.others = others


def read_spooled_partition(
    options: ReadOptions, spool_dir: str, partition: SpooledPartition
) -> Iterator[pa.RecordBatch]:
    """Add the missing rows of a partition to the spool, and return all of its rows.

    :raises NSQError: as `fill` and `stored_rows`
    """
    place = Spool.at(spool_dir, partition.spool).partition(partition.epoch, partition.number)
    filling = fill if partition.others is None else partial(fill_unless_unreachable, others=partition.others)
    anyio.run(partial(filling, max_bytes=partition.max_bytes), options, partition.nsqd, partition.rows, place)
    yield from stored_rows(place)
