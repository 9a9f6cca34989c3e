"""The connections of a producer, one to each nsqd, and the choice of one for each publish."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import anyio
from anyio.abc import TaskGroup

from ..address import NsqdAddress
from ..connection import Connection, Experience, NoMessages, TakesAnswer, open_connection
from ..connection.busy_poll import BusyPoll
from ..errors import ConnectionFailed, InvalidOption, PermanentRefusal, TLSFailed
from ..events import Connected, ConnectFailed, ConnectionClosed, Disconnected, Emitter, NsqdLeftOut
from ..options import ConnectionOptions, ProducerOptions
from ..policy.delays import ReconnectDelay
from ..policy.host_choice import EpsilonGreedy, FailingHosts, LeastOutstanding, RoundRobin
from ..policy.warnings import Repeats
from ..protocol.session import Command
from .statistics import ProducerConnectionStatistics


class Pool:
    """The connections of a producer.

    :param changed: called when a connection is made or lost
    :param may_send: called when a connection may have room again
    :param fail: called with an error that no retry can fix
    :ivar connections: one for each nsqd, connected or not
    :ivar leaving: connections that get no more publishes, and are closed once nsqd has answered
    :ivar published_before: the messages that former nsqds have confirmed, by address
    :ivar open: the connections that are connected now
    :ivar lost_at: the time when the last open connection was lost, or when the pool started
    :ivar experience: the experience that all connections share
    """

    def __init__(
        self,
        nsqds: Sequence[NsqdAddress],
        *,
        options: ProducerOptions,
        connection_options: ConnectionOptions,
        emit: Emitter,
        fail: Callable[[Exception], None],
        changed: Callable[[], None],
        may_send: Callable[[], None],
    ) -> None:
        self.options: ProducerOptions = options
        self.connection_options: ConnectionOptions = connection_options
        self.emit: Emitter = emit
        self.may_send: Callable[[], None] = may_send
        self.fail: Callable[[Exception], None] = fail
        self.connections: list[ProducerConnection] = [ProducerConnection(nsqd, self) for nsqd in nsqds]
        self.open: list[ProducerConnection] = []
        self.leaving: list[ProducerConnection] = []
        self.published_before: dict[str, int] = {}
        self.lost_at: float = 0.0
        self.experience: Experience = Experience()
        self._changed = changed
        self._hosts = _MODES[options.mode]()

    @property
    def tracks_success(self) -> bool:
        """Whether the mode needs successes reported with `succeeded`."""
        return self._hosts.tracks

    @property
    def knows_none(self) -> bool:
        """Whether there is no nsqd to connect to yet, so that ``connect_timeout`` does not count."""
        return False

    def start(self, tasks: TaskGroup) -> None:
        """Start a task for each connection that keeps it up until cancelled."""
        self.lost_at = anyio.current_time()
        for connection in self.connections:
            tasks.start_soon(connection.run)

    async def close(self) -> None:
        """Disconnect from each nsqd once it has handled what was sent."""
        async with anyio.create_task_group() as tasks:
            for connection in self.connections:
                tasks.start_soon(connection.close)
        for connection in list(self.leaving):
            await connection.closed.wait()

    def pick(
        self,
        topic: str,  # noqa: ARG002
        messages: int,
        size: int,
        now: float,
        refused_by: Sequence[ProducerConnection],
    ) -> ProducerConnection | None:
        """Choose a connection for ``messages`` of ``size`` bytes in all; None if none has room now.

        :param refused_by: the connections to leave out
        """
        connections = self.open
        if refused_by:
            connections = [each for each in connections if each not in refused_by]
        if not connections:
            return None
        if len(self.connections) > 1:
            return self._hosts.pick(connections, messages, size, now)
        return connections[0] if connections[0].has_room(messages, size) else None

    def succeeded(self, connection: ProducerConnection, seconds: float, now: float) -> None:
        """Report to the mode that an nsqd stored a publish, after ``seconds``."""
        self._hosts.succeeded(connection, seconds, now)

    def failed(self, connection: ProducerConnection, error: Exception) -> None:
        """Report to the mode that an nsqd is unreachable or lost, or failed to store or answer a publish."""
        seconds = self._hosts.failed(connection, anyio.current_time())
        if seconds is not None:
            self.emit(NsqdLeftOut(connection.nsqd, seconds, error))

    def forget(self, connection: ProducerConnection) -> None:
        """Tell the mode that an nsqd is no longer used."""
        self._hosts.forget(connection)

    def lost(self) -> None:
        """Called when a connection was lost."""

    def changed(self) -> None:
        """Update `open`; called by a connection when it is made or lost."""
        was_open = bool(self.open)
        self.open = [each for each in self.connections if each.current is not None]
        if was_open and not self.open:
            self.lost_at = anyio.current_time()
        self._changed()

    def why_not_open(self) -> str:
        """Return, for each nsqd, why it is not connected."""
        return "; ".join(
            str(each.last_error or f"nsqd {each.nsqd}: not connected yet") for each in self.connections
        )


class ProducerConnection:
    """A producer's connection to one nsqd: reconnects when it is lost, and limits the outstanding messages.

    :param is_discovered: whether the address was found through nsqlookupd
    :ivar address: the address of the nsqd
    :ivar current: the connection to publish on; None while there is none
    :ivar last_error: why the last connection failed or was lost
    :ivar outstanding: the messages that await nsqd's answer
    :ivar outstanding_bytes: the bytes of their commands
    :ivar published: the messages that nsqd has confirmed
    :ivar was_rejected: whether nsqd closes the connection because of a publish that every nsqd would refuse
    :ivar closed: set at the end of `close`; setting it earlier gives up outstanding answers
    """

    def __init__(self, address: NsqdAddress, pool: Pool, *, is_discovered: bool = False) -> None:
        options = pool.options
        self.address: NsqdAddress = address
        self.nsqd: str = str(address)
        self.current: Connection[None, None] | None = None
        self.last_error: Exception | None = None
        self.outstanding: int = 0
        self.outstanding_bytes: int = 0
        self.published: int = 0
        self.was_rejected: bool = False
        self._is_discovered = is_discovered
        self._pool = pool
        self._emit = pool.emit
        self._max_outstanding = options.max_outstanding
        self._max_outstanding_bytes = options.max_outstanding_bytes
        self._reconnect = ReconnectDelay(options.reconnect_delay, options.max_reconnect_delay)
        self._failures = Repeats()
        self._commands = 0
        self._is_leaving = self._is_closing = False
        self._progress: anyio.Event | None = None
        self.closed: anyio.Event = anyio.Event()
        self._rng = random.Random()

    @property
    def busy_poll(self) -> BusyPoll | None:
        """The poll for the answer to the only outstanding command; None if there are more commands."""
        current = self.current
        return current.busy_poll if current is not None and current.outstanding == 1 else None

    def has_room(self, count: int, size: int) -> bool:
        """Return whether ``count`` messages of ``size`` bytes may be sent: any, if nothing is outstanding."""
        outstanding = self.outstanding
        return self.current is not None and (
            outstanding == 0
            or (
                outstanding + count <= self._max_outstanding
                and self.outstanding_bytes + size <= self._max_outstanding_bytes
            )
        )

    def send(self, command: Command, data: bytes, messages: int, taker: TakesAnswer) -> None:
        """Queue a command that publishes ``messages``. There must be room (`has_room`).

        :param taker: receives the answer, and must then call `answered`
        """
        assert self.current is not None  # noqa: S101 - `has_room` returned True
        self.outstanding += messages
        self.outstanding_bytes += len(data)
        self._commands += 1
        self.current.send(command, data, taker)

    def answered(self, messages: int, size: int, *, stored: bool) -> None:
        """Free the room of a command of ``size`` bytes that was answered, or never will be."""
        self.outstanding -= messages
        self.outstanding_bytes -= size
        if stored:
            self.published += messages

    def snapshot(self) -> ProducerConnectionStatistics:
        """Return the statistics of this connection."""
        return ProducerConnectionStatistics(
            nsqd=self.nsqd,
            connected=self.current is not None,
            identity=self.current.identity if self.current else None,
            authorization=self.current.authorization if self.current else None,
            outstanding=self.outstanding,
            outstanding_bytes=self.outstanding_bytes,
            published=self.published,
            commands=self._commands,
        )

    async def run(self) -> None:
        """Connect and reconnect, until `close` or a permanent refusal."""
        while not self.closed.is_set():
            connected_at: float | None = None
            try:
                async with open_connection(
                    self.address,
                    self._pool.connection_options,
                    NoMessages(self._may_proceed),
                    experience=self._pool.experience,
                    is_discovered=self._is_discovered,
                ) as connection:
                    if self.closed.is_set():
                        return
                    connected_at = anyio.current_time()
                    self._emit(Connected(self.nsqd, connection.identity.version, connection.mapped_to))
                    self._use(connection)
                    try:
                        await self.closed.wait()
                    finally:
                        self._use(None)
            except (InvalidOption, PermanentRefusal, TLSFailed) as error:
                self.last_error = error
                self._emit(ConnectFailed(self.nsqd, error, None))
                self._pool.fail(error)
                return
            except ConnectionFailed as error:
                if self._is_closing:
                    return  # `close` has emitted the event
                self.last_error = error
                lasted = 0.0 if connected_at is None else anyio.current_time() - connected_at
                was_rejected, self.was_rejected = self.was_rejected, False
                if self._is_leaving:
                    delay = None
                elif was_rejected:
                    delay = 0.0  # nsqd works, and the other publishes need not wait
                else:
                    delay = self._reconnect.after(lasted, self._rng)
                if connected_at is not None:
                    self._failures = Repeats()
                    self._emit(Disconnected(self.nsqd, error, delay))
                else:
                    # An attempt follows every few seconds, for as long as nsqd is away.
                    emit = self._emit if self._failures.due(anyio.current_time()) else self._emit.to_hook
                    emit(ConnectFailed(self.nsqd, error, delay))
                if delay is None:
                    return
                if was_rejected:
                    continue
                self._pool.failed(self, error)
                if connected_at is not None:
                    self._pool.lost()
                with anyio.move_on_after(delay):
                    await self.closed.wait()

    async def leave(self) -> None:
        """Wait until nsqd has answered or the connection is lost, then `close`. Nothing more may be sent."""
        self._is_leaving = True
        while self.outstanding and self.current is not None:
            self._progress = anyio.Event()
            await self._progress.wait()
        await self.close()

    async def close(self) -> None:
        """Wait until nsqd has handled all that was sent, and disconnect."""
        self._is_closing = True
        connection, confirmed = self.current, False
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
            self.closed.set()

    def _use(self, connection: Connection[None, None] | None) -> None:
        self.current = connection
        self._pool.changed()

    def _may_proceed(self) -> None:
        if self.current is not None and self.current.ended:
            self._use(None)
        if self._progress is not None:
            self._progress.set()
        self._pool.may_send()


_MODES: dict[str, Callable[[], RoundRobin[ProducerConnection]]] = {
    "round_robin": RoundRobin,
    "least_outstanding": LeastOutstanding,
    "hostpool": FailingHosts,
    "epsilon_greedy": lambda: EpsilonGreedy[ProducerConnection](random.Random()),
}
