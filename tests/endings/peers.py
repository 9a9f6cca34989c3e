"""The other side of a block: an nsqd, TCP and HTTP on one port, that turns slow, silent or away when told to.

The peers run in a thread of their own: a signal that is raised in the main thread hits the client's code.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Coroutine, Generator
from contextlib import contextmanager, suppress
from enum import Enum
from socket import SO_LINGER, SOL_SOCKET
from typing import TypeVar

from nsq_anyio.protocol.frames import FRAME_RESPONSE, MAGIC_V2, encode_frame, encode_message_frame

from ..fake_nsqd import BODY_COMMANDS, message_id

T = TypeVar("T")

LIMIT = 5.0
"""Seconds for the client's last socket to be closed, once the cell is over."""

_SLOW = 0.03
_BACKLOG = 4


class Temper(Enum):
    """How the peer behaves once it has turned."""

    ANSWERING = "answering"
    SLOW = "slow"
    SILENT = "silent"  # accepts, and neither reads nor answers
    GONE = "gone"  # resets every connection


class Peer:
    """One listener. It answers as nsqd does until `turn` is called.

    :ivar temper: what it shows once it has turned
    :ivar in_flight: the messages of each connection that were pushed and not answered
    :ivar refused: what the client sent and should not have
    """

    def __init__(self, temper: Temper, loop: asyncio.AbstractEventLoop) -> None:
        self.port = 0
        self.in_flight: list[set[bytes]] = []
        self.refused: list[bytes] = []
        self.temper = temper
        self._loop = loop
        self._turned = False
        self._over = asyncio.Event()
        self._open: set[asyncio.StreamWriter] = set()
        self._none_open = asyncio.Event()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def turn(self) -> None:
        """From here on it shows its temper. To be called from any thread."""
        self._turned = True
        if self.temper is Temper.GONE:
            self._loop.call_soon_threadsafe(self._reset_all)

    def _reset_all(self) -> None:
        for writer in list(self._open):
            _reset(writer)

    async def closed(self) -> None:
        """The cell is over: wait until the client has closed all of its connections."""
        self._over.set()
        async with asyncio.timeout(LIMIT):
            while self._open:
                self._none_open.clear()
                await self._none_open.wait()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            await self._converse(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._open.discard(writer)
            self._none_open.set()
            _reset(writer)

    async def _show_temper(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._turned:
            return
        match self.temper:
            case Temper.SLOW:
                await asyncio.sleep(_SLOW)
            case Temper.SILENT:
                writer.transport.pause_reading()  # type: ignore[attr-defined]
                await self._over.wait()
                writer.transport.resume_reading()  # type: ignore[attr-defined]
                while await reader.read(65536):
                    pass
                raise ConnectionResetError
            case Temper.GONE:
                raise ConnectionResetError
            case Temper.ANSWERING:
                pass

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._show_temper(reader, writer)
        first = await reader.readexactly(4)
        if first != MAGIC_V2:
            await self._answer_http(reader, writer)
            return
        in_flight: set[bytes] = set()
        self.in_flight.append(in_flight)
        closing = False
        while True:
            line = await reader.readuntil(b"\n")
            words = line.split()
            if words[0] in BODY_COMMANDS:
                (size,) = struct.unpack(">I", await reader.readexactly(4))
                await reader.readexactly(size)
            if words[0] in {b"FIN", b"REQ"}:
                in_flight.discard(words[1])
            await self._show_temper(reader, writer)
            match words[0]:
                case b"IDENTIFY":
                    writer.write(encode_frame(FRAME_RESPONSE, b'{"max_rdy_count": 2500, "version": "1.3.0"}'))
                case b"SUB" | b"PUB" | b"DPUB" | b"MPUB":
                    writer.write(encode_frame(FRAME_RESPONSE, b"OK"))
                case b"CLS":
                    closing = True
                    writer.write(encode_frame(FRAME_RESPONSE, b"CLOSE_WAIT"))
                case b"RDY":
                    wanted = int(words[1]) - len(in_flight)
                    for number in range(0 if closing else min(wanted, _BACKLOG)):
                        id = message_id(len(self.in_flight) * 1000 + len(in_flight) + number)
                        in_flight.add(id)
                        writer.write(encode_message_frame(1_700_000_000_000_000_000, 1, id, b"body"))
                case b"FIN" | b"REQ" | b"TOUCH" | b"NOP":
                    pass
                case _:
                    self.refused.append(line)

    async def _answer_http(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            await self._show_temper(reader, writer)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK")


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close it so that the client gets a reset instead of the end of the stream."""
    with suppress(OSError):
        writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class Peers:
    """The thread of the peers."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    @contextmanager
    def peer(self, temper: Temper) -> Generator[Peer]:
        """One peer. After the block, `closed` was waited for: the client has left no connection open."""
        peer = Peer(temper, self._loop)
        server = self._call(self._listen(peer))
        try:
            yield peer
        finally:
            self._call(self._end(server, peer))

    async def _listen(self, peer: Peer) -> asyncio.Server:
        server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
        peer.port = server.sockets[0].getsockname()[1]
        return server

    @staticmethod
    async def _end(server: asyncio.Server, peer: Peer) -> None:
        server.close()
        await peer.closed()

    def _call(self, coroutine: Coroutine[object, object, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


@contextmanager
def peers() -> Generator[Peers]:
    """Run the thread around the block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="peers")
    thread.start()
    try:
        yield Peers(loop)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
