"""Reads a bounded number of messages from one nsqd, as a task of Spark does."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import NoReturn

import anyio
import anyio.to_thread

from ..address import nsqd_addresses
from ..connection import NoMessages, open_connection, prepared
from ..connection.background import background_tasks
from ..consumer import Consumer, Message, consume
from ..consumer.message import finish_all
from ..errors import ConnectionFailed
from ..options import ConnectionOptions
from .options import ReadOptions
from .schema import warm_up

__all__ = ["BoundedReader", "bounded_reader", "fitting", "touch_all"]

_CHUNK_BYTES = 16 * 1024 * 1024
"""Bytes of bodies in a chunk. Larger chunks cost memory, and are written no faster."""

_HELD_BACK = 0.25
"""Seconds for which nsqd buffers small output (its output_buffer_timeout), so that messages arrive late."""

_PART_OF_MSG_TIMEOUT = 0.25
"""The fraction of nsqd's msg_timeout after which a chunk is stored, full or not."""

_CLOSE_TIMEOUT = 10.0
"""Seconds for nsqd to confirm the FINs; messages whose FIN it has not handled by then are delivered again."""


class BoundedReader:
    """Takes messages in chunks, until it has as many as planned or no more come.

    :raises ConnectionFailed: if there is no connection
    """

    def __init__(
        self,
        consumer: Consumer,
        nsqd: str,
        *,
        max_in_flight: int,
        rows: int,
        max_bytes: int | None,
        max_wait: float,
    ) -> None:
        self._consumer = consumer
        self._nsqd = nsqd
        self._max_in_flight = max_in_flight
        self._unfinished = rows
        self._rows_left = rows
        self._bytes_left = max_bytes
        self._max_wait = max_wait
        self._pending: list[Message] = []
        self._held: list[list[Message]] = []
        self._taken = self._taken_bytes = 0
        connections = consumer.statistics().per_connection
        if not connections:
            raise ConnectionFailed(nsqd, "the connection was lost at once")
        identity = connections[0].identity
        # One half arrives while the other is stored.
        self._size = max(1, min(max_in_flight, identity.max_rdy_count) // 2)
        self._msg_timeout = identity.msg_timeout
        self._patience = identity.msg_timeout * _PART_OF_MSG_TIMEOUT
        self._linger = min(_HELD_BACK, max_wait, self._patience)
        self._batches = consumer.batches(self._size, self._linger)
        self._since_full = 0
        self._waited = 0.0

    async def take(self) -> list[Message]:
        """Return the next chunk, oldest messages first; an empty one at the end.

        :raises ConnectionFailed: if the connection was lost and not restored within ``maxWait``
        """
        if not self._pending and self._rows_left and not self._trickles():
            asked_at = anyio.current_time()
            self._pending = (await self._next_batch())[: self._rows_left]
            self._waited += anyio.current_time() - asked_at
            self._since_full += len(self._pending)
        chunk = self._within_bounds()
        self._pending = self._pending[len(chunk) :]
        self._rows_left -= len(chunk)
        if chunk:
            self._held.append(chunk)
            self._bound_in_flight()
        return chunk

    def finish(self, chunk: list[Message]) -> None:
        """Finish the messages of a chunk that is stored."""
        self._unfinished -= len(chunk)
        self._held = [held for held in self._held if held is not chunk]
        # First, so that the FINs make no room for more messages than planned.
        self._bound_in_flight()
        finish_all(chunk)

    async def touch_held(self) -> None:
        """TOUCH the messages in flight while chunks are held, as long as nsqd allows; until cancelled.

        A slow disk delays chunks: the second one waits while the first is stored.
        """
        while True:
            await anyio.sleep(self._patience)
            # This includes messages that were not taken yet, which have to wait longer.
            delegates = {message.delivery.delegate for held in self._held for message in held[:1]}
            for delegate in delegates:
                touch_all(delegate.unanswered(), self._msg_timeout - self._patience)

    def _bound_in_flight(self) -> None:
        """Limit what nsqd pushes to the remaining rows, and roughly to the remaining bytes."""
        most = min(self._max_in_flight, self._unfinished)
        if self._bytes_left is not None and self._taken_bytes:
            held = sum(map(len, self._held)) + len(self._pending)
            more = max(0, math.ceil(self._bytes_left * self._taken / self._taken_bytes))
            most = min(most, held + more)
        if most != self._consumer.max_in_flight:
            self._consumer.max_in_flight = most

    async def _next_batch(self) -> list[Message]:
        # A message that reaches nsqd within maxWait still has the time to become part of a batch.
        with anyio.move_on_after(self._max_wait + _HELD_BACK + self._linger):
            return await anext(self._batches)
        if not self._consumer.connections:
            raise ConnectionFailed(
                self._nsqd, f"the connection was lost, and not restored within maxWait={self._max_wait:g} s"
            )
        return []

    def _trickles(self) -> bool:
        """Return whether messages arrive so slowly that they would keep the batch open for long."""
        if self._since_full >= self._size:
            self._since_full = 0
            self._waited = 0.0
        # Waiting for the disk does not count.
        return self._waited > self._patience

    def _within_bounds(self) -> list[Message]:
        if self._bytes_left is not None and self._bytes_left <= 0:
            return []
        bound = _CHUNK_BYTES if self._bytes_left is None else min(_CHUNK_BYTES, self._bytes_left)
        sizes = [len(message.body) for message in self._pending]
        count = fitting(sizes, bound)
        size = sum(sizes[:count])
        self._taken += count
        self._taken_bytes += size
        if self._bytes_left is not None:
            self._bytes_left -= size
        return self._pending[:count]


def touch_all(messages: Iterable[Message], soon: float) -> None:
    """TOUCH the messages that would time out within ``soon`` seconds, as long as nsqd allows it."""
    soon_is = anyio.current_time() + soon
    for message in messages:
        delivery = message.delivery
        if delivery.deadline < min(soon_is, delivery.hard_deadline) and not message.responded:
            message.touch()


def fitting(sizes: Sequence[int], bound: int) -> int:
    """Return how many of the first messages fit into ``bound`` bytes; 1 at least, if there is any.

    Otherwise a message that is too large would block those behind it forever.
    """
    if sum(sizes) <= bound:
        return len(sizes)
    return bisect_right(list(itertools.accumulate(sizes)), bound) or 1


@asynccontextmanager
async def bounded_reader(
    options: ReadOptions, nsqd: str, rows: int, *, max_bytes: int | None = None
) -> AsyncGenerator[BoundedReader]:
    """Read from one nsqd for the length of the block.

    The block ends when nsqd has handled all FINs; unanswered messages go back to it.

    :param rows: the most messages to take, 1 or more; no more are ever in flight
    :param max_bytes: the most bytes of bodies to take; the last message may exceed it
    :raises ConnectionFailed: if there is no connection after ``connectTimeout``
    :raises InvalidOption: if a file that the options name cannot be used
    :raises PermanentRefusal: if nsqd refuses the connection permanently
    """
    await anyio.to_thread.run_sync(warm_up)
    connection = await anyio.to_thread.run_sync(options.consumer_connection)
    max_in_flight = min(options.max_in_flight, rows)
    async with consume(
        options.topic,
        options.channel,
        nsqd=nsqd,
        max_in_flight=max_in_flight,
        options=replace(options.consumer_options(), close_timeout=_CLOSE_TIMEOUT),
        connection=connection,
    ) as consumer:
        with anyio.move_on_after(options.connect_timeout) as limit:
            await consumer.ready()
        if limit.cancelled_caught:
            await _tell_why(nsqd, connection, options.connect_timeout)
        reader = BoundedReader(
            consumer,
            nsqd,
            max_in_flight=max_in_flight,
            rows=rows,
            max_bytes=max_bytes,
            max_wait=options.max_wait,
        )
        async with background_tasks() as tasks:
            tasks.start_soon(reader.touch_held)
            yield reader


async def _tell_why(nsqd: str, options: ConnectionOptions, connect_timeout: float) -> NoReturn:
    """Connect once more to get the reason: a consumer keeps trying, and only logs it."""
    (address,) = nsqd_addresses(nsqd)
    async with open_connection(address, prepared(options), NoMessages()):
        raise ConnectionFailed(nsqd, f"no subscription after connectTimeout={connect_timeout:g} s")
