"""One nsqd that a producer publishes to: connected again and again, with a bound on what is outstanding."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Protocol

import anyio

from ..address import NsqdAddress
from ..connection import Connection, NoMessages, open_connection
from ..errors import ConnectionFailed, InvalidOption, NSQError, PermanentRefusal, TLSFailed
from ..events import Connected, ConnectFailed, ConnectionClosed, Disconnected, Emitter
from ..options import ConnectionOptions, ProducerOptions
from ..policy.reconnect import ReconnectDelay
from .publication import Publication
from .statistics import ProducerConnectionStatistics

__all__ = ["Link", "LinkOwner", "Sent"]


class LinkOwner(Protocol):
    """Who is told what happens on a link.

    :ivar accepted: whether an nsqd has accepted the options of the connections before
    """

    accepted: bool

    def link_changed(self, link: Link) -> None:
        """The connection came or went."""
        ...

    def link_failed(self, link: Link, error: Exception) -> None:
        """No connection came about, or it was lost."""
        ...

    def link_refused(self, error: Exception) -> None:
        """No retry can change that there is no connection."""
        ...

    def progressed(self) -> None:
        """There may be room again."""
        ...

    def answered(self, publication: Publication, link: Link, request: Sent) -> None:
        """Nothing more will come for what was sent."""
        ...


class _Answers(NoMessages):
    """The receiver of a connection that publishes: only told that answers came."""

    def __init__(self, progressed: Callable[[], None]) -> None:
        self._progressed = progressed

    def progressed(self) -> None:
        self._progressed()


class Sent:
    """A publication that was sent; nobody waits for it. One object each: the collector visits thousands."""

    __slots__ = ("_link", "count", "error", "maybe_executed", "publication", "size")

    def __init__(self, link: Link, publication: Publication, count: int, size: int) -> None:
        self._link = link
        self.publication: Publication = publication
        self.count: int = count
        self.size: int = size
        self.error: NSQError | None = None
        self.maybe_executed: bool = False

    def answer(self, _: bytes) -> None:
        self._link.answered(self)

    def fail(self, error: NSQError, *, maybe_executed: bool) -> None:
        self.error = error
        self.maybe_executed = maybe_executed
        self._link.answered(self)


class Link:
    """Keeps a connection to one nsqd.

    :ivar connection: the one to publish on, None while there is none
    :ivar last_error: why there was none last
    :ivar outstanding: messages that wait for an answer
    :ivar outstanding_bytes: of them, the bytes
    :ivar published: messages that nsqd has confirmed
    """

    def __init__(
        self,
        address: NsqdAddress,
        *,
        options: ProducerOptions,
        connection_options: ConnectionOptions,
        emit: Emitter,
        owner: LinkOwner,
    ) -> None:
        self.nsqd: str = str(address)
        self.connection: Connection[None, None] | None = None
        self.last_error: Exception | None = None
        self.outstanding: int = 0
        self.outstanding_bytes: int = 0
        self.published: int = 0
        self._address = address
        self._connection_options = connection_options
        self._max_outstanding = options.max_outstanding
        self._max_outstanding_bytes = options.max_outstanding_bytes
        self._reconnect = ReconnectDelay(options.reconnect_delay, options.max_reconnect_delay)
        self._emit = emit
        self._owner = owner
        self._commands = 0
        self._released = anyio.Event()
        self._rng = random.Random()

    def has_room(self, count: int, size: int) -> bool:
        """Whether ``count`` messages of ``size`` bytes may be sent now; a command alone always fits."""
        outstanding = self.outstanding
        return self.connection is not None and (
            outstanding == 0
            or (
                outstanding + count <= self._max_outstanding
                and self.outstanding_bytes + size <= self._max_outstanding_bytes
            )
        )

    def send(self, publication: Publication) -> None:
        """Queue a publication; its answer goes to the owner. There must be a connection."""
        assert self.connection is not None  # noqa: S101 - `has_room` was asked
        command, data = publication.encode()
        count, size = publication.messages, len(data)
        self.outstanding += count
        self.outstanding_bytes += size
        self._commands += 1
        publication.link = self
        publication.sent_messages = count
        self.connection.send(command, data, Sent(self, publication, count, size))

    def answered(self, sent: Sent) -> None:
        """Nothing more will come for what was sent."""
        self.outstanding -= sent.count
        self.outstanding_bytes -= sent.size
        if sent.error is None:
            self.published += sent.count
        self._owner.answered(sent.publication, self, sent)

    def snapshot(self) -> ProducerConnectionStatistics:
        """What it has done so far."""
        connection = self.connection
        return ProducerConnectionStatistics(
            nsqd=self.nsqd,
            connected=connection is not None,
            identity=None if connection is None else connection.identity,
            authorization=None if connection is None else connection.authorization,
            outstanding=self.outstanding,
            outstanding_bytes=self.outstanding_bytes,
            published=self.published,
            commands=self._commands,
        )

    async def run(self) -> None:
        """Connect and stay connected, until `close` or a permanent refusal."""
        while not self._released.is_set():
            connected_at: float | None = None
            try:
                async with open_connection(
                    self._address,
                    self._connection_options,
                    _Answers(self._progressed),
                    accepted_before=self._owner.accepted,
                ) as connection:
                    self._owner.accepted = True
                    connected_at = anyio.current_time()
                    self._emit(Connected(self.nsqd, connection.identity.version))
                    self._use(connection)
                    try:
                        await self._released.wait()
                    finally:
                        self._use(None)
            except (InvalidOption, PermanentRefusal, TLSFailed) as error:
                self.last_error = error
                self._emit(ConnectFailed(self.nsqd, error, None))
                self._owner.link_refused(error)
                return
            except ConnectionFailed as error:
                self.last_error = error
                lasted = 0.0 if connected_at is None else anyio.current_time() - connected_at
                delay = self._reconnect.after(lasted, self._rng)
                happened = ConnectFailed if connected_at is None else Disconnected
                self._emit(happened(self.nsqd, error, delay))
                self._owner.link_failed(self, error)
                with anyio.move_on_after(delay):
                    await self._released.wait()

    async def close(self) -> None:
        """See to it that nsqd has handled all that was sent, and disconnect."""
        connection = self.connection
        confirmed = False
        try:
            if connection is not None:
                self._use(None)
                await connection.close()
                confirmed = True
        except ConnectionFailed as error:
            self._emit(Disconnected(self.nsqd, error, None))
        finally:
            if connection is not None:
                self._emit(ConnectionClosed(self.nsqd, confirmed))
            self._released.set()

    def _use(self, connection: Connection[None, None] | None) -> None:
        self.connection = connection
        self._owner.link_changed(self)

    def _progressed(self) -> None:
        connection = self.connection
        if connection is not None and connection.ended:
            self._use(None)
        self._owner.progressed()
