"""The publishing of one task's rows, with several MPUBs outstanding at a time.

All rows of a batch are checked before any of them is sent. Arrow puts the size before each body of a batch,
and an MPUB is a slice of the result, without an object for each body.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import anyio
import anyio.to_thread
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from ..errors import InvalidBody, InvalidName, InvalidOption
from ..events import Connected, ConnectFailed, Event
from ..exceptions import first_error
from ..names import check_topic
from ..producer import Producer, produce
from ..producer.bodies import SIZE_LENGTH, batch_size
from ..producer.in_parts import InParts, MpubLimit
from ..protocol.mpub_encoding import EncodedBodies
from .options import WriteOptions

_MAX_AT_ONCE = 64

_FIRST_CONNECTION = 1.0
"""Seconds to wait for the first nsqd of a task; after that, the task begins with any connected nsqd."""


_DEFERRED_AT_ONCE = 500

_compute: Any = pc  # its functions are created at run time, and the stubs know only some of them

# Made from buffers, because converting a Python value, or `to_numpy`, would import pandas; see `schema`.
_NOTHING_BETWEEN = pa.Array.from_buffers(
    pa.large_binary(), 1, [None, pa.py_buffer(bytes(16)), pa.py_buffer(b"")]
)[0]


def publish_rows(batches: Iterator[pa.RecordBatch], options: WriteOptions, partition: int) -> int:
    """Publish all rows, and return their number once nsqd has confirmed them.

    Without rows, no connection is made.

    :param partition: the number of the task's partition. Errors show it, and it chooses the nsqd to begin
        with, so that tasks with few rows do not all publish to the same nsqd
    :raises InvalidOption: for a row that cannot be published, naming it, or a file that cannot be used
    :raises ClusterFailed: if no nsqlookupd answers, or none knows an nsqd
    :raises PublishError: if rows may not be stored
    """
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return 0
    try:
        return anyio.run(_publish, first, batches, options, partition)
    except BaseExceptionGroup as group:
        # The other errors of the group are those of MPUBs that were outstanding at the same time.
        raise first_error(group) from None


async def _publish(
    batch: pa.RecordBatch, others: Iterator[pa.RecordBatch], options: WriteOptions, partition: int
) -> int:
    rows = 0
    nsqds = options.nsqds or await _known_nsqds(options)
    first = partition % len(nsqds)
    tried = anyio.Event()

    def watch(event: Event) -> None:
        if isinstance(event, Connected | ConnectFailed) and event.nsqd == nsqds[first]:
            tried.set()

    connecting = produce(
        [*nsqds[first:], *nsqds[:first]],
        on_event=watch,
        options=options.producer_options(),
        connection=options.connection_options(),
    )
    async with connecting as producer, anyio.create_task_group() as tasks:
        limit = MpubLimit(options.max_body_size)
        send, receive = anyio.create_memory_object_stream[Outgoing](0)
        async with send, receive:
            # Otherwise the nsqd that connects first would get all rows of a short task.
            with anyio.move_on_after(_FIRST_CONNECTION):
                await tried.wait()
            for _ in range(min(_MAX_AT_ONCE, math.ceil(options.max_in_flight / options.batch_rows))):
                tasks.start_soon(_send_each, receive.clone(), producer, limit)
            rows = await _check_each(batch, others, options, partition, send)
    return rows


async def _known_nsqds(options: WriteOptions) -> list[str]:
    from .nsqlookupds import known_nsqds  # noqa: PLC0415 - httpx takes long to import

    return await known_nsqds(options)


async def _check_each(
    batch: pa.RecordBatch | None,
    others: Iterator[pa.RecordBatch],
    options: WriteOptions,
    partition: int,
    send: MemoryObjectSendStream[Outgoing],
) -> int:
    rows = 0
    while batch is not None:
        for request in outgoing(Rows(batch, rows + 1, partition), options):
            await send.send(request)
        rows += batch.num_rows
        # In a thread, since Spark may need long to make the next batch; nsqd's responses arrive meanwhile.
        batch = await anyio.to_thread.run_sync(next, others, None)
    return rows


async def _send_each(
    receive: MemoryObjectReceiveStream[Outgoing], producer: Producer, limit: MpubLimit
) -> None:
    parts = InParts(producer, limit)
    async with receive:
        async for request in receive:
            if isinstance(request, AtOnce):
                await parts.publish_encoded(request.topic, request.bodies)
                continue
            async with anyio.create_task_group() as tasks:
                for body, defer in zip(request.bodies, request.defers, strict=True):
                    tasks.start_soon(_publish_later, producer, request.topic, body, defer)


async def _publish_later(producer: Producer, topic: str, body: bytes, defer: float) -> None:
    await producer.publish(topic, body, defer=defer)


@dataclass(frozen=True, slots=True)
class AtOnce:
    """The bodies of one MPUB."""

    topic: str
    bodies: EncodedBodies


@dataclass(frozen=True, slots=True)
class Deferred:
    """Bodies to publish by a DPUB each.

    :ivar defers: the seconds after which nsqd delivers each of ``bodies``
    """

    topic: str
    bodies: Sequence[bytes]
    defers: Sequence[float]


Outgoing = AtOnce | Deferred


@dataclass(frozen=True, slots=True)
class Rows:
    """Consecutive rows of a task, with their place, which errors show.

    :ivar first: the number of the first row, counted from 1 in the task
    :ivar partition: the number of the task's partition
    """

    batch: pa.RecordBatch
    first: int
    partition: int

    def column(self, name: str) -> pa.Array[Any] | None:
        """Return a column; None if there is none of that name."""
        index = self.batch.schema.get_field_index(name)
        if index < 0:
            return None
        found: pa.Array[Any] = self.batch.column(index)  # pyright: ignore[reportUnknownVariableType] - stubs
        return found

    def place(self, column: str, index: int) -> str:
        """Describe where the value at ``index`` of a column is."""
        return f"column {column}, row {self.first + index} of partition {self.partition}"


def outgoing(rows: Rows, options: WriteOptions) -> Iterator[Outgoing]:
    """Check all rows, then yield what to publish; rows of one topic keep their order.

    :raises InvalidBody: for a body that is null, empty or too large
    :raises InvalidName: for a topic that is null, or that nsqd would refuse
    :raises InvalidOption: for a defer out of range
    """
    bodies = _bodies(rows, options)
    topics = _topics(rows, options)
    defers = _defers(rows, options)
    if isinstance(topics, str) and defers is None:
        return _at_once(topics, bodies, options)
    if isinstance(topics, str):
        topics = [topics] * len(bodies)
    return _by_topic(topics, bodies, defers or [None] * len(bodies), options)


def _bodies(rows: Rows, options: WriteOptions) -> pa.Array[Any]:
    column = rows.column("body")
    assert column is not None  # noqa: S101 - checked when the writer was made
    column = column.cast(pa.large_binary())  # str columns, too; with the sizes, offsets may overflow 32 bits
    sizes = pc.binary_length(cast("pa.LargeBinaryArray", column))
    if column.null_count or pc.min(sizes).as_py() == 0 or (pc.max(sizes).as_py() or 0) > options.max_msg_size:
        _refuse_body(rows, sizes.to_pylist(), options)
    return column


def _refuse_body(rows: Rows, sizes: Sequence[int | None], options: WriteOptions) -> None:
    limit = options.max_msg_size
    for index, size in enumerate(sizes):
        if not size:
            what = "null" if size is None else "an empty body"
            raise InvalidBody(f"{rows.place('body', index)}: {what} is not valid: use 1 to {limit} bytes")
        if size > limit:
            raise InvalidBody(
                f"{rows.place('body', index)}: a body of {size} bytes exceeds maxMsgSize={limit}; "
                "raise it together with nsqd's --max-msg-size"
            )


def _topics(rows: Rows, options: WriteOptions) -> str | list[str]:
    """Return the topic of each row, or a single topic if all rows have the same."""
    if options.topic is not None:
        return options.topic
    column = rows.column("topic")
    assert column is not None  # noqa: S101 - checked when the writer was made
    names = cast("list[str | None]", pc.unique(column).to_pylist())
    for name in names:
        if name is None:
            index = column.to_pylist().index(None)
            raise InvalidName(
                f"{rows.place('topic', index)}: null is not valid: name a topic, or set the option topic for "
                "all rows"
            )
        try:
            check_topic(name)
        except InvalidName as error:
            index = column.to_pylist().index(name)
            raise InvalidName(f"{rows.place('topic', index)}: {error}") from None
    if len(names) == 1:
        return str(names[0])
    return cast("list[str]", column.to_pylist())


def _defers(rows: Rows, options: WriteOptions) -> list[float | None] | None:
    """Return the seconds by which each row is deferred; None if no row is."""
    column = rows.column("defer")
    if column is None or column.null_count == len(column):
        return None
    defers = column.cast(pa.float64(), safe=False).to_pylist()
    for index, defer in enumerate(defers):
        if defer is not None and not 0 <= defer <= options.max_defer:  # nor NaN
            raise InvalidOption(
                f"{rows.place('defer', index)}: {defer} is not valid: use 0 to maxDefer={options.max_defer} "
                "(seconds), or null"
            )
    return defers


def _by_topic(
    topics: Sequence[str], bodies: pa.Array[Any], defers: Sequence[float | None], options: WriteOptions
) -> Iterator[Outgoing]:
    at_once: dict[str, list[int]] = {}
    later: dict[str, tuple[list[int], list[float]]] = {}
    for index, (topic, defer) in enumerate(zip(topics, defers, strict=True)):
        if defer:
            of_topic = later.setdefault(topic, ([], []))
            of_topic[0].append(index)
            of_topic[1].append(defer)
        else:
            at_once.setdefault(topic, []).append(index)
    for topic, rows in at_once.items():
        yield from _at_once(topic, _taken(bodies, rows), options)
    for topic, (rows, seconds) in later.items():
        for start in range(0, len(rows), _DEFERRED_AT_ONCE):
            end = start + _DEFERRED_AT_ONCE
            some = cast("list[bytes]", _taken(bodies, rows[start:end]).to_pylist())
            yield Deferred(topic, some, seconds[start:end])


def _taken(bodies: pa.Array[Any], rows: list[int]) -> pa.Array[Any]:
    numbers = pa.py_buffer(array("q", rows))  # without pandas
    return bodies.take(pa.Array.from_buffers(pa.int64(), len(rows), [None, numbers]))


def _at_once(topic: str, bodies: pa.Array[Any], options: WriteOptions) -> Iterator[AtOnce]:
    # A larger MPUB would have to wait until all others are answered.
    most_rows = min(options.batch_rows, options.max_in_flight)
    for some in encoded(bodies, most_rows, options.batch_bytes):
        yield AtOnce(topic, some)


def encoded(bodies: pa.Array[Any], max_rows: int, max_bytes: int) -> Iterator[EncodedBodies]:
    """Cut bodies into MPUBs of bounded rows and bytes; a body that is too large gets its own.

    :param bodies: of Arrow's type large_binary, without nulls
    :param max_bytes: the most bytes of the body of an MPUB
    """
    if not len(bodies):
        return
    framed = _compute.binary_join_element_wise(_sizes(bodies), bodies, _NOTHING_BETWEEN)
    _, offsets, data = framed.buffers()
    offsets, data = memoryview(offsets).cast("q"), memoryview(data)
    rows = len(bodies)
    start = 0
    while start < rows:
        end = min(start + max_rows, rows)
        if batch_size(0, offsets[end] - offsets[start]) > max_bytes:
            end = bisect_right(offsets, offsets[start] + max_bytes - batch_size(0, 0), start, end) - 1
            end = max(end, start + 1)
        yield EncodedBodies(end - start, data[offsets[start] : offsets[end]])
        start = end


def _sizes(bodies: pa.Array[Any]) -> pa.Array[Any]:
    """Return the size of each body as the four bytes that nsqd reads."""
    numbers = np.frombuffer(_compute.binary_length(bodies).buffers()[1], np.int64, len(bodies))
    sizes = pa.Array.from_buffers(
        pa.binary(SIZE_LENGTH), len(bodies), [None, pa.py_buffer(numbers.astype(f">u{SIZE_LENGTH}").data)]
    )
    return sizes.cast(pa.large_binary())
