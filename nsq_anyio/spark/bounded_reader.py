"""Reads a bounded number of messages from one nsqd, as a task of Spark does."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import anyio.to_thread

from ..address import nsqd_addresses
from ..connection.background import background_tasks
from ..errors import ConnectionFailed
from .inflow import Inflow
from .link import Link
from .options import ReadOptions
from .portion import MessageChunk

__all__ = ["BoundedReader", "bounded_reader"]

_CHUNK_BYTES = 16 * 1024 * 1024
"""Bytes of bodies in a chunk. Larger chunks cost memory, and are written no faster."""

_BYTES_IN_FLIGHT = 4 * _CHUNK_BYTES
"""Bytes of bodies above which no more messages are let in, so that large ones do not fill the memory."""

_GROWTH = 4
"""With a bound of bytes, one message more is let in for each so many that have come."""

_HELD_BACK = 0.25
"""Seconds for which nsqd buffers small output (its output_buffer_timeout), so that messages arrive late."""

_PART_OF_MSG_TIMEOUT = 0.25
"""The fraction of nsqd's msg_timeout after which a chunk is stored, full or not."""

_CLOSE_TIMEOUT = 10.0
"""Seconds for nsqd to confirm the FINs; messages whose FIN it has not handled by then are delivered again."""


class BoundedReader:
    """Takes messages in chunks, until it has as many as planned or no more come.

    :param msg_timeout: nsqd's
    :raises ConnectionFailed: if there is no connection
    """

    def __init__(
        self,
        link: Link,
        nsqd: str,
        *,
        max_in_flight: int,
        rows: int,
        max_bytes: int | None,
        max_wait: float,
    ) -> None:
        if link.inflow is None:
            raise ConnectionFailed(nsqd, "the connection was lost at once")
        identity = link.inflow.identity
        self._link = link
        self._nsqd = nsqd
        self._max_in_flight = max_in_flight
        self._rows_left = rows
        self._bytes_left = max_bytes
        self._max_wait = max_wait
        # One half arrives while the other is stored.
        self._size = max(1, min(max_in_flight, identity.max_rdy_count) // 2)
        self._patience = identity.msg_timeout * _PART_OF_MSG_TIMEOUT
        self._soon = identity.msg_timeout - self._patience
        self._linger = min(_HELD_BACK, max_wait, self._patience)
        self._since_full = 0
        self._waited = 0.0
        link.arrived = self._arrived
        self._let_in()

    @property
    def refused(self) -> int:
        """How many FINs nsqd has refused: it delivers the messages again, although they are stored."""
        return self._link.refused

    async def take(self) -> MessageChunk:
        """Return the next chunk, oldest messages first; an empty one at the end.

        :raises ConnectionFailed: if the connection was lost and not restored within ``maxWait``
        """
        nothing = MessageChunk("", "", self._nsqd, 0, ())
        while self._rows_left and not self._has_all_bytes and not self._trickles():
            asked_at = anyio.current_time()
            await self._wait_for_messages()
            self._waited += anyio.current_time() - asked_at
            inflow = self._link.inflow
            if inflow is None or not inflow.waiting_rows:
                return nothing
            chunk = inflow.take(min(self._size, self._rows_left), self._most_bytes)
            if chunk:  # otherwise those that had come have timed out
                self._count(chunk)
                return chunk
        return nothing

    def finish(self, chunk: MessageChunk) -> None:
        """Finish the messages of a chunk that is stored."""
        inflow = self._link.inflow
        if inflow is None or not inflow.release(chunk):
            return  # the connection is lost, and nsqd delivers them again
        # First, so that the FINs make no room for more messages than planned.
        self._let_in()
        inflow.finish(chunk)

    def holds(self, chunk: MessageChunk) -> bool:
        """Return whether nsqd still waits for the answers to all messages of a chunk."""
        inflow = self._link.inflow
        return inflow is not None and inflow.holds(chunk) and chunk.deadline > anyio.current_time()

    async def touch_held(self) -> None:
        """TOUCH the messages in flight while chunks are held, as long as nsqd allows; until cancelled.

        A slow disk delays chunks: the second one waits while the first is stored.
        """
        while True:
            await self._link.watch_loop(self._patience)
            inflow = self._link.inflow
            if inflow is not None and inflow.held_rows:
                inflow.touch(self._soon)

    @property
    def _has_all_bytes(self) -> bool:
        return self._bytes_left is not None and self._bytes_left <= 0

    @property
    def _most_bytes(self) -> int:
        return _CHUNK_BYTES if self._bytes_left is None else min(_CHUNK_BYTES, self._bytes_left)

    def _count(self, chunk: MessageChunk) -> None:
        self._since_full += len(chunk)
        self._rows_left -= len(chunk)
        if self._bytes_left is not None:
            self._bytes_left -= chunk.size
        self._let_in()

    def _let_in(self) -> None:
        """Limit what nsqd pushes to the remaining rows, and roughly to the remaining bytes."""
        inflow = self._link.inflow
        if inflow is not None:
            inflow.let_in(min(self._max_in_flight, inflow.held_rows + self._rows_left, self._room(inflow)))

    def _arrived(self) -> None:
        # Without a bound of bytes, the size of small messages makes no difference.
        if self._bytes_left is not None or self._link.waiting_bytes > _CHUNK_BYTES:
            self._let_in()

    def _room(self, inflow: Inflow) -> int:
        """Return how many messages may be in flight, to judge by the size of those that have arrived."""
        if not inflow.received_rows:
            return self._max_in_flight if self._bytes_left is None else 1
        room = _BYTES_IN_FLIGHT - inflow.held_bytes - inflow.waiting_bytes
        more = self._max_in_flight
        if self._bytes_left is not None:
            room = min(room, self._bytes_left - inflow.waiting_bytes)
            # The first ones may be smaller than the rest.
            more = max(1, inflow.received_rows // _GROWTH)
        size = max(1.0, inflow.received_bytes / inflow.received_rows, inflow.recent_size)
        return inflow.in_flight + min(more, max(0, math.ceil(room / size)))

    async def _wait_for_messages(self) -> None:
        """Wait for a chunk's messages, or some, or until no more come.

        :raises ConnectionFailed: as `take`
        """
        link = self._link
        # A message that reaches nsqd within maxWait still has the time to become part of a batch.
        with anyio.move_on_after(self._max_wait + _HELD_BACK + self._linger):
            while True:
                while not link.waiting_rows:
                    self._let_in()  # the connection may be a new one
                    await link.wait_for(1)
                rows, size = min(self._size, self._rows_left), self._most_bytes
                with anyio.move_on_after(self._linger):
                    while 0 < link.waiting_rows < rows and link.waiting_bytes < size:
                        await link.wait_for(rows, size)
                if link.waiting_rows:
                    break  # otherwise the connection was lost meanwhile
        if link.inflow is None:
            raise ConnectionFailed(
                self._nsqd, f"the connection was lost, and not restored within maxWait={self._max_wait:g} s"
            )

    def _trickles(self) -> bool:
        """Return whether messages arrive so slowly that they would keep the batch open for long."""
        if self._since_full >= self._size:
            self._since_full = 0
            self._waited = 0.0
        # Waiting for the disk does not count.
        return self._waited > self._patience


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
    connection = await anyio.to_thread.run_sync(options.consumer_connection)
    (address,) = nsqd_addresses(nsqd)
    consumer = replace(options.consumer_options(), close_timeout=_CLOSE_TIMEOUT)
    link = Link(address, options.topic, options.channel, consumer=consumer, connection=connection)
    async with link.running():
        with anyio.move_on_after(options.connect_timeout):
            while link.inflow is None:
                await link.wait_for(1)
        if link.inflow is None:
            why = link.failure or f"no subscription after connectTimeout={options.connect_timeout:g} s"
            raise why if isinstance(why, ConnectionFailed) else ConnectionFailed(nsqd, why)
        reader = BoundedReader(
            link,
            nsqd,
            max_in_flight=min(options.max_in_flight, rows),
            rows=rows,
            max_bytes=max_bytes,
            max_wait=options.max_wait,
        )
        async with background_tasks() as tasks:
            tasks.start_soon(reader.touch_held)
            yield reader
