"""Turns rows into batches to publish; all rows are checked before any is sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InvalidBody, InvalidName, InvalidOption
from ..names import check_topic
from .options import WriteOptions

__all__ = ["Outgoing", "Rows", "outgoing"]

_SIZE_LENGTH = 4
"""The bytes in an MPUB for the size of each body, and as many for their count."""

_DEFERRED_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Outgoing:
    """The bodies of one MPUB. With ``defers``, each body is published by a DPUB of its own instead.

    :ivar defers: the seconds after which nsqd delivers each of ``bodies``; None to deliver at once
    """

    topic: str
    bodies: Sequence[bytes]
    defers: Sequence[float] | None = None


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
        return _cut(topics, bodies, options)
    if isinstance(topics, str):
        topics = [topics] * len(bodies)
    return _by_topic(topics, bodies, defers or [None] * len(bodies), options)


def _bodies(rows: Rows, options: WriteOptions) -> list[bytes]:
    column = rows.column("body")
    assert column is not None  # noqa: S101 - checked when the writer was made
    if pa.types.is_string(column.type):
        column = column.cast(pa.binary())
    elif pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary())
    sizes = pc.binary_length(cast("pa.BinaryArray", column))
    if column.null_count or pc.min(sizes).as_py() == 0 or (pc.max(sizes).as_py() or 0) > options.max_msg_size:
        _refuse_body(rows, sizes.to_pylist(), options)
    return cast("list[bytes]", column.to_pylist())


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
    topics: Sequence[str], bodies: Sequence[bytes], defers: Sequence[float | None], options: WriteOptions
) -> Iterator[Outgoing]:
    at_once: dict[str, list[bytes]] = {}
    later: dict[str, tuple[list[bytes], list[float]]] = {}
    for topic, body, defer in zip(topics, bodies, defers, strict=True):
        if defer:
            of_topic = later.setdefault(topic, ([], []))
            of_topic[0].append(body)
            of_topic[1].append(defer)
        else:
            at_once.setdefault(topic, []).append(body)
    for topic, some in at_once.items():
        yield from _cut(topic, some, options)
    for topic, (some, seconds) in later.items():
        for start in range(0, len(some), _DEFERRED_AT_ONCE):
            end = start + _DEFERRED_AT_ONCE
            yield Outgoing(topic, some[start:end], seconds[start:end])


def _cut(topic: str, bodies: Sequence[bytes], options: WriteOptions) -> Iterator[Outgoing]:
    """Split bodies into MPUBs of bounded rows and bytes; a body that is too large gets its own."""
    # A larger MPUB would have to wait until all others are answered.
    most_rows = min(options.batch_rows, options.max_in_flight)
    start = 0
    while start < len(bodies):
        some = bodies[start : start + most_rows]
        if _size(some) > options.batch_bytes:
            some = some[: _fitting(some, options.batch_bytes)]
        yield Outgoing(topic, some)
        start += len(some)


def _size(bodies: Sequence[bytes]) -> int:
    return _SIZE_LENGTH * (1 + len(bodies)) + sum(map(len, bodies))


def _fitting(bodies: Sequence[bytes], limit: int) -> int:
    """Return how many of the first bodies fit; 1 at least."""
    size = _SIZE_LENGTH
    for count, body in enumerate(bodies):
        size += _SIZE_LENGTH + len(body)
        if size > limit:
            return max(1, count)
    return len(bodies)
