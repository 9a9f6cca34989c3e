"""The proxy that other tests rely on does to a connection what it says."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import anyio
import pytest
from anyio.abc import SocketStream

from nsq_anyio.testing.faults import FaultProxy, fault_proxy

from ..http.support import tcp_server

pytestmark = pytest.mark.anyio


async def echo(stream: SocketStream) -> None:
    with suppress(anyio.EndOfStream):
        while True:
            await stream.send(await stream.receive())
    await stream.send_eof()


@asynccontextmanager
async def echoed() -> AsyncGenerator[tuple[FaultProxy, SocketStream]]:
    """A connection through a proxy to a server that returns all bytes."""
    async with tcp_server(echo) as address, fault_proxy(address) as proxy:
        async with await anyio.connect_tcp("127.0.0.1", proxy.port) as stream:
            await stream.send(b"ready")
            assert await receive(stream, 5) == b"ready"
            yield proxy, stream


async def receive(stream: SocketStream, count: int) -> bytes:
    data = b""
    with anyio.fail_after(5):
        while len(data) < count:
            data += await stream.receive()
    return data


async def receives_nothing(stream: SocketStream) -> bool:
    with anyio.move_on_after(0.03):
        await stream.receive()
        return False
    return True


async def test_bytes_pass_both_ways_and_so_does_the_end() -> None:
    async with echoed() as (proxy, stream):
        await stream.send(b"hello")
        assert await receive(stream, 5) == b"hello"
        await stream.send_eof()
        with pytest.raises(anyio.EndOfStream), anyio.fail_after(5):
            await stream.receive()
        assert proxy.accepted == 1


@pytest.mark.parametrize("way", ["to_server", "to_client"])
async def test_byte_by_byte_with_a_delay_takes_its_time_and_loses_nothing(way: str) -> None:
    async with echoed() as (proxy, stream):
        direction = getattr(proxy, way)
        direction.piece, direction.delay = 1, 0.005
        began = anyio.current_time()
        await stream.send(b"hello")
        assert await receive(stream, 5) == b"hello"
        assert anyio.current_time() - began >= 4 * 0.005


@pytest.mark.parametrize("way", ["to_server", "to_client"])
async def test_a_connection_is_cut_after_so_many_bytes(way: str) -> None:
    async with echoed() as (proxy, stream):
        getattr(proxy, way).cut_after = len(b"readyhel")
        await stream.send(b"hello")
        received = b""
        with pytest.raises(anyio.EndOfStream), anyio.fail_after(5):
            while True:
                received += await stream.receive()
        assert b"hel".startswith(received)
        assert way == "to_server" or received == b"hel"


async def test_what_is_stalled_passes_later() -> None:
    async with echoed() as (proxy, stream):
        proxy.stalled = True
        await stream.send(b"hello")
        assert await receives_nothing(stream)
        proxy.stalled = False
        assert await receive(stream, 5) == b"hello"


async def test_a_stalled_proxy_reads_nothing_so_that_the_sender_gets_stuck() -> None:
    async with echoed() as (proxy, stream):
        proxy.stalled = True
        with pytest.raises(TimeoutError), anyio.fail_after(0.1):
            await stream.send(bytes(16 * 1024 * 1024))


async def test_cut_is_the_end_of_the_stream_and_reset_is_a_broken_one() -> None:
    async with echoed() as (proxy, stream):
        await stream.send(b"hello")
        assert await receive(stream, 5) == b"hello"
        proxy.cut()
        with pytest.raises(anyio.EndOfStream), anyio.fail_after(5):
            await stream.receive()

    async with echoed() as (proxy, stream):
        await stream.send(b"hello")
        assert await receive(stream, 5) == b"hello"
        proxy.reset()
        with pytest.raises(anyio.BrokenResourceError), anyio.fail_after(5):
            await stream.receive()


async def test_half_open_leaves_the_client_without_a_sign() -> None:
    async with echoed() as (proxy, stream):
        await stream.send(b"hello")
        assert await receive(stream, 5) == b"hello"
        proxy.half_open()
        assert await receives_nothing(stream)
        await stream.send(b"hello")
        assert await receives_nothing(stream)


async def test_refuse_closes_the_port_until_listen_opens_it_again() -> None:
    async with echoed() as (proxy, stream):
        await proxy.refuse()
        with pytest.raises(OSError, match=r"All connection attempts failed|refused|Connect call failed"):
            await anyio.connect_tcp("127.0.0.1", proxy.port)
        await stream.send(b"still")
        assert await receive(stream, 5) == b"still"

        await proxy.listen()
        async with await anyio.connect_tcp("127.0.0.1", proxy.port) as again:
            await again.send(b"hello")
            assert await receive(again, 5) == b"hello"
