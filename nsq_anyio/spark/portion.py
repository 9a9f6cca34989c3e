"""Messages as they were received: whole frames in a buffer, without an object for each message.

A frame is ``[int32 size][int32 type][int64 timestamp][uint16 attempts][16-byte id][body]``, so each field has
a fixed place in it, and Arrow cuts a column out of many frames at once. `protocol/run_decoder.py` finds such
runs of frames.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .schema import TIMESTAMP, arrow_schema, no_rows, repeated

_TIMESTAMP = 8
_ATTEMPTS = 16
_ID = 18
_BODY = 34

_compute: Any = pc  # its functions are created at run time, and the stubs know only some of them


@dataclass(slots=True)
class Arrival:
    """The deadlines of messages that arrived together, by the clock of the event loop.

    :ivar deadline: when nsqd stops waiting for their answers
    :ivar hard_deadline: the latest time to which TOUCH can extend the deadline
    """

    deadline: float
    hard_deadline: float


class Portion:
    """Messages whose frames follow each other in one buffer.

    :param offsets: where each frame begins in ``data``, and where the last one ends
    """

    __slots__ = ("_data", "_offsets", "arrival", "rows")

    def __init__(self, arrival: Arrival, data: bytes, offsets: memoryview) -> None:
        self.arrival: Arrival = arrival
        self.rows: int = len(offsets) - 1
        self._data = data
        self._offsets = offsets

    @property
    def size(self) -> int:
        """The bytes of the bodies."""
        return self._bytes_of(self.rows)

    def frames(self) -> pa.Array[Any]:
        """Return the frames as an array, without copying them."""
        buffers = [None, pa.py_buffer(self._offsets), pa.py_buffer(self._data)]
        return pa.Array.from_buffers(pa.binary(), self.rows, buffers)

    def ids(self) -> list[bytes]:
        """Return the ids, as they are sent in commands."""
        ids: list[Any] = _field(self.frames(), _ID, _BODY).to_pylist()
        return ids

    def count_within(self, bound: int) -> int:
        """Return how many of the first messages have bodies of at most ``bound`` bytes together."""
        return bisect_right(range(1, self.rows + 1), bound, key=self._bytes_of)

    def forget_bodies(self) -> None:
        """Keep only the part of each frame before its body: answers need the id."""
        data = memoryview(self._data)
        self._data = b"".join(data[start : start + _BODY] for start in self._offsets[:-1])
        self._offsets = memoryview(array("i", range(0, len(self._data) + 1, _BODY)))

    def split(self, rows: int) -> tuple[Portion, Portion]:
        """Return the first messages, and the others."""
        first, rest = self._offsets[: rows + 1], self._offsets[rows:]
        return Portion(self.arrival, self._data, first), Portion(self.arrival, self._data, rest)

    def _bytes_of(self, rows: int) -> int:
        return int(self._offsets[rows]) - int(self._offsets[0]) - _BODY * rows


@dataclass(frozen=True, eq=False)
class MessageChunk:
    """Messages that are stored, and then answered, together; empty when there are no more.

    :ivar nsqd: the nsqd that delivered them, as ``host:port`` or a path
    """

    topic: str
    channel: str
    nsqd: str
    portions: Sequence[Portion]

    def __len__(self) -> int:
        return sum(portion.rows for portion in self.portions)

    @property
    def deadline(self) -> float:
        """The earliest deadline of the messages."""
        return min(portion.arrival.deadline for portion in self.portions)

    @property
    def hard_deadline(self) -> float:
        """The latest time to which TOUCH can extend the deadline of the oldest message."""
        return min(portion.arrival.hard_deadline for portion in self.portions)

    @cached_property
    def size(self) -> int:
        """The bytes of the bodies."""
        return sum(portion.size for portion in self.portions)

    def record_batch(self) -> pa.RecordBatch:
        """Return the messages as rows, in order."""
        count = len(self)
        if not count:
            return no_rows()
        frames = pa.concat_arrays([portion.frames() for portion in self.portions])
        columns: list[pa.Array[Any]] = [
            _compute.binary_replace_slice(frames, start=0, stop=_BODY, replacement=b""),
            # The cast checks that all ids are UTF-8.
            _field(frames, _ID, _BODY).cast(pa.string()),
            _timestamps(frames),
            _numbers(frames, _ATTEMPTS, _ID, "H", pa.uint16()).cast(pa.int32()),
            repeated(self.topic, count),
            repeated(self.channel, count),
            repeated(self.nsqd, count),
        ]
        return pa.record_batch(columns, schema=arrow_schema())


def redelivered(rows: pa.RecordBatch) -> int:
    """Return how many of the rows nsqd had delivered before."""
    # A comparison by Arrow would import pandas; see `schema`.
    counted: list[dict[str, int]] = _compute.value_counts(rows.column("attempts")).to_pylist()
    return sum(each["counts"] for each in counted if each["values"] > 1)


def split_off(waiting: deque[Portion], rows: int, max_bytes: int) -> list[Portion]:
    """Take the first messages within both bounds; at least one, if any waits and ``rows`` is not 0.

    A single message beyond ``max_bytes`` would otherwise block the others forever.
    """
    taken: list[Portion] = []
    while waiting and rows:
        portion = waiting[0]
        count = min(rows, portion.rows if portion.size <= max_bytes else portion.count_within(max_bytes))
        if not count and not taken:
            count = 1
        if not count:
            break
        waiting.popleft()
        if count < portion.rows:
            portion, rest = portion.split(count)
            waiting.appendleft(rest)
        taken.append(portion)
        rows -= count
        max_bytes -= portion.size
    return taken


def _field(frames: pa.Array[Any], start: int, stop: int) -> pa.Array[Any]:
    field: pa.Array[Any] = _compute.binary_slice(frames, start=start, stop=stop)
    return field


def _numbers(frames: pa.Array[Any], start: int, stop: int, code: str, kind: pa.DataType) -> pa.Array[Any]:
    """Return a column of big-endian integers."""
    content: Any = _field(frames, start, stop).buffers()[2]
    numbers: array[int] = array(code)
    numbers.frombytes(memoryview(content)[: len(frames) * (stop - start)])
    if sys.byteorder == "little":
        numbers.byteswap()
    return pa.Array.from_buffers(kind, len(frames), [None, pa.py_buffer(numbers)])


def _timestamps(frames: pa.Array[Any]) -> pa.Array[Any]:
    nanoseconds = _numbers(frames, _TIMESTAMP, _ATTEMPTS, "q", pa.int64())
    # Spark's timestamps count microseconds.
    return nanoseconds.cast(pa.timestamp("ns", tz="UTC")).cast(TIMESTAMP, safe=False)
