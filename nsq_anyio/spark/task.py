"""One task of a read with a spool: messages go from nsqd to the spool, and rows from there to Spark.

`read_spooled_partition` is the whole task. It yields the rows that earlier attempts have stored, stores the
missing rows, and yields those too. Each chunk is read once. Only verified rows are yielded, and the rows of a
stored chunk never change, so another attempt yields the same rows.

A message is finished once its chunk is durable. Two attempts at a partition may run at once, but only one of
them can store the chunk with a given number; the other one hands its messages back, and waits. So no two
attempts finish messages for the same chunk.

The plan of a batch is an upper bound. So if an nsqd cannot be reached, its partition ends with the rows that
are stored, and the other messages wait in nsqd. If the task failed instead, the query would fail at every
start, and the rows of all other nsqds would not reach the sink. But if no nsqd can be reached, the task tries
its own nsqd for another ``connectTimeout``, and then fails: probably this machine is cut off, or the options
are wrong. A task knows only its own partition, so the driver passes it the other nsqds of the query.

Spark accepts only rows from a task of a Python source. So a task leaves notes for the driver beside its
partition: a `TaskReport`, and the reason why its nsqd could not be reached. The notes serve only logs and the
query's progress; a task that is killed leaves none.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from functools import partial
from itertools import islice
from typing import Any

import anyio
import anyio.to_thread
import pyarrow as pa
import pyarrow.compute as pc
from anyio.streams.memory import MemoryObjectReceiveStream
from pyspark.sql.datasource import InputPartition

from ..address import nsqd_addresses
from ..connection import NoMessages, open_connection, prepared
from ..envelope import MAGIC, decode
from ..errors import ConnectionFailed, InvalidEnvelope, NSQError, ProtocolError, TLSFailed
from ..exceptions import first_error
from ..options import ConnectionOptions
from ..storage.place import Place, storage_of
from .bounded_reader import CHUNK_BYTES, BoundedReader, bounded_reader
from .chunks import Partition, Stored
from .options import ReadOptions
from .portion import MessageChunk, redelivered
from .spool import Spool
from .spool_errors import NumberTaken, as_spool_error

_ROWS = 10_000
"""The number of rows above which no more chunks are joined into one batch for Spark."""

_FIRST_POLL = 0.1
"""Seconds until the first look at another attempt's chunks. It doubles, up to the storage's limit."""

_UNREACHABLE = ".unreachable"
_REPORT = ".report"

_HEADERS = pa.map_(pa.string(), pa.string())

_log = logging.getLogger("nsq_anyio.spark")

_compute: Any = pc  # its functions are created at run time, and the stubs know only some of them


class SpooledPartition(InputPartition):
    """The part of a batch that one task reads. The driver pickles it.

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
    options: ReadOptions, spool_dir: str, task: SpooledPartition
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition, and add the missing ones to the spool.

    :raises NSQError: as `fill` and `stored_rows`
    """
    partition = Spool.at(spool_dir, task.spool).partition(task.epoch, task.number)
    stored = partition.stored()
    sound = 0
    if not stored.ended:
        if stored.chunks:
            # Read them now: a damaged chunk must be noticed before anything is taken from nsqd.
            yield from _joined(islice(partition.read(), stored.chunks))
            sound = stored.chunks
        anyio.run(_fill_if_reachable, options, task, partition, sound)
    yield from stored_rows(partition, sound)


async def _fill_if_reachable(
    options: ReadOptions, task: SpooledPartition, partition: Partition, sound: int
) -> None:
    """Fill a partition; if its nsqd cannot be reached, end it with the rows that are stored.

    The error is raised if none of ``task.others`` can be reached either, and no rows of the batch are stored.
    """
    fill_it = partial(fill, options, task.nsqd, task.rows, partition, max_bytes=task.max_bytes, sound=sound)
    if task.others is None:
        await fill_it()
        return
    try:
        await fill_it()
    except TLSFailed:
        raise  # the nsqd was reached
    except (ConnectionFailed, ProtocolError) as error:
        is_anything_stored = await anyio.to_thread.run_sync(_has_chunks, partition.path.parent)
        if not is_anything_stored and not await _is_any_reachable(options, {*task.others} - {task.nsqd}):
            # Try once more: the nsqd may have been restarted meanwhile.
            await fill_it()
            return
        _log.warning("%s: the batch ends without its messages, which a later batch reads", error)
        await anyio.to_thread.run_sync(_leave_note, partition, _UNREACHABLE, str(error))
        await fill(options, task.nsqd, 0, partition)


async def fill(
    options: ReadOptions,
    nsqd: str,
    rows: int,
    partition: Partition,
    *,
    max_bytes: int | None = None,
    silence: float = 10.0,
    sound: int = 0,
) -> None:
    """Fill a partition from one nsqd until it has its rows, or no more messages come; then end it.

    Rows that an earlier attempt has stored count, and a partition that has ended is left unchanged. However
    this ends, messages that are not stored are handed back. If another attempt fills the same partition, this
    one hands back its messages and waits for the other to end it.

    :param nsqd: its address, as ``host:port``
    :param rows: the most rows; with 0, the partition only ends
    :param max_bytes: the most bytes of bodies; the last message may exceed it
    :param silence: the seconds without a new chunk, in addition to ``maxWait``, after which another attempt
        counts as dead
    :param sound: the number of chunks that the caller has read already, and need not be verified again
    :raises SpoolError: if the spool cannot be written, or is damaged
    :raises AttemptSuperseded: if Spark has committed the batch
    :raises ConnectionFailed: if nsqd cannot be reached
    :raises PermanentRefusal: if nsqd refuses the connection permanently
    """
    while True:
        stored = await anyio.to_thread.run_sync(partition.stored)
        if stored.ended:
            return
        if rows > stored.rows and stored.chunks > sound:
            # Before anything is taken from nsqd: more rows do not repair a damaged partition.
            await anyio.to_thread.run_sync(_verify, partition, sound)
            sound = stored.chunks
        try:
            await _add_missing(options, nsqd, rows, partition, stored, max_bytes)
        except NumberTaken:
            await _wait_for_other(partition, options.max_wait + silence)
        else:
            return


def _verify(partition: Partition, first: int) -> None:
    for _ in partition.read(first):
        pass


async def _add_missing(
    options: ReadOptions, nsqd: str, rows: int, partition: Partition, stored: Stored, max_bytes: int | None
) -> None:
    """Add the missing rows to a partition, and end it.

    :raises NumberTaken: if another attempt fills it as well
    """
    number = stored.chunks
    rows -= stored.rows
    if max_bytes is not None:
        max_bytes -= stored.bytes
    if rows > 0 and (max_bytes is None or max_bytes > 0):
        report = TaskReport()
        async with bounded_reader(options, nsqd, rows, max_bytes=max_bytes) as reader:
            number = await _store_all(reader, partition, number, report)
        report.refused = reader.refused
        await anyio.to_thread.run_sync(note_report, partition, report)
    await anyio.to_thread.run_sync(partition.end, number)


async def _store_all(reader: BoundedReader, partition: Partition, number: int, report: TaskReport) -> int:
    """Store all chunks, the first under ``number``; return the next free number."""

    async def store(prepared: MemoryObjectReceiveStream[tuple[MessageChunk, pa.RecordBatch]]) -> None:
        nonlocal number
        async for chunk, batch in prepared:
            began_at = anyio.current_time()
            await anyio.to_thread.run_sync(partition.store_chunk, number, batch)
            reader.finish(chunk)
            number += 1
            report.stored(anyio.current_time() - began_at, redelivered(batch))

    # The next chunk is prepared while this one is written.
    send, receive = anyio.create_memory_object_stream[tuple[MessageChunk, pa.RecordBatch]](0)
    try:
        async with receive, anyio.create_task_group() as tasks, send:
            tasks.start_soon(store, receive)
            while chunk := await reader.take():
                await send.send((chunk, chunk.record_batch()))
    except ExceptionGroup as failed:
        # One of the two tasks failed, and the other was cancelled.
        error = first_error(failed)
        raise error from error.__cause__
    return number


async def _wait_for_other(partition: Partition, patience: float) -> None:
    """Wait until the other attempt has ended the partition, or has stored nothing for ``patience``."""
    before = await anyio.to_thread.run_sync(partition.stored)
    pause, longest = _FIRST_POLL, storage_of(partition.path).poll_interval
    give_up_at = anyio.current_time() + patience
    while not before.ended and (left := give_up_at - anyio.current_time()) > 0:
        await anyio.sleep(min(pause, left))
        now = await anyio.to_thread.run_sync(partition.stored)
        pause = min(2 * pause, longest)
        if now != before:
            before = now
            give_up_at = anyio.current_time() + patience


def _has_chunks(epoch: Place) -> bool:
    """Return whether any task of the batch has reached its nsqd; such a task has stored a chunk."""
    with as_spool_error(epoch):
        return any(file.name.endswith(".arrow") for file in storage_of(epoch).files(epoch))


async def _is_any_reachable(options: ReadOptions, nsqds: Iterable[str]) -> bool:
    connection = await anyio.to_thread.run_sync(options.consumer_connection)
    found: list[str] = []
    with anyio.move_on_after(options.connect_timeout):
        async with anyio.create_task_group() as tasks:

            async def ask(nsqd: str) -> None:
                if await _is_reachable(nsqd, connection):
                    found.append(nsqd)
                    tasks.cancel_scope.cancel()

            for nsqd in nsqds:
                tasks.start_soon(partial(ask, nsqd))
    return bool(found)


async def _is_reachable(nsqd: str, options: ConnectionOptions) -> bool:
    try:
        (address,) = nsqd_addresses(nsqd)
        async with open_connection(address, prepared(options), NoMessages()):
            return True
    except NSQError as error:
        _log.warning("another nsqd of the query cannot be reached either: %s", error)
        return False


def stored_rows(partition: Partition, first: int = 0) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an ended partition, the same at each call.

    :param first: the number of the first chunk
    :raises SpoolError: if a chunk is missing or damaged, or cannot be read
    """
    return _joined(partition.read(first, ended=True))


def _joined(chunks: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join small chunks into batches of a good size for Spark.

    A large chunk stays a batch of its own, since the JVM keeps whole batches in memory.
    """
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in chunks:
        if waiting and (rows >= _ROWS or size + batch.nbytes > CHUNK_BYTES):
            yield from _merged(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
    if waiting:
        yield from _merged(waiting)


def _merged(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return pa.Table.from_batches(batches).combine_chunks().to_batches() if len(batches) > 1 else batches


def opened(batches: Iterator[pa.RecordBatch], options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Return rows with their envelopes opened if ``headers`` is set: payloads as bodies, and ``headers``.

    The spool keeps messages as received, so that rows that are put back are published unchanged.

    The headers of a body that is not an envelope are empty. The headers of an envelope that cannot be read
    are null, and its body stays as received: no message may make a query fail forever.
    """
    return map(_with_headers, batches) if options.headers else batches


def _with_headers(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns: dict[str, Any] = {name: batch.column(name) for name in batch.schema.names}
    headers: list[list[tuple[str, str]] | None]
    if _compute.any(_compute.starts_with(columns["body"], MAGIC)).as_py():
        payloads: list[bytes] = []
        headers = []
        for body in columns["body"].to_pylist():
            try:
                envelope = decode(body)
            except InvalidEnvelope:
                headers.append(None)
                payloads.append(body)
            else:
                headers.append(list(envelope.headers.items()))
                payloads.append(envelope.payload)
        columns["body"] = pa.array(payloads, pa.binary())
    else:
        headers = [[]] * batch.num_rows
    columns["headers"] = pa.array(headers, _HEADERS)
    names = ["body", "headers", *(name for name in batch.schema.names if name != "body")]
    return pa.record_batch([columns[name] for name in names], names=names)


@dataclass(slots=True)
class TaskReport:
    """The numbers of one attempt at a partition, or of several added up.

    :ivar chunks: the chunks that were stored
    :ivar store_ms: the milliseconds that storing them took
    :ivar slowest_chunk_ms: the milliseconds that storing the slowest one took
    :ivar redelivered: the rows that nsqd had delivered before, perhaps to an attempt that stored them too
    :ivar refused: the rows that were stored too late to be finished, so that nsqd delivers them again
    """

    chunks: int = 0
    store_ms: int = 0
    slowest_chunk_ms: int = 0
    redelivered: int = 0
    refused: int = 0

    def add(self, other: TaskReport) -> None:
        """Add the numbers of another report."""
        self.chunks += other.chunks
        self.store_ms += other.store_ms
        self.slowest_chunk_ms = max(self.slowest_chunk_ms, other.slowest_chunk_ms)
        self.redelivered += other.redelivered
        self.refused += other.refused

    def stored(self, seconds: float, redelivered: int) -> None:
        """Count a chunk that was stored."""
        self.add(TaskReport(1, round(seconds * 1e3), round(seconds * 1e3), redelivered))


def note_report(partition: Partition, report: TaskReport) -> None:
    """Leave the report for the driver; a failure is only logged."""
    _leave_note(partition, _REPORT, json.dumps(asdict(report)))


def report_of(partition: Partition) -> TaskReport:
    """Return the report of the last attempt; an empty one if there is none."""
    try:
        found: Any = json.loads(_note(partition, _REPORT))
        return TaskReport(**{field.name: max(0, int(found[field.name])) for field in fields(TaskReport)})
    except (OSError, ValueError, KeyError, TypeError):
        return TaskReport()  # half written, or none


def why_unreachable(partition: Partition) -> str | None:
    """Return why the nsqd of a partition could not be reached; None if it could."""
    try:
        return _note(partition, _UNREACHABLE).decode(errors="replace")
    except OSError:
        return None


def _leave_note(partition: Partition, suffix: str, text: str) -> None:
    try:
        storage_of(partition.path).replace(_note_path(partition, suffix), text.encode())
    except OSError as error:
        _log.warning("cannot leave a note for the driver in the spool: %s", error)


def _note(partition: Partition, suffix: str) -> bytes:
    return storage_of(partition.path).get(_note_path(partition, suffix))


def _note_path(partition: Partition, suffix: str) -> Place:
    return partition.path.with_name(partition.path.name + suffix)
