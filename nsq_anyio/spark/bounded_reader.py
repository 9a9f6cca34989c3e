"""A bounded part of what waits in one nsqd, as the executors take it."""

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
"""Of bodies in a chunk, from which on a larger one is not worth the memory: the disk is at full speed."""

_HELD_BACK = 0.25
"""Seconds for which nsqd holds small output back (its output_buffer_timeout): what waits comes as late."""

_PART_OF_MSG_TIMEOUT = 0.25
"""The part of nsqd's msg_timeout after which a chunk is stored, full or not."""

_CLOSE_TIMEOUT = 10.0
"""For nsqd to confirm the FINs: what it has not handled by then comes again, as duplicates."""


class BoundedReader:
    """Takes messages in chunks, until there were as many as planned or nothing waits any more.

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
        # The second half comes while the first is stored.
        self._size = max(1, min(max_in_flight, identity.max_rdy_count) // 2)
        self._msg_timeout = identity.msg_timeout
        self._patience = identity.msg_timeout * _PART_OF_MSG_TIMEOUT
        self._linger = min(_HELD_BACK, max_wait, self._patience)
        self._batches = consumer.batches(self._size, self._linger)
        self._since_full = 0
        self._waited = 0.0

    async def take(self) -> list[Message]:
        """The next chunk, oldest first; empty once there are no more.

        :raises ConnectionFailed: if the connection was lost, and is not back after ``maxWait``
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
        """Tell nsqd that these are stored."""
        self._unfinished -= len(chunk)
        self._held = [held for held in self._held if held is not chunk]
        # Lowered before the FINs make room for more than was planned.
        self._bound_in_flight()
        finish_all(chunk)

    async def touch_held(self) -> None:
        """TOUCH what is in flight while it is held, as long as nsqd allows; until cancelled.

        A slow disk holds chunks: the second ages while the first is stored.
        """
        while True:
            await anyio.sleep(self._patience)
            # With what has not been taken yet: it comes after the chunks that are held.
            delegates = {message.delivery.delegate for held in self._held for message in held[:1]}
            for delegate in delegates:
                touch_all(delegate.unanswered(), self._msg_timeout - self._patience)

    def _bound_in_flight(self) -> None:
        """Let nsqd push no more than is left of the plan, and about as many bytes."""
        most = min(self._max_in_flight, self._unfinished)
        if self._bytes_left is not None and self._taken_bytes:
            held = sum(map(len, self._held)) + len(self._pending)
            more = max(0, math.ceil(self._bytes_left * self._taken / self._taken_bytes))
            most = min(most, held + more)
        if most != self._consumer.max_in_flight:
            self._consumer.max_in_flight = most

    async def _next_batch(self) -> list[Message]:
        # A message that comes within maxWait, as nsqd sees it, has time to become a batch.
        with anyio.move_on_after(self._max_wait + _HELD_BACK + self._linger):
            return await anext(self._batches)
        if not self._consumer.connections:
            raise ConnectionFailed(
                self._nsqd, f"the connection was lost, and is not back after maxWait={self._max_wait:g} s"
            )
        return []

    def _trickles(self) -> bool:
        """Whether messages come so slowly that they are no backlog: they would keep the batch open."""
        if self._since_full >= self._size:
            self._since_full = 0
            self._waited = 0.0
        # Waiting for the disk does not count: that says nothing of the messages.
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
    """How many of the first have ``bound`` bytes in sum at most; one in any case, if there is one.

    However large, it would stay in front of the others for ever otherwise.
    """
    if sum(sizes) <= bound:
        return len(sizes)
    return bisect_right(list(itertools.accumulate(sizes)), bound) or 1


@asynccontextmanager
async def bounded_reader(
    options: ReadOptions, nsqd: str, rows: int, *, max_bytes: int | None = None
) -> AsyncGenerator[BoundedReader]:
    """Take what waits in one nsqd, for the length of the block.

    At its end nsqd has handled each FIN, and gets back what is unanswered.

    :param rows: to take at most, 1 or more; more are never in flight either
    :param max_bytes: of bodies to take at most, but for the last message
    :raises ConnectionFailed: if there is no connection after ``connectTimeout``
    :raises InvalidOption: if a file of the options cannot be used
    :raises PermanentRefusal: if nsqd refuses for good
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
    """Connect once more, for the reason; a consumer goes on trying, and tells the log only."""
    (address,) = nsqd_addresses(nsqd)
    async with open_connection(address, prepared(options), NoMessages()):
        raise ConnectionFailed(nsqd, f"no subscription after connectTimeout={connect_timeout:g} s")
