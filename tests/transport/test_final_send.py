"""The last bytes from a plain function go through every layer whole, or the stream says that it is over."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import cast

import anyio
import pytest
from anyio.abc import ByteStream, SocketAttribute, SocketStream

from nsq_anyio.address import Address
from nsq_anyio.options import TLSOptions
from nsq_anyio.transport.compressed import CompressedStream
from nsq_anyio.transport.dial import dial
from nsq_anyio.transport.socket_stream import end_now, last_send
from nsq_anyio.transport.tls import start_tls
from nsq_anyio.transport.tls_context import client_context

from ..layered_nsqd import Compression, make_codec, server_context
from ..tls_files import TLSFiles, tls_files
from .dialers import dial_anyio

__all__ = ["tls_files"]

pytestmark = pytest.mark.anyio

MUCH = os.urandom(16 * 1024 * 1024)
"""More than the kernel takes at once, however it is compressed."""

WAYS: dict[str, tuple[bool, Compression | None]] = {
    "tls": (True, None),
    "snappy": (False, "snappy"),
    "deflate": (False, "deflate"),
    "tls-deflate": (True, "deflate"),
}


@asynccontextmanager
async def both_ends(
    way: str, files: TLSFiles, *, direct: bool = True
) -> AsyncGenerator[tuple[ByteStream, ByteStream]]:
    """A client's stream with its layers, and the server's."""
    has_tls, compression = WAYS[way]
    accepted: list[SocketStream] = []
    async with AsyncExitStack() as stack:
        listener = await stack.enter_async_context(await anyio.create_tcp_listener(local_host="127.0.0.1"))
        tasks = await stack.enter_async_context(anyio.create_task_group())

        async def keep(stream: SocketStream) -> None:
            accepted.append(stream)
            await anyio.sleep_forever()

        tasks.start_soon(listener.serve, keep)
        address = Address("127.0.0.1", listener.extra(SocketAttribute.local_port))
        client = await dial(address, timeout=5, dialer=None if direct else dial_anyio)
        stack.push_async_callback(anyio.aclose_forcefully, client)
        with anyio.fail_after(5):
            while not accepted:  # noqa: ASYNC110 - nothing tells of it
                await anyio.sleep(0.001)
        server = cast("ByteStream", accepted[0])
        stack.push_async_callback(anyio.aclose_forcefully, server)
        if has_tls:
            layered: list[ByteStream] = []
            below = server

            async def serve_tls() -> None:
                layered.append(await start_tls(below, server_context(files), server_side=True))

            async with anyio.create_task_group() as shaking:
                shaking.start_soon(serve_tls)
                context = client_context(TLSOptions(ca_file=files.ca_file))
                client = await start_tls(client, context, server_hostname="127.0.0.1")
            (server,) = layered
        if compression is not None:
            client = CompressedStream(client, make_codec(compression))
            server = CompressedStream(server, make_codec(compression))
        yield client, server
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("way", WAYS)
async def test_all_is_sent_and_then_the_end(way: str, tls_files: TLSFiles) -> None:
    async with both_ends(way, tls_files) as (client, server):
        await client.send(b"before ")
        send_now = last_send(client)
        assert send_now is not None
        sent: list[int] = []
        send_now(b"the last words", sent)
        assert sent == [14]
        end_now(client)
        received = b""
        with anyio.fail_after(5), pytest.raises(anyio.EndOfStream):
            while True:
                received += await server.receive()
        assert received == b"before the last words"


@pytest.mark.parametrize("way", WAYS)
async def test_what_the_system_does_not_take_whole_ends_the_stream(way: str, tls_files: TLSFiles) -> None:
    async with both_ends(way, tls_files) as (client, _server):
        send_now = last_send(client)
        assert send_now is not None
        sent: list[int] = []
        with pytest.raises(anyio.BrokenResourceError):
            send_now(MUCH, sent)
        assert sent == []
        with pytest.raises(anyio.BrokenResourceError):
            send_now(b"x", sent)
        with pytest.raises(anyio.BrokenResourceError):
            await client.send(b"x")


@pytest.mark.parametrize("way", WAYS)
async def test_over_the_stream_of_a_dialer_there_is_none(way: str, tls_files: TLSFiles) -> None:
    async with both_ends(way, tls_files, direct=False) as (client, _server):
        assert last_send(client) is None
        end_now(client)
        await client.send(b"it is still open")
