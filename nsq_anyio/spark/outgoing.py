"""Turns rows into batches to publish; all rows are checked before any is sent."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InvalidBody, InvalidName, InvalidOption
from ..names import check_topic
from ..protocol.mpub_encoding import EncodedBodies
from .encoded import encoded
from .options import WriteOptions

_DEFERRED_AT_ONCE = 500


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
    """Consecutive rows of a task, with their place for errors.

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
    column = column.cast(pa.large_binary())  # also of text; with its sizes, it may be too large for 32 bits
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
    numbers = pa.py_buffer(array("q", rows))  # as `encoded` does, without pandas
    return bodies.take(pa.Array.from_buffers(pa.int64(), len(rows), [None, numbers]))


def _at_once(topic: str, bodies: pa.Array[Any], options: WriteOptions) -> Iterator[AtOnce]:
    # A larger MPUB would have to wait until all others are answered.
    most_rows = min(options.batch_rows, options.max_in_flight)
    for some in encoded(bodies, most_rows, options.batch_bytes):
        yield AtOnce(topic, some)
