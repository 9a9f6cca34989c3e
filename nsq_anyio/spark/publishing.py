"""Publishes the rows of one task, with several MPUBs outstanding at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator

import anyio
import anyio.to_thread
import pyarrow as pa
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from ..events import Connected, ConnectFailed, Event
from ..exceptions import first_error
from ..producer import Producer, produce
from ..producer.in_parts import InParts, MpubLimit
from .options import WriteOptions
from .outgoing import AtOnce, Outgoing, Rows, outgoing

_MAX_AT_ONCE = 64

_FIRST_CONNECTION = 1.0
"""Seconds to wait for the first nsqd of a task; after that it begins with any other."""


def publish_rows(batches: Iterator[pa.RecordBatch], options: WriteOptions, partition: int) -> int:
    """Publish all rows, and return their number once nsqd has confirmed them.

    All rows of a batch are checked before any of them is published. Without rows, no connection is made.

    :param partition: the number of the task's partition, for errors. Of several nsqds, the task begins with
        the one at this place, so that tasks with few rows do not all publish to the first
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
    from .known_nsqds import known_nsqds  # noqa: PLC0415 - httpx takes long to import

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
