"""The nsqds of a producer, used in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio

from ..address import Address
from ..connection import Connection
from ..errors import NotSent
from ..events import Emitter
from ..options import ConnectionOptions, ProducerOptions
from .link import Link

__all__ = ["Pool"]


class Pool:
    """Hands out connections with room, round robin."""

    def __init__(
        self,
        nsqds: Sequence[Address],
        *,
        options: ProducerOptions,
        connection_options: ConnectionOptions,
        emit: Emitter,
        fail: Callable[[Exception], None],
    ) -> None:
        self.links: list[Link] = [
            Link(
                address,
                options=options,
                connection_options=connection_options,
                emit=emit,
                changed=self._notify,
                fail=fail,
            )
            for address in nsqds
        ]
        self._options = options
        self._next = 0
        self._change: anyio.Event | None = None
        self._closing = False

    async def run(self) -> None:
        """Keep all links connected, until cancelled."""
        async with anyio.create_task_group() as tasks:
            for link in self.links:
                tasks.start_soon(link.run)

    async def connection(self, size: int) -> Connection[None, None]:
        """Wait for a connection that has room for ``size`` bytes.

        :raises NotSent: if there is no connection for ``connect_timeout`` seconds, or the block has ended
        """
        give_up_at: float | None = None
        while (connection := self._pick(size)) is None:
            if self._closing:
                raise NotSent("the producer's block ended before this message was sent")
            if any(link.connection for link in self.links):
                give_up_at = None
                await self._changed()
                continue
            now = anyio.current_time()
            give_up_at = now + self._options.connect_timeout if give_up_at is None else give_up_at
            if now >= give_up_at:
                raise NotSent(self._no_connection())
            with anyio.move_on_after(give_up_at - now):
                await self._changed()
        return connection

    async def close(self) -> None:
        """Wait for all answers, and disconnect."""
        self._closing = True
        self._notify()
        async with anyio.create_task_group() as tasks:
            for link in self.links:
                tasks.start_soon(link.close)

    def _pick(self, size: int) -> Connection[None, None] | None:
        if self._closing:
            return None
        for _ in self.links:
            link = self.links[self._next]
            self._next = (self._next + 1) % len(self.links)
            if link.has_room(size):
                return link.connection
        return None

    def _notify(self) -> None:
        if self._change is not None:
            self._change.set()
            self._change = None

    async def _changed(self) -> None:
        if self._change is None:
            self._change = anyio.Event()
        await self._change.wait()

    def _no_connection(self) -> str:
        reasons = "; ".join(
            str(link.last_error or f"nsqd {link.address}: not connected yet") for link in self.links
        )
        return f"no connection within connect_timeout={self._options.connect_timeout} s: {reasons}"
