"""Keeps one connection of a task to its nsqd, and ends it so that nsqd has handled all answers."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import anyio

from ..address import NsqdAddress
from ..connection import open_connection, prepared
from ..connection.background import Background
from ..consumer.loop_watch import LoopWatch
from ..errors import ConnectionFailed, InvalidOption, PermanentRefusal, TLSFailed
from ..options import ConnectionOptions, ConsumerOptions
from ..policy.reconnect import ReconnectDelay
from ..protocol.run_decoder import RunDecoder
from ..transport.event_loop import LoopEvent, event_class
from .inflow import Inflow

__all__ = ["Link"]

_log = logging.getLogger("nsq_anyio.spark")


class Link:
    """Connects to one nsqd and subscribes, and does so again when the connection is lost.

    :ivar inflow: the messages of the current connection; None while there is none
    :ivar failure: why the last attempt to connect has failed, or the last connection was lost
    :ivar arrived: called when messages have arrived
    """

    def __init__(
        self,
        address: NsqdAddress,
        topic: str,
        channel: str,
        *,
        consumer: ConsumerOptions,
        connection: ConnectionOptions,
    ) -> None:
        self.inflow: Inflow | None = None
        self.failure: ConnectionFailed | None = None
        self.arrived: Callable[[], None] = lambda: None
        self._address = address
        self._topic = topic
        self._channel = channel
        self._close_timeout = consumer.close_timeout
        self._options = prepared(connection)
        self._reconnect = ReconnectDelay(consumer.reconnect_delay, consumer.max_reconnect_delay)
        self._rng = random.Random()
        self._background = Background(self._run, self._shut_down)
        self._new_event = event_class()
        self._changed: LoopEvent | None = None
        self._wanted: tuple[int, float] = (1, math.inf)
        self._watch = LoopWatch()
        self._connections = 0
        self._earlier_refused = 0
        self._accepted = False
        self._released = anyio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Stay connected around a block; then hand back what is not answered, and close.

        :raises PermanentRefusal: if nsqd refuses the connection permanently
        :raises TLSFailed: if nsqd declines TLS, or one side does not trust the other
        """
        async with self._background.around_block():
            yield

    @property
    def waiting_rows(self) -> int:
        """The messages that have arrived and were not taken."""
        return 0 if self.inflow is None else self.inflow.waiting_rows

    @property
    def refused(self) -> int:
        """The answers that nsqd has refused on all connections."""
        return self._earlier_refused + (0 if self.inflow is None else self.inflow.refused)

    @property
    def waiting_bytes(self) -> int:
        """The bytes of their bodies."""
        return 0 if self.inflow is None else self.inflow.waiting_bytes

    async def wait_for(self, rows: int, size: float = math.inf) -> None:
        """Wait until so many messages or bytes of bodies wait, or a connection begins or ends."""
        self._wanted = rows, size
        self._changed = self._new_event()
        try:
            await self._changed.wait()
        finally:
            self._changed = None

    async def watch_loop(self, seconds: float) -> None:
        """Sleep; so it is known for how long the event loop was blocked, and messages may have timed out."""
        await self._watch.sleep(seconds)

    def _messages_came(self) -> None:
        self.arrived()
        rows, size = self._wanted
        if self.waiting_rows >= rows or self.waiting_bytes >= size:
            self._wake()

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.set()

    async def _run(self) -> None:
        while True:
            lasted = await self._serve()
            if self._released.is_set():
                return
            await anyio.sleep(self._reconnect.after(lasted, self._rng))

    async def _serve(self) -> float:
        """Connect, and stay connected; return how many seconds the subscription has lasted."""
        self._connections += 1
        inflow = Inflow(
            str(self._address),
            self._topic,
            self._channel,
            number=self._connections,
            wake=self._messages_came,
            watch=self._watch,
        )
        subscribed_at: float | None = None
        try:
            async with open_connection(
                self._address,
                self._options,
                inflow,
                accepted_before=self._accepted,
                make_decoder=RunDecoder,
            ) as connection:
                self._accepted = True
                inflow.attach(connection)
                await connection.subscribe(self._topic, self._channel)
                subscribed_at = anyio.current_time()
                self.inflow = inflow
                self._wake()
                await self._released.wait()
        except (InvalidOption, PermanentRefusal, TLSFailed) as error:
            self._released.set()
            self._background.fail(error)
        except ConnectionFailed as error:
            self.failure = error
            _log.warning("%s", error)
        finally:
            inflow.detach()
            self.inflow = None
            self._earlier_refused += inflow.refused
            self._wake()
        return 0.0 if subscribed_at is None else anyio.current_time() - subscribed_at

    async def _shut_down(self, cancelled: bool) -> None:
        del cancelled  # close_timeout bounds it in either case
        try:
            with anyio.move_on_after(self._close_timeout) as limit:
                if self.inflow is not None:
                    await self.inflow.drain()
            if limit.cancelled_caught:
                _log.warning("nsqd %s did not confirm the last answers: rows may come twice", self._address)
        except ConnectionFailed as error:
            _log.warning("%s: rows may come twice", error)
        finally:
            self._released.set()
