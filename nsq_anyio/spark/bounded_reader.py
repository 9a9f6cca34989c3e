"""The reader of a task: a bounded number of messages from one nsqd, in chunks.

It does not use a consumer, because an object for each message would take most of the time. It touches the
messages of chunks that wait for a slow disk.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio

from ..errors import ConnectionFailed
from ..tasks import background_tasks
from .inflow import Inflow
from .links import Link, Links, connected
from .options import ReadOptions
from .portion import MessageChunk, Portion

_MOST_CONNECTIONS = 4
"""With more connections, contention between clients in nsqd costs more than larger chunks save."""

CHUNK_BYTES = 16 * 1024 * 1024
"""Bytes of bodies in a chunk. Larger chunks cost memory, and are written no faster."""

BYTES_IN_FLIGHT = 4 * CHUNK_BYTES
"""Bytes of bodies above which no more messages are let in, so that large ones do not fill the memory."""

_GROWTH = 4
"""With a byte limit, one more message is let in for every four that have arrived."""

_LINGER = 0.25
"""Seconds that a chunk has to fill once messages have come, since each chunk costs a file."""

_PART_OF_MSG_TIMEOUT = 0.25
"""The fraction of nsqd's msg_timeout after which a chunk is stored, full or not."""


@dataclass(slots=True)
class _Share:
    """One connection's part of the rows to read, and of the messages in flight.

    The parts are disjoint. So all connections together never let in more than was planned, however nsqd
    divides the messages among them. The rows of a connection that cannot be restored are left to the next
    batch.

    :ivar rows_left: the rows that it may still take; below 0 if nsqd has delivered more, as it does when held
        messages time out
    """

    link: Link
    rows_left: int
    max_in_flight: int

    def take(self, rows: int, max_bytes: int) -> list[Portion]:
        inflow = self.link.inflow
        taken = [] if inflow is None else inflow.take(rows, max_bytes)
        self.rows_left -= sum(portion.rows for portion in taken)
        return taken


class BoundedReader:
    """Takes messages in chunks, until it has as many as planned or no more come."""

    def __init__(
        self, links: Links, options: ReadOptions, nsqd: str, rows: int, max_bytes: int | None
    ) -> None:
        self._links = links
        self._nsqd = nsqd
        self._topic = options.topic
        self._channel = options.channel
        of_rows, in_flight = _parts(rows, len(links)), _parts(links.max_in_flight, len(links))
        self._shares = list(map(_Share, links, of_rows, in_flight))
        self._bytes_left = max_bytes
        self._max_wait = options.max_wait
        # One half arrives while the other is stored.
        self._size = max(1, links.max_in_flight // 2)
        self._patience = links.identity.msg_timeout * _PART_OF_MSG_TIMEOUT
        self._soon = links.identity.msg_timeout - self._patience
        self._latest = self._max_wait + links.identity.output_buffer_timeout
        self._linger = min(_LINGER, self._max_wait, self._patience)
        self._since_full = 0
        self._waited = 0.0
        links.arrived = self._arrived
        links.changed = self._let_in
        self._let_in()

    @property
    def refused(self) -> int:
        """The FINs that nsqd has refused; it delivers their messages again, although they are stored."""
        return self._links.refused

    async def take(self) -> MessageChunk:
        """Return the next chunk, oldest messages first; an empty one at the end.

        :raises ConnectionFailed: if the connection was lost and not restored within ``maxWait``
        """
        nothing = self._chunk([])
        while self._rows_left > 0 and not self._has_all_bytes and not self._trickles():
            asked_at = anyio.current_time()
            await self._wait_for_messages()
            self._waited += anyio.current_time() - asked_at
            if not self._links.waiting_rows:
                return nothing
            chunk = self._chunk(self._oldest())
            if chunk:  # otherwise the messages have timed out
                self._count(chunk)
                return chunk
        return nothing

    def finish(self, chunk: MessageChunk) -> None:
        """Finish the messages of a stored chunk, each on the connection that delivered it.

        nsqd delivers the messages of a lost connection again.
        """
        released = [(inflow, inflow.release(chunk.portions)) for inflow in self._links.inflows]
        # First, so that the FINs make no room for more messages than planned.
        self._let_in()
        for inflow, portions in released:
            inflow.finish(portions)

    def forget_bodies(self, chunk: MessageChunk) -> None:
        """Free the memory of the bodies of a chunk that stays held."""
        for inflow in self._links.inflows:
            inflow.forget_bodies(chunk.portions)
        self._let_in()

    def holds(self, chunk: MessageChunk) -> bool:
        """Return whether nsqd still waits for the answers to all messages of a chunk."""
        inflows = self._links.inflows
        return chunk.deadline > anyio.current_time() and all(
            any(inflow.holds(portion) for inflow in inflows) for portion in chunk.portions
        )

    async def touch_held(self) -> None:
        """While chunks are held, TOUCH all messages in flight as long as nsqd allows. Runs until cancelled.

        A slow disk delays chunks: one waits while the one before it is stored.
        """
        while True:
            await self._links.watch_loop(self._patience)
            inflows = self._links.inflows
            if any(inflow.held_rows for inflow in inflows):
                for inflow in inflows:
                    inflow.touch(self._soon)

    @property
    def _rows_left(self) -> int:
        return sum(share.rows_left for share in self._shares)

    @property
    def _has_all_bytes(self) -> bool:
        return self._bytes_left is not None and self._bytes_left <= 0

    @property
    def _most_bytes(self) -> int:
        return CHUNK_BYTES if self._bytes_left is None else min(CHUNK_BYTES, self._bytes_left)

    def _chunk(self, portions: list[Portion]) -> MessageChunk:
        return MessageChunk(self._topic, self._channel, self._nsqd, portions)

    def _oldest(self) -> list[Portion]:
        """Take a chunk's messages, first those of the connection whose messages have waited for longest."""
        taken: list[Portion] = []
        rows, size = min(self._size, self._rows_left), self._most_bytes
        for share in sorted(self._shares, key=_waits_since):
            if rows > 0 and size > 0:
                portions = share.take(rows, size)
                rows -= sum(portion.rows for portion in portions)
                size -= sum(portion.size for portion in portions)
                taken += portions
        return taken

    def _count(self, chunk: MessageChunk) -> None:
        self._since_full += len(chunk)
        if self._bytes_left is not None:
            self._bytes_left -= chunk.size
        self._let_in()

    def _let_in(self) -> None:
        """Limit what nsqd pushes to the remaining rows, and roughly to the remaining bytes."""
        for share in self._shares:
            inflow = share.link.inflow
            if inflow is not None:
                rows_left = inflow.held_rows + max(0, share.rows_left)
                inflow.let_in(min(share.max_in_flight, rows_left, self._room(inflow, share.max_in_flight)))

    def _arrived(self) -> None:
        # Without a byte limit, the size of small messages makes no difference.
        if self._bytes_left is not None or self._links.waiting_bytes > CHUNK_BYTES:
            self._let_in()

    def _room(self, inflow: Inflow, most: int) -> int:
        """Return how many messages may be in flight, judging by the sizes of earlier messages.

        :param most: the number without a byte limit, and for small messages
        """
        if not inflow.received_rows:
            return most if self._bytes_left is None else 1
        room = BYTES_IN_FLIGHT // len(self._links) - inflow.held_bytes - inflow.waiting_bytes
        more = most
        if self._bytes_left is not None:
            room = min(room, self._bytes_left - inflow.waiting_bytes)
            # The first messages may be smaller than the rest.
            more = max(1, inflow.received_rows // _GROWTH)
        size = max(1.0, inflow.received_bytes / inflow.received_rows, inflow.recent_size)
        return inflow.in_flight + min(more, max(0, math.ceil(room / size)))

    async def _wait_for_messages(self) -> None:
        """Wait until a chunk is full, or until some messages wait and no more come in time, or none come.

        :raises ConnectionFailed: as `take`
        """
        links = self._links
        # Long enough for a message that reaches nsqd within maxWait to become part of the batch, although
        # nsqd may buffer it.
        with anyio.move_on_after(self._latest + self._linger):
            while True:
                while not links.waiting_rows:
                    await links.wait_for(1)
                rows, size = min(self._size, self._rows_left), self._most_bytes
                with anyio.move_on_after(self._linger):
                    while 0 < links.waiting_rows < rows and links.waiting_bytes < size:
                        await links.wait_for(rows, size)
                if links.waiting_rows:
                    break  # otherwise the connection was lost meanwhile
        if not links.inflows:
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
    # With a byte limit, each connection would let in one message, which may already be too much.
    most = _MOST_CONNECTIONS if max_bytes is None else 1
    async with connected(options, nsqd, max_in_flight=min(options.max_in_flight, rows), most=most) as links:
        reader = BoundedReader(links, options, nsqd, rows, max_bytes)
        async with background_tasks() as tasks:
            tasks.start_soon(reader.touch_held)
            yield reader


def _parts(whole: int, count: int) -> list[int]:
    """Divide a number into parts that are nearly equal."""
    return [whole // count + (number < whole % count) for number in range(count)]


def _waits_since(share: _Share) -> float:
    inflow = share.link.inflow
    return math.inf if inflow is None else inflow.oldest
