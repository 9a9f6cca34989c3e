"""A compressed stream: nothing is lost under cancellation, and nothing goes on after a gap."""

import os
import socket
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import ByteStream, SocketAttribute, SocketStream

from nsq_anyio.errors import ProtocolError
from nsq_anyio.protocol.compression import Deflate, Snappy, StreamCodec
from nsq_anyio.transport.compressed import CompressedStream

pytestmark = pytest.mark.anyio

every_codec = pytest.mark.parametrize("make", [Snappy, Deflate])


class Wire(ByteStream):
    """A transport whose every step the test decides."""

    def __init__(self, *incoming: bytes) -> None:
        self.incoming = deque(incoming)
        self.ended = False
        self.arrival = anyio.Event()
        self.asked: list[int] = []
        self.sent: list[bytes] = []
        self.blocked: anyio.Event | None = None
        self.failure: Exception | None = None
        self.calls: list[str] = []

    def arrive(self, data: bytes) -> None:
        self.incoming.append(data)
        self.arrival.set()

    async def receive(self, max_bytes: int = 65536) -> bytes:
        self.asked.append(max_bytes)
        await anyio.lowlevel.checkpoint()
        while not self.incoming:
            if self.ended:
                raise anyio.EndOfStream
            self.arrival = anyio.Event()
            await self.arrival.wait()
        return self.incoming.popleft()

    async def send(self, item: bytes) -> None:
        if self.failure is not None:
            raise self.failure
        if self.blocked is not None:
            self.blocked.set()
            await anyio.sleep_forever()
        self.sent.append(item)

    async def send_eof(self) -> None:
        self.calls.append("send_eof")

    async def aclose(self) -> None:
        self.calls.append("aclose")

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        return {SocketAttribute.remote_port: lambda: 4150}


async def stream_pair() -> tuple[SocketStream, SocketStream]:
    one, other = socket.socketpair()
    return await SocketStream.from_socket(one), await SocketStream.from_socket(other)


def decompressed(pieces: list[bytes], codec: StreamCodec) -> bytes:
    output: list[bytes] = []
    for piece in pieces:
        codec.feed(piece)
        while data := codec.decompress(65536):
            output.append(data)
    return b"".join(output)


# Over sockets.


@every_codec
async def test_both_directions_at_once(make: Callable[[], StreamCodec]) -> None:
    sides = [CompressedStream(stream, make()) for stream in await stream_pair()]
    there, back = os.urandom(700_000), b"text that becomes short " * 60_000

    async def send(stream: CompressedStream, data: bytes) -> None:
        for start in range(0, len(data), 50_000):
            await stream.send(data[start : start + 50_000])
        await stream.send_eof()

    async def expect(stream: CompressedStream, data: bytes) -> None:
        pieces = [piece async for piece in stream]
        assert b"".join(pieces) == data
        assert all(0 < len(piece) <= 65536 for piece in pieces)

    async with sides[0], sides[1], anyio.create_task_group() as tasks:
        tasks.start_soon(send, sides[0], there)
        tasks.start_soon(send, sides[1], back)
        tasks.start_soon(expect, sides[0], back)
        tasks.start_soon(expect, sides[1], there)


@every_codec
async def test_cancelled_receives_lose_nothing(make: Callable[[], StreamCodec]) -> None:
    """A receive is cancelled at each of its steps in turn, while the bytes arrive in small pieces."""
    raw, inner = await stream_pair()
    data = os.urandom(5000) + b"text " * 20_000
    wire = make().compress(data)
    cancelled = 0
    received = b""

    async def send() -> None:
        for start in range(0, len(wire), 97):
            await raw.send(wire[start : start + 97])
            await anyio.lowlevel.checkpoint()

    async with raw, CompressedStream(inner, make()) as stream, anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        steps = 0
        while len(received) < len(data):
            with anyio.CancelScope() as scope:

                async def cancel_later(steps: int, scope: anyio.CancelScope) -> None:
                    for _ in range(steps):
                        await anyio.lowlevel.checkpoint()
                    scope.cancel()

                tasks.start_soon(cancel_later, steps % 7, scope)
                received += await stream.receive(777)
            cancelled += scope.cancelled_caught
            steps += 1
    assert received == data
    assert cancelled > 5


# Receiving.


@every_codec
async def test_what_was_received_before_comes_first(make: Callable[[], StreamCodec]) -> None:
    sender, wire = make(), Wire()
    stream = CompressedStream(wire, make(), sender.compress(b"OK"))
    assert await stream.receive() == b"OK"
    assert wire.asked == []
    wire.arrive(sender.compress(b"more"))
    assert await stream.receive() == b"more"


@every_codec
async def test_what_was_received_before_may_be_a_part(make: Callable[[], StreamCodec]) -> None:
    data = make().compress(b"a piece")
    wire = Wire(data[5:])
    wire.ended = True
    stream = CompressedStream(wire, make(), data[:5])
    assert b"".join([piece async for piece in stream]) == b"a piece"


async def test_input_without_output_is_no_result() -> None:
    data = Snappy().compress(b"x" * 1000)
    padding = b"\xfe\x03\x00\x00..."
    wire = Wire(data[:10], padding, padding, data[10:20], data[20:])
    assert await CompressedStream(wire, Snappy()).receive() == b"x" * 1000


@every_codec
async def test_no_more_is_returned_than_asked_for(make: Callable[[], StreamCodec]) -> None:
    wire = Wire(make().compress(b"0123456789" * 100))
    stream = CompressedStream(wire, make())
    assert [await stream.receive(size) for size in (1, 9, 990)] == [b"0", b"123456789", b"0123456789" * 99]
    assert len(wire.asked) == 1


@pytest.mark.parametrize("max_bytes", [0, -1])
async def test_a_receive_of_nothing_is_refused(max_bytes: int) -> None:
    with pytest.raises(ValueError, match=f"max_bytes={max_bytes} is not valid"):
        await CompressedStream(Wire(), Snappy()).receive(max_bytes)


@pytest.mark.parametrize(("max_bytes", "asked"), [(1, 65536), (65536, 65536), (262_144, 262_144)])
async def test_the_transport_is_read_in_large_pieces(max_bytes: int, asked: int) -> None:
    wire = Wire(Snappy().compress(b"xy"))
    await CompressedStream(wire, Snappy()).receive(max_bytes)
    assert wire.asked == [asked]


@every_codec
async def test_other_tasks_run_while_there_is_output(make: Callable[[], StreamCodec]) -> None:
    stream = CompressedStream(Wire(), make(), make().compress(bytes(1000)))
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        await anyio.lowlevel.checkpoint()
        before = turns
        for _ in range(100):
            await stream.receive(10)
        assert turns - before >= 90
        tasks.cancel_scope.cancel()


@every_codec
async def test_a_cancellation_is_noticed_while_there_is_output_and_takes_none(
    make: Callable[[], StreamCodec],
) -> None:
    stream = CompressedStream(Wire(), make(), make().compress(b"0123456789"))
    assert await stream.receive(2) == b"01"
    for _ in range(3):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await stream.receive(2)
        assert scope.cancelled_caught
    assert await stream.receive() == b"23456789"


@every_codec
async def test_a_cancelled_wait_keeps_the_part_that_arrived(make: Callable[[], StreamCodec]) -> None:
    data = make().compress(b"some message" * 10)
    wire, received = Wire(), b""
    stream = CompressedStream(wire, make())

    async def receive() -> None:
        nonlocal received
        while True:
            received += await stream.receive()

    for part in (data[:3], data[3:12], data[12:]):
        wire.arrive(part)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(receive)
            await anyio.wait_all_tasks_blocked()
            assert not wire.incoming
            tasks.cancel_scope.cancel()
    assert received == b"some message" * 10


@every_codec
@pytest.mark.parametrize("missing", [0, 1, 5])
async def test_the_end_of_the_transport_is_the_end(make: Callable[[], StreamCodec], missing: int) -> None:
    """Even within a chunk: what is cut is a frame, and its reader knows its length."""
    sender = make()
    first, second = sender.compress(b"first"), sender.compress(b"second")
    wire = Wire(first, second[: len(second) - missing] if missing else b"")
    wire.ended = True
    stream = CompressedStream(wire, make())
    received = await stream.receive()
    for _ in range(2):
        with pytest.raises(anyio.EndOfStream):
            while True:
                received += await stream.receive()
    assert received.startswith(b"first")
    assert len(received) <= len(b"firstsecond")


@pytest.mark.parametrize(
    ("codec", "data", "text"),
    [
        (Snappy(), b"\x00\x00\x00\x06", "instead of its identifier"),
        (Deflate(), b"\xff\xff", "a damaged deflate"),
    ],
    ids=["snappy", "deflate"],
)
async def test_damage_is_told_each_time(codec: StreamCodec, data: bytes, text: str) -> None:
    stream = CompressedStream(Wire(data), codec)
    for _ in range(2):
        with pytest.raises(ProtocolError, match=text):
            await stream.receive()


# Sending.


@every_codec
async def test_each_item_is_sent_as_one_piece(make: Callable[[], StreamCodec]) -> None:
    wire, peer = Wire(), make()
    stream = CompressedStream(wire, make())
    for number, item in enumerate([b"RDY 1\n", os.urandom(200_000), b"NOP\n"], start=1):
        await stream.send(item)
        assert len(wire.sent) == number
        assert decompressed(wire.sent[-1:], peer) == item


@every_codec
async def test_nothing_is_sent_after_a_send_that_was_cancelled(make: Callable[[], StreamCodec]) -> None:
    wire = Wire()
    stream = CompressedStream(wire, make())
    await stream.send(b"whole")
    wire.blocked = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stream.send, b"cut")
        await wire.blocked.wait()
        tasks.cancel_scope.cancel()
    wire.blocked = None
    for _ in range(2):
        with pytest.raises(anyio.BrokenResourceError):
            await stream.send(b"after")
    assert decompressed(wire.sent, make()) == b"whole"


async def test_nothing_is_sent_after_a_send_that_failed() -> None:
    wire = Wire()
    stream = CompressedStream(wire, Snappy())
    wire.failure = anyio.BusyResourceError("sending to")
    with pytest.raises(anyio.BusyResourceError):
        await stream.send(b"cut")
    wire.failure = None
    with pytest.raises(anyio.BrokenResourceError):
        await stream.send(b"after")
    assert wire.sent == []


async def test_receiving_goes_on_after_a_cut_send() -> None:
    wire = Wire(Snappy().compress(b"E_INVALID"))
    stream = CompressedStream(wire, Snappy())
    wire.failure = anyio.BrokenResourceError()
    with pytest.raises(anyio.BrokenResourceError):
        await stream.send(b"cut")
    assert await stream.receive() == b"E_INVALID"


# Its end, and what it is.


async def test_the_end_and_the_attributes_are_the_transports() -> None:
    wire = Wire()
    stream = CompressedStream(wire, Snappy())
    assert stream.extra(SocketAttribute.remote_port) == 4150
    await stream.send_eof()
    assert wire.calls == ["send_eof"]
    await stream.aclose()
    assert wire.calls == ["send_eof", "aclose"]


@every_codec
async def test_a_closed_stream_returns_nothing_that_is_left(make: Callable[[], StreamCodec]) -> None:
    stream = CompressedStream(Wire(), make(), make().compress(b"0123456789"))
    assert await stream.receive(2) == b"01"
    await stream.aclose()
    with pytest.raises(anyio.ClosedResourceError):
        await stream.receive(2)


@every_codec
async def test_closing_fails_what_runs_and_what_follows(make: Callable[[], StreamCodec]) -> None:
    inner, other = await stream_pair()
    stream = CompressedStream(inner, make())

    async def receive() -> None:
        with pytest.raises(anyio.ClosedResourceError):
            await stream.receive()

    async with other, anyio.create_task_group() as tasks:
        tasks.start_soon(receive)
        await anyio.wait_all_tasks_blocked()
        await stream.aclose()
    for _ in range(2):
        with pytest.raises(anyio.ClosedResourceError):
            await stream.receive()
        with pytest.raises(anyio.ClosedResourceError):
            await stream.send(b"NOP\n")


async def test_deflate_ends_with_its_final_block() -> None:
    wire = Wire()
    stream = CompressedStream(wire, Deflate())
    await stream.send(b"CLS\n")
    await stream.send_eof()
    peer = zlib.decompressobj(-zlib.MAX_WBITS)
    assert peer.decompress(b"".join(wire.sent)) == b"CLS\n"
    assert peer.eof
    assert wire.calls == []  # the peer may have closed already
    with pytest.raises(anyio.BrokenResourceError):
        await stream.send(b"NOP\n")


async def test_the_final_block_of_deflate_is_the_end() -> None:
    codec = Deflate()
    wire = Wire(codec.compress(b"OK") + codec.finish())
    stream = CompressedStream(wire, Deflate())
    assert await stream.receive() == b"OK"
    for _ in range(2):
        with anyio.fail_after(5), pytest.raises(anyio.EndOfStream):
            await stream.receive()
