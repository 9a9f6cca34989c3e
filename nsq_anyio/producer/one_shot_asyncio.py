"""`OneShot` on asyncio, and on loops that take its place, as uvloop."""

from __future__ import annotations

import asyncio

from anyio.lowlevel import checkpoint

__all__ = ["AsyncioOneShot"]


class AsyncioOneShot:
    """A future for each task that waits."""

    __slots__ = ("_is_set", "_waiters")

    def __init__(self) -> None:
        self._is_set = False
        self._waiters: list[asyncio.Future[None]] = []

    def set(self) -> None:
        """As `OneShot.set`."""
        self._is_set = True
        for waiter in self._waiters:
            if not waiter.done():  # as it is when its task was cancelled
                waiter.set_result(None)
        self._waiters.clear()

    async def wait(self) -> None:
        """As `OneShot.wait`."""
        if self._is_set:
            await checkpoint()
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter
