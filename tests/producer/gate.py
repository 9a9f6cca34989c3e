"""An nsqd that answers only when it is told to."""

from __future__ import annotations

import anyio

from ..fake_nsqd import FakeConnection, until


class Gate:
    """Its `script` is for `fake_nsqd`.

    :ivar lines: the commands that came
    :ivar received: their bodies
    """

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.received: list[bytes] = []
        self._connection: FakeConnection | None = None

    async def script(self, connection: FakeConnection) -> None:
        self._connection = connection
        await connection.identify()
        while True:
            self.lines.append(await connection.command())
            self.received.append(connection.body)

    async def answer(self, count: int = 1) -> None:
        assert self._connection
        for _ in range(count):
            await self._connection.response()

    async def refuse(self, error: bytes) -> None:
        """Answer with an error, and hang up."""
        assert self._connection
        await self._connection.error(error)
        await self._connection.close()

    async def is_stuck_at(self, count: int) -> bool:
        """Whether exactly `count` publishes arrive, and no more come without an answer."""
        await until(lambda: len(self.received) >= count)
        with anyio.move_on_after(0.03):
            await until(lambda: len(self.received) > count)
        return len(self.received) == count

    async def hang_up(self) -> None:
        """Close the connection without an answer."""
        assert self._connection
        await self._connection.close()
