"""A send lasts as long as the peer takes bytes, however slowly, and ends soon after it has stopped."""

from __future__ import annotations

import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import ByteStream, SocketAttribute

from nsq_anyio.address import Address
from nsq_anyio.transport import socket_stream
from nsq_anyio.transport.dial import dial
from nsq_anyio.transport.layer import TimedSends
from nsq_anyio.transport.socket_stream import unacknowledged

from .. import virtual_time
from ..connection.pipe import Pipe
from .dialers import dial_anyio

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio

MUCH = bytes(16 * 1024 * 1024)
"""More than the kernel takes at once."""


@asynccontextmanager
async def connected(
    *, direct: bool, write_timeout: float
) -> AsyncGenerator[tuple[ByteStream, socket.socket]]:
    """A stream, and its peer as a non-blocking socket with a small buffer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * 1024)  # accepted ones inherit it
        address = Address("127.0.0.1", listener.getsockname()[1])
        dialer = None if direct else dial_anyio
        stream = await dial(address, timeout=5, write_timeout=write_timeout, dialer=dialer)
        peer, _ = listener.accept()
    peer.setblocking(False)
    with peer:
        try:
            yield stream, peer
        finally:
            await anyio.aclose_forcefully(stream)


@pytest.mark.parametrize("direct", [True, False])
async def test_a_peer_that_takes_nothing_is_given_up(direct: bool) -> None:
    async with connected(direct=direct, write_timeout=0.1) as (stream, _peer):
        with anyio.fail_after(5), pytest.raises(TimeoutError):
            await stream.send(MUCH)


async def test_a_send_lasts_while_the_system_gets_rid_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system takes more only when a third of its buffer, megabytes perhaps, is free again."""
    async with connected(direct=True, write_timeout=10) as (stream, _peer):
        left = [900, 800, 700, 700]

        async def never(_sock: socket.socket) -> None:
            await anyio.sleep_forever()

        monkeypatch.setattr(anyio, "wait_writable", never)

        def next_left(_sock: socket.socket) -> int:
            return left.pop(0)

        monkeypatch.setattr(socket_stream, "unacknowledged", next_left)
        began = anyio.current_time()
        with pytest.raises(TimeoutError):
            await stream.send(MUCH)
        assert left == []
        assert 30 <= anyio.current_time() - began < 31


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system does not tell what was taken")
async def test_what_the_peer_has_taken_is_known() -> None:
    async with connected(direct=True, write_timeout=10) as (stream, peer):
        sock = stream.extra(SocketAttribute.raw_socket)
        with anyio.move_on_after(0.1):
            await stream.send(MUCH)
        full = unacknowledged(sock)
        assert full > 0
        while unacknowledged(sock) >= full:
            await anyio.wait_readable(peer)
            peer.recv(8 * 1024)


class Slow(Pipe):
    """Takes a second for each send."""

    async def send(self, item: bytes) -> None:
        await anyio.sleep(1)
        await super().send(item)


async def test_a_stream_of_a_dialer_sends_in_pieces_that_have_their_time_each() -> None:
    pipe = Slow()
    data = MUCH[:1_000_001]
    await TimedSends(pipe, 1.5).send(data)
    assert b"".join(pipe.sends) == data
    assert {len(piece) for piece in pipe.sends[:-1]} == {64 * 1024}
    with pytest.raises(TimeoutError):
        await TimedSends(pipe, 0.5).send(b"x")
