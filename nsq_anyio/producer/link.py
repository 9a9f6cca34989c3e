"""One nsqd that a producer publishes to: connected again and again, with a bound on what is outstanding."""

from __future__ import annotations

import random
from collections.abc import Callable

import anyio

from ..address import Address
from ..connection import Connection, NoMessages, open_connection
from ..errors import ConnectionFailed, PermanentRefusal
from ..events import Connected, ConnectFailed, ConnectionClosed, Disconnected, Emitter
from ..options import ConnectionOptions, ProducerOptions
from ..policy.reconnect import ReconnectDelay

__all__ = ["Link"]


class _Answers(NoMessages):
    """The receiver of a connection that publishes: only told that answers came."""

    def __init__(self, came: Callable[[], None]) -> None:
        self._came = came

    def progressed(self) -> None:
        self._came()


class Link:
    """Keeps a connection to one nsqd.

    :param changed: called when the connection comes, goes, or may have room again
    :param fail: called with a refusal that no retry can change
    :ivar connection: the one to publish on, None while there is none
    :ivar last_error: why there was none last
    """

    def __init__(
        self,
        address: Address,
        *,
        options: ProducerOptions,
        connection_options: ConnectionOptions,
        emit: Emitter,
        changed: Callable[[], None],
        fail: Callable[[Exception], None],
    ) -> None:
        self.address = address
        self.connection: Connection[None, None] | None = None
        self.last_error: Exception | None = None
        self._options = options
        self._connection_options = connection_options
        self._emit = emit
        self._changed = changed
        self._fail = fail
        self._released = anyio.Event()
        self._rng = random.Random()

    def has_room(self, size: int) -> bool:
        """Whether a publish of ``size`` bytes may be sent now; one alone always fits."""
        connection = self.connection
        if connection is None or connection.ended:
            return False
        return connection.outstanding == 0 or (
            connection.outstanding < self._options.max_outstanding
            and connection.outstanding_bytes + size <= self._options.max_outstanding_bytes
        )

    async def run(self) -> None:
        """Connect and stay connected, until `close` or a permanent refusal."""
        reconnect = ReconnectDelay(self._options.reconnect_delay, self._options.max_reconnect_delay)
        while not self._released.is_set():
            connected_at: float | None = None
            try:
                async with open_connection(
                    self.address, self._connection_options, _Answers(self._changed)
                ) as connection:
                    connected_at = anyio.current_time()
                    self._emit(Connected(str(self.address), connection.identity.version))
                    self.connection = connection
                    self._changed()
                    try:
                        await self._released.wait()
                    finally:
                        self.connection = None
            except PermanentRefusal as error:
                self._emit(ConnectFailed(str(self.address), error, None))
                self._fail(error)
                return
            except ConnectionFailed as error:
                self.last_error = error
                lasted = 0.0 if connected_at is None else anyio.current_time() - connected_at
                delay = reconnect.after(lasted, self._rng)
                happened = ConnectFailed if connected_at is None else Disconnected
                self._emit(happened(str(self.address), error, delay))
                with anyio.move_on_after(delay):
                    await self._released.wait()

    async def close(self) -> None:
        """See to it that nsqd has handled all that was sent, and disconnect."""
        connection = self.connection
        confirmed = False
        try:
            if connection is not None:
                await connection.close()
                confirmed = True
        except ConnectionFailed as error:
            self._emit(Disconnected(str(self.address), error, None))
        finally:
            if connection is not None:
                self._emit(ConnectionClosed(str(self.address), confirmed))
            self._released.set()
