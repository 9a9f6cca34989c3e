"""A stream with an nsqd at its other end that does the least: no socket, no clock, no randomness.

What the client does with it depends on nothing but its code, so calls can be counted.
"""

from __future__ import annotations

import json
from collections import deque

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream

from nsq_anyio.protocol.frames import FRAME_RESPONSE, encode_frame, encode_message_frame

OK = encode_frame(FRAME_RESPONSE, b"OK")


class MemoryNsqd(ByteStream):
    """Sends messages as RDY allows, as many at once as fit; answers each publish.

    :param messages: how many the channel has
    :param size: bytes of a body
    :ivar sends: how often the client has sent
    :ivar receives: how often it has received something
    :ivar finished: FINs that arrived
    :ivar publishes: PUBs and MPUBs that arrived
    """

    def __init__(self, messages: int = 0, size: int = 100) -> None:
        self._messages = messages
        self._body = b"." * size
        self._delivered = 0
        self._rdy = 0
        self._answers: deque[bytes] = deque()
        self._ended = False
        self._news = anyio.Event()
        self.sends = 0
        self.receives = 0
        self.finished = 0
        self.publishes = 0

    async def send(self, item: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        self.sends += 1
        finished = item.count(b"FIN ")
        self.finished += finished
        publishes = item.count(b"PUB ")
        self.publishes += publishes
        if publishes:
            self._answers.append(OK * publishes)
        if b"IDENTIFY\n" in item:
            identity = {"max_rdy_count": 2500, "version": "1.3.0", "msg_timeout": 60_000}
            identity |= {"max_msg_timeout": 900_000}
            self._answers.append(encode_frame(FRAME_RESPONSE, json.dumps(identity).encode()))
        if b"SUB " in item:
            self._answers.append(OK)
        if b"RDY " in item:
            self._rdy = int(item.rpartition(b"RDY ")[2].partition(b"\n")[0])
        if b"CLS\n" in item:
            self._rdy = 0
            self._answers.append(encode_frame(FRAME_RESPONSE, b"CLOSE_WAIT"))
        self._news.set()

    async def receive(self, max_bytes: int = 65536) -> bytes:
        await anyio.lowlevel.checkpoint()
        while not (data := self._next(max_bytes)):
            if self._ended:
                raise anyio.EndOfStream
            self._news = anyio.Event()
            await self._news.wait()
        self.receives += 1
        return data

    def _next(self, max_bytes: int) -> bytes:
        if self._answers:
            return self._answers.popleft()
        allowed = self._rdy - (self._delivered - self.finished)
        count = min(allowed, self._messages - self._delivered, max_bytes // (len(self._body) + 34))
        first = self._delivered + 1
        self._delivered += max(count, 0)
        return b"".join(
            encode_message_frame(0, 1, b"%016x" % number, self._body)
            for number in range(first, self._delivered + 1)
        )

    async def send_eof(self) -> None:
        await anyio.lowlevel.checkpoint()
        self._ended = True
        self._news.set()

    async def aclose(self) -> None:
        self._ended = True
        self._news.set()
        await anyio.lowlevel.checkpoint()
