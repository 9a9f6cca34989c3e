"""The connections of a task to its nsqd: as many as its limit of messages in flight needs.

nsqd limits the messages in flight on each connection (its --max-rdy-count, 2,500 by default). With more of
them, chunks are larger, and a chunk costs a file and its fsync, or requests to a store, whatever its size.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager

import anyio
import anyio.to_thread

from ..address import NsqdAddress, nsqd_addresses
from ..connection import Experience, open_connection, prepared
from ..connection.flow import LoopWatch
from ..errors import ConnectionFailed, InvalidOption, PermanentRefusal, TLSFailed
from ..options import ConnectionOptions
from ..policy.delays import ReconnectDelay
from ..protocol.identify import IdentifyReply
from ..protocol.run_decoder import RunDecoder
from ..tasks import Background
from ..transport.event_loop import LoopEvent, event_class
from .inflow import Inflow
from .options import ReadOptions

CLOSE_TIMEOUT = 10.0
"""Seconds for nsqd to confirm the FINs; messages whose FIN it has not handled by then are delivered again."""

_MSG_TIMEOUT = "E_BAD_BODY IDENTIFY msg timeout"
"""nsqd's refusal of the msg_timeout that IDENTIFY asks for."""

_log = logging.getLogger("nsq_anyio.spark")


class Links:
    """The connections to an nsqd: one at first, then as many as ``max_in_flight`` needs.

    :param max_in_flight: the messages that may be in flight on all connections together
    :param most: the most connections
    :ivar max_in_flight: the same, lowered to nsqd's limit for these connections
    :ivar identity: nsqd's reply to the first IDENTIFY
    :ivar arrived: called when messages have arrived
    :ivar changed: called when a connection begins or ends
    """

    def __init__(
        self, options: ReadOptions, nsqd: str, connection: ConnectionOptions, *, max_in_flight: int, most: int
    ) -> None:
        self.max_in_flight: int = max_in_flight
        self.identity: IdentifyReply = IdentifyReply()
        self._most = most
        self.arrived: Callable[[], None] = _ignore
        self.changed: Callable[[], None] = _ignore
        self._nsqd = nsqd
        self._options = options
        self._connection = prepared(connection)
        self._watch = LoopWatch()
        self._background = Background(self._run, self._shut_down)
        self._new_event = event_class()
        self._woken: LoopEvent | None = None
        self._wanted: tuple[int, float] = (1, math.inf)
        self._links = [self._link()]
        self._all_known = anyio.Event()

    def __iter__(self) -> Iterator[Link]:
        return iter(self._links)

    def __len__(self) -> int:
        return len(self._links)

    @property
    def inflows(self) -> list[Inflow]:
        """The inflow of each current connection."""
        return [link.inflow for link in self._links if link.inflow is not None]

    @property
    def waiting_rows(self) -> int:
        """The messages that have arrived and were not taken yet."""
        return sum(inflow.waiting_rows for inflow in self.inflows)

    @property
    def waiting_bytes(self) -> int:
        """The bytes of the waiting bodies."""
        return sum(inflow.waiting_bytes for inflow in self.inflows)

    @property
    def refused(self) -> int:
        """The answers that nsqd has refused on all connections."""
        return sum(link.refused for link in self._links)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Stay connected around a block; then hand back unanswered messages, and close.

        The block begins with the first connection, and does not wait for the others.

        :raises ConnectionFailed: if there is no connection after ``connectTimeout``
        :raises PermanentRefusal: if nsqd refuses a connection permanently
        :raises TLSFailed: if nsqd declines TLS, or one side does not trust the other
        """
        async with self._background.around_block():
            await self._connect()
            yield

    async def wait_for(self, rows: int, size: float = math.inf) -> None:
        """Wait for ``rows`` messages or ``size`` bytes of bodies, or until a connection begins or ends."""
        self._wanted = rows, size
        self._woken = self._new_event()
        try:
            await self._woken.wait()
        finally:
            self._woken = None

    async def watch_loop(self, seconds: float) -> None:
        """Sleep, and notice if the event loop was blocked meanwhile, so that messages may have timed out."""
        await self._watch.sleep(seconds)

    def _link(self) -> Link:
        (address,) = nsqd_addresses(self._nsqd)
        consumer = self._options.consumer_options()
        return Link(
            address,
            self._options.topic,
            self._options.channel,
            options=self._connection,
            reconnect=ReconnectDelay(consumer.reconnect_delay, consumer.max_reconnect_delay),
            watch=self._watch,
            arrived=self._messages_came,
            changed=self._links_changed,
        )

    async def _connect(self) -> None:
        (first,) = self._links
        seconds = self._options.connect_timeout
        with anyio.move_on_after(seconds):
            while first.inflow is None:
                await self.wait_for(1)
        if first.inflow is None:
            raise first.failure or ConnectionFailed(
                self._nsqd, f"no subscription after connectTimeout={seconds:g} s"
            )
        self.identity = first.inflow.identity
        of_each = self.identity.max_rdy_count
        count = min(self._most, math.ceil(self.max_in_flight / of_each))
        self.max_in_flight = min(self.max_in_flight, count * of_each)
        self._links += [self._link() for _ in range(1, count)]
        self._all_known.set()

    def _messages_came(self) -> None:
        self.arrived()
        rows, size = self._wanted
        if self._woken is not None and (self.waiting_rows >= rows or self.waiting_bytes >= size):
            self._woken.set()

    def _links_changed(self) -> None:
        self.changed()
        if self._woken is not None:
            self._woken.set()

    async def _run(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep, self._links[0])
            await self._all_known.wait()
            for link in self._links[1:]:
                tasks.start_soon(self._keep, link)

    async def _keep(self, link: Link) -> None:
        try:
            await link.run()
        except (InvalidOption, PermanentRefusal, TLSFailed) as error:
            if _MSG_TIMEOUT in str(error):
                error = InvalidOption(
                    f"msgTimeout={self._options.msg_timeout} is not valid: nsqd {self._nsqd} allows no more "
                    "than its --max-msg-timeout, 900 by default"
                )
            self._background.fail(error)

    async def _shut_down(self, cancelled: bool) -> None:
        del cancelled  # the timeout bounds it in either case
        # Nobody would hand back the messages of a connection that begins only now.
        self.arrived = self.changed = _ignore
        try:
            with anyio.move_on_after(CLOSE_TIMEOUT) as limit:
                async with anyio.create_task_group() as tasks:
                    for link in self._links:
                        tasks.start_soon(self._drain, link)
            if limit.cancelled_caught:
                _log.warning("nsqd %s did not confirm the last answers: rows may come twice", self._nsqd)
        finally:
            for link in self._links:
                link.release()

    async def _drain(self, link: Link) -> None:
        try:
            await link.drain()
        except ConnectionFailed as error:
            _log.warning("%s: rows may come twice", error)


def _ignore() -> None:
    pass


@asynccontextmanager
async def connected(
    options: ReadOptions, nsqd: str, *, max_in_flight: int, most: int
) -> AsyncGenerator[Links]:
    """Stay connected to an nsqd for the length of the block.

    The block ends when nsqd has handled all FINs; unanswered messages go back to it.

    :param max_in_flight: the messages that may be in flight on all connections together
    :param most: the most connections
    :raises InvalidOption: if a file that the options name cannot be used
    :raises NSQError: as `Links.running`
    """
    connection = await anyio.to_thread.run_sync(options.consumer_connection)
    links = Links(options, nsqd, connection, max_in_flight=max_in_flight, most=most)
    async with links.running():
        yield links


class Link:
    """Connects to one nsqd and subscribes, and does so again when the connection is lost.

    :param options: as `prepared` returns them
    :param arrived: called when messages have arrived
    :param changed: called when a connection begins or ends
    :ivar inflow: the messages of the current connection; None while there is none
    :ivar failure: why the last attempt to connect has failed, or the last connection was lost
    """

    def __init__(
        self,
        address: NsqdAddress,
        topic: str,
        channel: str,
        *,
        options: ConnectionOptions,
        reconnect: ReconnectDelay,
        watch: LoopWatch,
        arrived: Callable[[], None],
        changed: Callable[[], None],
    ) -> None:
        self.inflow: Inflow | None = None
        self.failure: ConnectionFailed | None = None
        self._address = address
        self._topic = topic
        self._channel = channel
        self._options = options
        self._reconnect = reconnect
        self._rng = random.Random()
        self._watch = watch
        self._arrived = arrived
        self._changed = changed
        self._earlier_refused = 0
        self._experience = Experience()
        self._released = anyio.Event()

    @property
    def refused(self) -> int:
        """The answers that nsqd has refused, also on earlier connections."""
        return self._earlier_refused + (0 if self.inflow is None else self.inflow.refused)

    async def run(self) -> None:
        """Stay connected until `release`.

        :raises InvalidOption: if an option cannot be used with this nsqd
        :raises PermanentRefusal: if nsqd refuses the connection permanently
        :raises TLSFailed: if nsqd declines TLS, or one side does not trust the other
        """
        while True:
            lasted = await self._serve()
            if self._released.is_set():
                return
            await anyio.sleep(self._reconnect.after(lasted, self._rng))

    async def drain(self) -> None:
        """Hand back unanswered messages, and wait until nsqd has handled all answers.

        :raises ConnectionFailed: if the connection ends before nsqd has confirmed that
        """
        if self.inflow is not None:
            await self.inflow.drain()

    def release(self) -> None:
        """Let `run` end, with the connection."""
        self._released.set()

    async def _serve(self) -> float:
        """Connect, and stay connected; return how many seconds the subscription has lasted."""
        inflow = Inflow(str(self._address), arrived=self._arrived, watch=self._watch)
        subscribed_at: float | None = None
        try:
            async with open_connection(
                self._address,
                self._options,
                inflow,
                experience=self._experience,
                make_decoder=RunDecoder,
            ) as connection:
                inflow.attach(connection)
                await connection.subscribe(self._topic, self._channel)
                subscribed_at = anyio.current_time()
                self.inflow = inflow
                self._changed()
                await self._released.wait()
        except TLSFailed:
            raise
        except ConnectionFailed as error:
            self.failure = error
            _log.warning("%s", error)
        finally:
            inflow.detach()
            self.inflow = None
            self._earlier_refused += inflow.refused
            self._changed()
        return 0.0 if subscribed_at is None else anyio.current_time() - subscribed_at
