"""A client of nsqd that knows frames and nothing else: servers are tested without the package's client."""

import json
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from anyio.abc import ByteStream, SocketStream

from nsq_anyio.protocol.compression import Deflate, Snappy
from nsq_anyio.transport.compressed import CompressedStream
from nsq_anyio.transport.tls import start_tls

MAGIC = b"  V2"
LIMIT = 30.0
"""Seconds after which a frame that does not come is a failure."""


@dataclass(frozen=True)
class RawMessage:
    timestamp: int
    attempts: int
    id: bytes
    body: bytes


class RawClient:
    """A client; ``transport`` is below all that was negotiated for ``stream``."""

    def __init__(self, stream: ByteStream) -> None:
        self.stream = stream
        self.transport = stream
        self._buffer = b""

    async def send(self, data: bytes) -> None:
        await self.stream.send(data)

    async def _exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._buffer += await self.stream.receive()
        data, self._buffer = self._buffer[:count], self._buffer[count:]
        return data

    async def frame(self) -> tuple[int, bytes]:
        """The next frame, with its type; raises `anyio.EndOfStream` when the server has closed."""
        with anyio.fail_after(LIMIT):
            size, frame_type = struct.unpack(">ii", await self._exactly(8))
            return frame_type, await self._exactly(size - 4)

    async def response(self) -> bytes:
        frame_type, data = await self.frame()
        assert frame_type == 0, (frame_type, data)
        return data

    async def error(self) -> bytes:
        frame_type, data = await self.frame()
        assert frame_type == 1, (frame_type, data)
        return data

    async def message(self) -> RawMessage:
        frame_type, data = await self.frame()
        assert frame_type == 2, (frame_type, data)
        timestamp, attempts, message_id = struct.unpack(">qH16s", data[:26])
        return RawMessage(timestamp, attempts, message_id, data[26:])

    async def messages(self, count: int) -> list[RawMessage]:
        return [await self.message() for _ in range(count)]

    async def ask(self, command: bytes) -> bytes:
        await self.send(command)
        return await self.response()

    async def negotiate(
        self, fields: dict[str, Any] | None = None, context: ssl.SSLContext | None = None
    ) -> dict[str, Any]:
        """IDENTIFY with ``fields``, and put on the layers that the answer promises; returns the answer."""
        reply = await self.ask(identify(json.dumps({"feature_negotiation": True, **(fields or {})})))
        promised: dict[str, Any] = json.loads(reply)
        if promised["tls_v1"]:
            await self.start_tls(context)
            assert await self.response() == b"OK"
        if promised["snappy"] or promised["deflate"]:
            self.compress("snappy" if promised["snappy"] else "deflate", promised["deflate_level"])
            assert await self.response() == b"OK"
        return promised

    async def start_tls(self, context: ssl.SSLContext | None) -> None:
        """Without a context any server is trusted."""
        if context is None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        name = "localhost" if context.check_hostname else None
        with anyio.fail_after(LIMIT):
            self.stream = await start_tls(
                self.stream, context, server_hostname=name, received=self.take_buffer()
            )

    def compress(self, kind: str, level: int = 6) -> None:
        codec = Snappy() if kind == "snappy" else Deflate(level)
        self.stream = CompressedStream(self.stream, codec, self.take_buffer())

    def take_buffer(self) -> bytes:
        data, self._buffer = self._buffer, b""
        return data

    async def silent(self, seconds: float) -> bool:
        """Whether nothing arrives for so long."""
        if self._buffer:
            return False
        with anyio.move_on_after(seconds):
            self._buffer += await self.stream.receive()
            return False
        return True

    async def closed(self) -> bool:
        """Wait until the server closes; False if it says something before."""
        with anyio.fail_after(LIMIT):
            try:
                self._buffer += await self.stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return not self._buffer
        return False

    async def subscribe(self, topic: str, channel: str, rdy: int = 0) -> None:
        assert await self.ask(f"SUB {topic} {channel}\n".encode()) == b"OK"
        if rdy:
            await self.rdy(rdy)

    async def rdy(self, count: int) -> None:
        await self.send(b"RDY %d\n" % count)

    async def fin(self, message: RawMessage) -> None:
        await self.send(b"FIN %b\n" % message.id)

    async def req(self, message: RawMessage, delay_ms: int) -> None:
        await self.send(b"REQ %b %d\n" % (message.id, delay_ms))

    async def touch(self, message: RawMessage) -> None:
        await self.send(b"TOUCH %b\n" % message.id)

    async def publish(self, topic: str, *bodies: bytes) -> None:
        for body in bodies:
            assert await self.ask(pub(topic, body)) == b"OK"

    async def settle(self) -> None:
        """Return once the server has executed all that was sent; needs a state in which PUB is harmless."""
        await self.publish("settle#ephemeral", b"x")


@asynccontextmanager
async def raw_client(address: str, magic: bytes = MAGIC) -> AsyncGenerator[RawClient]:
    async with await connect(address) as stream:
        client = RawClient(stream)
        await client.send(magic)
        yield client


async def connect(address: str) -> ByteStream:
    """To ``host:port``, or to the path of a unix socket."""
    if address.startswith("/"):
        # Not by AnyIO, whose streams of unix sockets fail on asyncio when they are closed as data arrive.
        unix = socket.socket(socket.AF_UNIX)
        unix.setblocking(False)
        unix.connect(address)
        return await SocketStream.from_socket(unix)
    host, _, port = address.rpartition(":")
    return await anyio.connect_tcp(host, int(port))


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what the server does by itself, which no answer tells."""
    with anyio.fail_after(LIMIT):
        while not condition():  # noqa: ASYNC110 - the server has no event for tests
            await anyio.sleep(0.005)


def sized(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


def pub(topic: str, body: bytes) -> bytes:
    return f"PUB {topic}\n".encode() + sized(body)


def dpub(topic: str, delay_ms: int, body: bytes) -> bytes:
    return f"DPUB {topic} {delay_ms}\n".encode() + sized(body)


def bodies(*messages: bytes) -> bytes:
    return struct.pack(">I", len(messages)) + b"".join(map(sized, messages))


def mpub(topic: str, *messages: bytes) -> bytes:
    return f"MPUB {topic}\n".encode() + sized(bodies(*messages))


def identify(payload: str) -> bytes:
    return b"IDENTIFY\n" + sized(payload.encode())
