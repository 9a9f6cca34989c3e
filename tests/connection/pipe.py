"""A stream that shows what is sent."""

import anyio
from anyio.abc import ByteStream


class Pipe(ByteStream):
    """A stream that keeps each send; `gate` lets sends go through."""

    def __init__(self) -> None:
        self.sends: list[bytes] = []
        self.gate = anyio.Event()
        self.gate.set()

    async def send(self, item: bytes) -> None:
        await self.gate.wait()
        self.sends.append(item)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        raise NotImplementedError

    async def send_eof(self) -> None:
        raise NotImplementedError

    async def aclose(self) -> None:
        raise NotImplementedError
