"""The embedded servers end in bounded time whatever happens, and leave nothing."""

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream

from nsq_anyio import embedded
from nsq_anyio.embedded import EmbeddedNsqd, EmbeddedNsqlookupd, NsqdOptions
from tests.tls_files import TLSFiles, tls_files

from .raw_client import connect, identify, pub, raw_client, until

__all__ = ["tls_files"]

pytestmark = pytest.mark.anyio

LIMIT = 3.0
BODY = b"x" * 500_000

Peers = list[SocketStream | socket.socket]


@asynccontextmanager
async def servers(**options: Any) -> AsyncGenerator[tuple[EmbeddedNsqd, EmbeddedNsqlookupd]]:
    async with (
        embedded.nsqlookupd() as nsqlookupd,
        embedded.nsqd(lookupd_tcp_addresses=[nsqlookupd.tcp_address], options=NsqdOptions(**options)) as nsqd,
    ):
        yield nsqd, nsqlookupd


def plain_socket(address: str) -> socket.socket:
    """A connection that nothing reads, with little room for what is sent to it."""
    host, _, port = address.rpartition(":")
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    peer.settimeout(LIMIT)
    peer.connect((host.rpartition("/")[2], int(port)))
    return peer


async def surround(nsqd: EmbeddedNsqd, nsqlookupd: EmbeddedNsqlookupd) -> list[socket.socket]:
    """Peers in every state that holds a task of the servers: none of them closes, or reads."""
    assert nsqd.https_url is not None
    said = {
        nsqd.tcp_address: [
            b"",
            b"  V",
            b"  V2SUB t c\nRDY 2500\n",
            b"  V2" + identify('{"feature_negotiation":true,"tls_v1":true}'),  # and no handshake
            b"  V2" + identify('{"feature_negotiation":true,"snappy":true}') + b"\xff\x06",
            b"  V2PUB t\n\x00\x00\x10\x00abc",
            b"  V2BAD\n",  # it is left to read the error
        ],
        nsqd.http_url: [
            b"",
            b"GET /pi",
            b"POST /pub?topic=t HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n",
            b"GET /ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
            b"GET /stats HTTP/1.1\r\nHost: x\r\n\r\n" * 2000,
        ],
        nsqd.https_url: [b"", b"\x16\x03\x01"],
        nsqlookupd.tcp_address: [b"", b"  V1IDENTIFY\n", b"  V1PING\n" * 5],
        nsqlookupd.http_url: [b"", b"GET / HTTP/1.1\r\n"],
    }
    peers: list[socket.socket] = []
    for address, beginnings in said.items():
        for beginning in beginnings:
            peer = plain_socket(address)
            peer.sendall(beginning)
            peers.append(peer)
    async with raw_client(nsqd.tcp_address) as producer:
        for _ in range(20):
            await producer.send(pub("t", BODY))
            assert await producer.response() == b"OK"
    await until(lambda: "c" in nsqd.topics["t"].channels)
    return peers


def assert_closed(peers: list[socket.socket]) -> None:
    """The servers have closed all of them."""
    for peer in peers:
        with peer:
            try:
                while peer.recv(1 << 20):
                    pass
            except ConnectionError:
                pass  # a reset is an end as well; a timeout is not


def assert_free(*addresses: str) -> None:
    for address in addresses:
        host, _, port = address.rpartition(":")
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((host.rpartition("/")[2], int(port)))


def tls_options(files: TLSFiles) -> dict[str, Any]:
    return {"tls_cert": files.certificate_file, "tls_key": files.private_key_file}


@pytest.mark.parametrize("how", ["the block ends", "the block raises", "the block is cancelled"])
async def test_peers_that_never_close_hold_nothing_up(tls_files: TLSFiles, how: str) -> None:
    addresses: list[str] = []
    peers: list[socket.socket] = []
    started_at = 0.0
    with anyio.CancelScope() as scope:
        try:
            async with servers(**tls_options(tls_files)) as (nsqd, nsqlookupd):
                peers = await surround(nsqd, nsqlookupd)
                addresses = [nsqd.tcp_address, nsqd.http_url, nsqlookupd.tcp_address, nsqlookupd.http_url]
                started_at = anyio.current_time()
                if how == "the block raises":
                    raise KeyError("mine")
                if how == "the block is cancelled":
                    scope.cancel()
                    await anyio.sleep_forever()
        except KeyError:
            assert how == "the block raises"
    assert anyio.current_time() - started_at < LIMIT
    assert_closed(peers)
    assert_free(*addresses)


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 10])
def test_a_second_cancellation_while_they_end(tls_files: TLSFiles, turns: int) -> None:
    """asyncio's own cancellation comes once, so a second one meets whatever the first has begun."""
    peers: list[socket.socket] = []
    addresses: list[str] = []

    async def main() -> None:
        ready = asyncio.Event()

        async def serve() -> None:
            async with servers(**tls_options(tls_files)) as (nsqd, nsqlookupd):
                peers.extend(await surround(nsqd, nsqlookupd))
                addresses.extend([nsqd.tcp_address, nsqd.http_url])
                addresses.extend([nsqlookupd.tcp_address, nsqlookupd.http_url])
                ready.set()
                await anyio.sleep_forever()

        task = asyncio.create_task(serve())
        await ready.wait()
        task.cancel()
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=LIMIT)
        assert done
        assert task.cancelled()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert_closed(peers)
    assert_free(*addresses)


async def test_a_listener_on_several_addresses_is_closed_whole_under_cancellation() -> None:
    addresses: list[str] = []
    with anyio.CancelScope() as scope:
        async with (
            embedded.nsqd(host="localhost") as nsqd,
            embedded.nsqlookupd(host="localhost") as nsqlookupd,
        ):
            addresses = [nsqd.tcp_address, nsqd.http_url, nsqlookupd.tcp_address, nsqlookupd.http_url]
            scope.cancel()
            await anyio.sleep_forever()
    for address in addresses:
        port = int(address.rpartition(":")[2])
        for family, _, _, _, place in socket.getaddrinfo("localhost", port, type=socket.SOCK_STREAM):
            with socket.socket(family) as peer:
                with pytest.raises(OSError, match="refused"):
                    peer.connect(place)


async def test_silent_nsqlookupds_hold_nothing_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        async with AsyncExitStack() as stack:
            nsqd = await stack.enter_async_context(embedded.nsqd(lookupd_tcp_addresses=[address]))
            connection, _ = await anyio.to_thread.run_sync(silent.accept)
            stream = await connect(nsqd.tcp_address)
            started_at = anyio.current_time()
        assert anyio.current_time() - started_at < LIMIT
        await stream.aclose()
        connection.settimeout(LIMIT)
        assert_closed([connection])
