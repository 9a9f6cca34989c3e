"""Two ends of TLS in one process, and transports that fail as a test says."""

import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import ByteStream, UNIXSocketStream

from nsq_anyio.options import TLSOptions
from nsq_anyio.transport.tls import TLSStream, start_tls
from nsq_anyio.transport.tls_context import client_context

from ..tls_files import KeyPair, TLSFiles

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


class Transport(ByteStream):
    """Passes everything on, and keeps what is sent.

    :ivar sent: the pieces, each as it was handed over, unless ``keeps_sent`` is False
    :ivar held: when it is a list, pieces are kept there instead of being sent
    :ivar can_half_close: whether there is a ``send_eof``
    """

    def __init__(self, stream: ByteStream) -> None:
        self.stream = stream
        self.sent: list[bytes] = []
        self.keeps_sent = True
        self.held: list[bytes] | None = None
        self.can_half_close = True

    async def receive(self, max_bytes: int = 65536) -> bytes:
        return await self.stream.receive(max_bytes)

    async def send(self, item: bytes) -> None:
        if self.keeps_sent:
            self.sent.append(item)
        if self.held is not None:
            self.held.append(item)
        else:
            await self.stream.send(item)

    async def send_eof(self) -> None:
        if not self.can_half_close:
            raise NotImplementedError
        await self.stream.send_eof()

    async def aclose(self) -> None:
        await self.stream.aclose()

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        stream: Any = self.stream
        attributes: Mapping[Any, Callable[[], Any]] = stream.extra_attributes
        return attributes


@asynccontextmanager
async def transports() -> AsyncGenerator[tuple[Transport, Transport]]:
    """The two ends of a connection."""
    left, right = socket.socketpair()
    async with (
        Transport(await UNIXSocketStream.from_socket(left)) as client,
        Transport(await UNIXSocketStream.from_socket(right)) as server,
    ):
        yield client, server


def server_context(
    pair: KeyPair, version: ssl.TLSVersion, *, client_ca_file: str | None = None
) -> ssl.SSLContext:
    """A server that speaks one version, and may require a certificate of the client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = context.maximum_version = version
    context.load_cert_chain(pair.certificate_file, pair.private_key_file)
    if client_ca_file is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(client_ca_file)
    return context


class Ends:
    """What a handshake on both ends has led to: a stream or what it raised."""

    def __init__(self) -> None:
        self.client: TLSStream | BaseException | None = None
        self.server: TLSStream | BaseException | None = None


async def shake_hands(
    client: ByteStream,
    server: ByteStream,
    client_side: ssl.SSLContext,
    server_side: ssl.SSLContext,
    *,
    server_hostname: str | None = "localhost",
) -> Ends:
    """Do the handshake on both ends at once; a side that is refused hangs up."""
    ends = Ends()

    async def connect() -> None:
        try:
            ends.client = await start_tls(client, client_side, server_hostname=server_hostname)
        except (ssl.SSLError, anyio.EndOfStream, anyio.BrokenResourceError) as error:
            ends.client = error
            await client.aclose()

    async def accept() -> None:
        try:
            ends.server = await start_tls(server, server_side, server_side=True)
        except (ssl.SSLError, anyio.EndOfStream, anyio.BrokenResourceError) as error:
            ends.server = error
            await server.aclose()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(connect)
        tasks.start_soon(accept)
    return ends


@asynccontextmanager
async def tls_over(
    client: ByteStream, server: ByteStream, files: TLSFiles, version: ssl.TLSVersion
) -> AsyncGenerator[tuple[TLSStream, TLSStream]]:
    """The client's and the server's end of TLS between two transports."""
    ends = await shake_hands(
        client,
        server,
        client_context(TLSOptions(ca_file=files.ca_file)),
        server_context(files.server, version),
    )
    assert isinstance(ends.client, TLSStream)
    assert isinstance(ends.server, TLSStream)
    async with ends.client, ends.server:
        yield ends.client, ends.server


@asynccontextmanager
async def tls_ends(files: TLSFiles, version: ssl.TLSVersion) -> AsyncGenerator[tuple[TLSStream, TLSStream]]:
    """The client's and the server's end of a TLS connection."""
    async with transports() as (client, server), tls_over(client, server, files, version) as ends:
        yield ends


async def receive_all(stream: ByteStream, *, size: int = 65536) -> bytes:
    """Everything until the end of the stream."""
    parts: list[bytes] = []
    try:
        while True:
            parts.append(await stream.receive(size))
    except anyio.EndOfStream:
        return b"".join(parts)


async def receive_exactly(stream: ByteStream, count: int) -> bytes:
    """As many bytes as they are said to be."""
    data = b""
    while len(data) < count:
        data += await stream.receive(count - len(data))
    return data
