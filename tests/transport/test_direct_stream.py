"""The stream on a bare socket: whole, in order, and gone when it is closed."""

from __future__ import annotations

import contextvars
import errno
import fcntl
import random
import signal
import socket
import struct
import sys
import termios
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketAttribute

from nsq_anyio.address import Address
from nsq_anyio.transport import socket_stream
from nsq_anyio.transport.asyncio_backend import AsyncioReadable
from nsq_anyio.transport.dial import dial
from nsq_anyio.transport.socket_stream import AnyioReadable, DirectSocketStream

from ..fake_nsqd import until

pytestmark = pytest.mark.anyio

DESCRIPTORS = Path("/proc/self/fd")

MUCH = bytes(range(256)) * 32768
"""8 MiB, more than the kernel takes at once."""


@pytest.fixture(autouse=True, params=["the loop's receiver", "AnyIO's wait"])
def receiver(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a loop's callback cannot resume tasks, AnyIO waits."""
    if request.param == "AnyIO's wait":
        monkeypatch.setattr(socket_stream, "readable", AnyioReadable)


@asynccontextmanager
async def connected() -> AsyncGenerator[tuple[DirectSocketStream, socket.socket]]:
    """A stream, and its peer as a non-blocking socket."""
    listener = socket.create_server(("127.0.0.1", 0))
    with listener:
        stream = await dial(Address("127.0.0.1", listener.getsockname()[1]), timeout=5)
        peer, _ = listener.accept()
    assert isinstance(stream, DirectSocketStream)
    peer.setblocking(False)
    with peer:
        async with stream:
            yield stream, peer


async def read(peer: socket.socket, size: int) -> bytes:
    data = b""
    with anyio.fail_after(10):
        while len(data) < size:
            await anyio.wait_readable(peer)
            piece = peer.recv(1024 * 1024)
            assert piece, f"ended after {len(data)} of {size} bytes"
            data += piece
    return data


async def test_both_ways() -> None:
    async with connected() as (stream, peer):
        await stream.send(b"ping")
        assert await read(peer, 4) == b"ping"
        peer.send(b"pong")
        assert await stream.receive() == b"pong"
        assert stream.extra(SocketAttribute.remote_port) == peer.getsockname()[1]
        assert stream.extra(SocketAttribute.raw_socket).getsockname() == peer.getpeername()


def polled(stream: DirectSocketStream, seconds: float = 5) -> list[bytes]:
    received: list[bytes] = []
    stream.receive_soon(100, seconds, received)
    return received


async def test_what_comes_soon_is_received_in_place_of_the_task_that_waits() -> None:
    async with connected() as (stream, peer), anyio.create_task_group() as tasks:
        read: list[bytes] = []

        async def receive() -> None:
            read.append(await stream.receive())

        tasks.start_soon(receive)
        await anyio.wait_all_tasks_blocked()
        assert polled(stream, 0) == []
        peer.send(b"first")
        assert polled(stream) == [b"first"]
        await anyio.wait_all_tasks_blocked()
        peer.send(b"second")
        await until(lambda: read == [b"second"])


async def test_the_end_of_the_stream_is_left_to_the_task_that_waits() -> None:
    async with connected() as (stream, peer):
        peer.send(b"last")
        peer.shutdown(socket.SHUT_WR)
        await until(lambda: polled(stream, 0) == [] and unread(stream) == 4)
        assert await stream.receive() == b"last"
        assert polled(stream) == []
        with pytest.raises(anyio.EndOfStream):
            await stream.receive()


async def test_nothing_overtakes_bytes_that_the_loop_has_received(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    readable = socket_stream.readable

    def noted(sock: socket.SocketType) -> object:
        made.append(readable(sock))
        return made[-1]

    monkeypatch.setattr(socket_stream, "readable", noted)
    async with connected() as (stream, peer), anyio.create_task_group() as tasks:
        read: list[bytes] = []

        async def receive() -> None:
            for _ in range(2):
                read.append(await stream.receive())

        tasks.start_soon(receive)
        await anyio.wait_all_tasks_blocked()
        peer.send(b"first")
        if isinstance(made[-1], AsyncioReadable):
            made[-1].on_readable()  # not in the loop's callback: the task runs later
            peer.send(b"second")
            assert polled(stream, 0) == []
        else:
            peer.send(b"second")
        await until(lambda: b"".join(read) == b"firstsecond")
        tasks.cancel_scope.cancel()


class Reset(socket.socket):
    """A connection that is reset right after it was found readable."""

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        raise ConnectionResetError(errno.ECONNRESET, "reset")


async def test_a_reset_between_the_poll_and_the_receive_is_left_to_the_task_that_waits() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        ours.setblocking(False)
        stream = DirectSocketStream(Reset(fileno=ours.detach()), {}, 1)
        theirs.send(b"x")
        assert polled(stream) == []
        with pytest.raises(anyio.BrokenResourceError):
            await stream.receive()
        await stream.aclose()


async def test_nothing_is_received_from_a_closed_stream() -> None:
    async with connected() as (stream, peer):
        peer.send(b"x")
        await stream.aclose()
        assert polled(stream) == []


def unread(stream: DirectSocketStream) -> int:
    """How many bytes the system holds for the stream."""
    count = fcntl.ioctl(stream.extra(SocketAttribute.raw_socket), termios.FIONREAD, bytes(4))
    return int.from_bytes(count, sys.byteorder)


async def test_a_large_send_waits_for_the_peer_and_arrives_whole() -> None:
    async with connected() as (stream, peer):
        sent = 0

        async def send() -> None:
            nonlocal sent
            await stream.send(MUCH)
            sent += 1

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            await anyio.wait_all_tasks_blocked()
            assert sent == 0
            assert await read(peer, len(MUCH)) == MUCH
        assert sent == 1


async def test_sending_now_takes_what_fits_and_never_waits() -> None:
    async with connected() as (stream, peer):
        rest = memoryview(MUCH)
        while count := sent_now(stream, rest):
            rest = rest[count:]
        assert 0 < len(rest) < len(MUCH)
        assert await read(peer, len(MUCH) - len(rest)) == MUCH[: -len(rest)]
        assert sent_now(stream, b"x") == 1


def sent_now(stream: DirectSocketStream, data: bytes | memoryview) -> int:
    sent: list[int] = []
    stream.send_now(data, sent)
    return sum(sent)


@pytest.mark.skipif(sys.platform == "win32", reason="it has no timer that sends a signal")
@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError])
async def test_who_is_interrupted_by_a_signal_handler_knows_what_was_sent(error: type[BaseException]) -> None:
    def interrupt(*_: object) -> None:
        if sending:  # and not later, where the system is late with the signal
            raise error

    sending = False
    async with connected() as (stream, peer):
        told = received = interrupts = 0
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            for _ in range(3000):
                sent: list[int] = []
                try:
                    sending = True
                    signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 40e-6))
                    stream.send_now(bytes(10_000), sent)
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except error:
                    interrupts += 1
                sending = False
                told += sum(sent)
                while received < told:
                    received += len(await read(peer, told - received))
        finally:
            signal.signal(signal.SIGALRM, before)
        assert received == told
        assert interrupts > 0
        with pytest.raises(BlockingIOError):
            peer.recv(1)


async def test_much_that_arrived_is_received_in_bounded_pieces() -> None:
    async with connected() as (stream, peer):
        received = b""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send_all, peer, MUCH)
            with anyio.fail_after(10):
                while len(received) < len(MUCH):
                    piece = await stream.receive(100_000)
                    assert 0 < len(piece) <= 100_000
                    received += piece
        assert received == MUCH


async def send_all(peer: socket.socket, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        await anyio.wait_writable(peer)
        rest = rest[peer.send(rest) :]


async def test_either_side_may_end_first() -> None:
    async with connected() as (stream, peer):
        await stream.send_eof()
        await anyio.wait_readable(peer)
        assert peer.recv(1) == b""
        peer.send(b"still here")
        assert await stream.receive() == b"still here"
        peer.shutdown(socket.SHUT_WR)
        for _ in range(2):
            with pytest.raises(anyio.EndOfStream):
                await stream.receive()


async def test_a_reset_is_a_broken_stream() -> None:
    async with connected() as (stream, peer):
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        peer.close()
        with pytest.raises(anyio.BrokenResourceError) as caught:
            await stream.receive()
        assert isinstance(caught.value.__cause__, ConnectionResetError)
        with pytest.raises(anyio.BrokenResourceError):
            sent_now(stream, b"x")
        with pytest.raises(anyio.BrokenResourceError):
            await stream.send_eof()


async def test_a_reset_right_behind_bytes_is_a_broken_stream() -> None:
    """libuv reports both at once, and nothing after that."""
    async with connected() as (stream, peer):
        received: list[bytes] = []

        async def receive() -> None:
            received.append(await stream.receive())
            with pytest.raises(anyio.BrokenResourceError):
                await stream.receive()

        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(receive)
                await anyio.wait_all_tasks_blocked()
                peer.send(b"last")
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                peer.close()
        assert received == [b"last"]


async def test_closing_wakes_whoever_waits() -> None:
    async with connected() as (stream, _peer):

        async def receive() -> None:
            with pytest.raises(anyio.ClosedResourceError):
                await stream.receive()

        async def send() -> None:
            with pytest.raises(anyio.ClosedResourceError):
                await stream.send(MUCH)

        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(receive)
                tasks.start_soon(send)
                await anyio.wait_all_tasks_blocked()
                await stream.aclose()
        for call in (stream.receive, stream.send_eof):
            with pytest.raises(anyio.ClosedResourceError):
                await call()
        with pytest.raises(anyio.ClosedResourceError):
            sent_now(stream, b"x")
        await stream.aclose()


async def test_a_cancelled_receive_loses_nothing() -> None:
    async with connected() as (stream, peer):
        with anyio.move_on_after(0.01) as scope:
            await stream.receive()
        assert scope.cancelled_caught
        peer.send(b"kept")
        received = b""
        with anyio.CancelScope() as cancelled:
            cancelled.cancel()
            received = await stream.receive()  # whether it is done before it is cancelled is up to the loop
        assert (received or await stream.receive()) == b"kept"


def descriptors() -> int:
    """How many this process has open."""
    return len(list(DESCRIPTORS.iterdir()))


@pytest.mark.skipif(not DESCRIPTORS.is_dir(), reason="counts descriptors there")
async def test_no_descriptor_is_left() -> None:
    async with connected():
        pass
    await anyio.wait_all_tasks_blocked()
    before = descriptors()
    for _ in range(20):
        async with connected() as (stream, _peer):
            await stream.send(b"x")
    await anyio.wait_all_tasks_blocked()
    assert descriptors() == before


async def test_a_cancelled_receive_keeps_what_had_arrived_at_that_moment() -> None:
    async with connected() as (stream, peer):
        received = b""
        for number in range(200):
            peer.send(b"%03d" % number)
            with anyio.move_on_after(0 if number % 2 else 0.0001):
                received += await stream.receive(2)
        with anyio.fail_after(5):
            while len(received) < 600:
                received += await stream.receive(2)
        assert received == b"".join(b"%03d" % number for number in range(200))


async def test_bytes_that_come_while_nobody_waits_cost_no_turns() -> None:
    async with connected() as (stream, peer):
        peer.send(b"1")
        assert await stream.receive() == b"1"
        peer.send(b"2")
        # Whatever watches the socket has to leave it alone now, or the loop would spin.
        started = time.process_time()
        await anyio.sleep(0.3)
        assert time.process_time() - started < 0.15
        assert await stream.receive() == b"2"


async def test_two_tasks_cannot_receive() -> None:
    async with connected() as (stream, _peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stream.receive)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(anyio.BusyResourceError):
                await stream.receive()
            tasks.cancel_scope.cancel()


async def test_a_task_that_goes_on_with_what_arrived_is_the_one_that_waited() -> None:
    """asyncio's own future would wake it in another turn of the loop; what it sees must be no different."""
    name = contextvars.ContextVar("name", default="")
    seen: list[tuple[str, object]] = []

    def have_come(count: int) -> bool:
        return len(seen) == count

    async def receive(stream: DirectSocketStream, mine: str) -> None:
        name.set(mine)
        me = anyio.get_current_task().id
        for _ in range(3):
            await stream.receive()
            seen.append((name.get(), anyio.get_current_task().id == me))

    async with connected() as (one, peer_of_one), connected() as (two, peer_of_two):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(receive, one, "one")
            tasks.start_soon(receive, two, "two")
            for count in (2, 4, 6):
                peer_of_one.send(b"x")
                peer_of_two.send(b"x")
                await until(partial(have_come, count))
    assert sorted(seen) == [("one", True)] * 3 + [("two", True)] * 3


async def test_a_task_that_goes_on_may_raise_and_cancel_another_that_waits() -> None:
    async with connected() as (one, peer_of_one), connected() as (two, peer_of_two):

        async def fail() -> None:
            await one.receive()
            raise ValueError("mine")

        with pytest.raises(ExceptionGroup) as caught:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(fail)
                tasks.start_soon(two.receive)
                await anyio.wait_all_tasks_blocked()
                peer_of_one.send(b"x")
        assert [str(error) for error in caught.value.exceptions] == ["mine"]
        peer_of_two.send(b"kept")
        assert await two.receive() == b"kept"
