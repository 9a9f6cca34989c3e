"""A peer that agrees to what nobody asked for, or sends bombs: a typed error at once, in bounded memory."""

from __future__ import annotations

import tracemalloc
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.events import ConnectFailed, Disconnected

from ..fake_nsqd import FakeConnection, Script, fake_nsqd
from ..layered_nsqd import OK, Compression, Layers, make_codec
from .observe import Events, until
from .wire import COMPRESSIONS, USES, Use, shown

pytestmark = pytest.mark.anyio

SECRET = "s3cret"

BOMB_SIZE = 64 * 1024 * 1024
MEMORY_LIMIT = 16 * 1024 * 1024

PROMPT = nsq.ProducerOptions(connect_timeout=0.2, publish_timeout=0.3)


async def complaint(use: Use, nsqd: str, options: nsq.ConnectionOptions) -> Exception:
    """Why the first connection to ``nsqd`` failed; it is tried again, so the hook is told and nobody else."""
    events = Events()

    async def first() -> Exception:
        with anyio.fail_after(1.0):
            (error, *_) = await until(
                lambda: [
                    *(event.error for event in events.of(ConnectFailed)),
                    *(event.error for event in events.of(Disconnected)),
                ]
            )
            return error

    if use == "consume":
        async with nsq.consume("t", "c", nsqd=nsqd, connection=options, on_event=events):
            return await first()
    async with nsq.produce(nsqd, connection=options, on_event=events, options=PROMPT) as producer:
        error = await first()
        with pytest.raises(nsq.PublishError):
            await producer.publish("t", b"body")
        return error


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("layer", ["tls_v1", "snappy", "deflate"])
async def test_what_was_not_asked_for(use: Use, layer: str) -> None:
    async def script(connection: FakeConnection) -> None:
        await connection.introduction()
        asked = connection.identity
        assert not any(asked.get(name) for name in ("tls_v1", "snappy", "deflate"))
        await connection.send(Layers().answer(**{layer: True}, auth_required=True))
        async for data in connection.stream:
            sent.extend(data)

    sent = bytearray()
    async with fake_nsqd(script) as nsqd:
        error = await complaint(use, nsqd.address, nsq.ConnectionOptions(auth_secret=SECRET))
    assert type(error) is nsq.HandshakeFailed
    assert f"turned on {layer.removesuffix('_v1')}, which was not asked for" in str(error)
    assert not any(SECRET in text for text in shown(error))
    assert not sent  # not even the secret, which it demands


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("asked", COMPRESSIONS)
async def test_both_compressions_at_once(use: Use, asked: Compression) -> None:
    async def script(connection: FakeConnection) -> None:
        await connection.introduction()
        await connection.send(Layers().answer(snappy=True, deflate=True))
        async for data in connection.stream:
            sent.extend(data)

    sent = bytearray()
    options = nsq.ConnectionOptions(snappy=asked == "snappy", deflate=asked == "deflate")
    async with fake_nsqd(script) as nsqd:
        error = await complaint(use, nsqd.address, options)
    assert type(error) is nsq.HandshakeFailed
    assert "which was not asked for" in str(error)
    assert not sent


# Bombs


HUGE_FRAME = b"\x7f\xff\xff\xff\x00\x00\x00\x02"
"""The header of a message frame of nearly 2 GiB."""

BOMBS = {
    "huge frame in place of OK": HUGE_FRAME,
    "huge frame behind OK": OK + HUGE_FRAME,
    "frames of no size": OK,
    "message larger than allowed": OK + (1024 * 1024 + 1).to_bytes(4, "big") + b"\x00\x00\x00\x02",
}
"""What many megabytes of zeros follow."""


@cache
def make_bomb(name: str, compression: Compression) -> bytes:
    """One of the bombs, compressed."""
    beginning = BOMBS[name]
    if compression == "deflate":
        compressor = zlib.compressobj(9, wbits=-15)
        piece = bytes(1024 * 1024)
        data = compressor.compress(beginning)
        data += b"".join(compressor.compress(piece) for _ in range(BOMB_SIZE // len(piece)))
        return data + compressor.flush(zlib.Z_SYNC_FLUSH)
    codec = make_codec("snappy")
    first = codec.compress(beginning)
    block = codec.compress(bytes(65536))  # whole chunks, which do not depend on each other
    return first + block * (BOMB_SIZE // 65536)


@contextmanager
def little_memory() -> Generator[None]:
    """Check that what is made in the block, by client and peer, never takes much."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < MEMORY_LIMIT
    finally:
        tracemalloc.stop()


def exploding(compression: Compression, bomb: bytes) -> Script:
    """The script of an nsqd that agrees to compression, and sends a bomb."""

    async def script(connection: FakeConnection) -> None:
        await connection.introduction()
        await connection.send(Layers(compression=compression).answer() + bomb)
        async for _ in connection.stream:
            pass

    return script


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("name", BOMBS)
async def test_a_bomb(use: Use, compression: Compression, name: str) -> None:
    bomb = make_bomb(name, compression)
    options = nsq.ConnectionOptions(
        snappy=compression == "snappy", deflate=compression == "deflate", max_frame_size=1024 * 1024
    )
    async with fake_nsqd(exploding(compression, bomb)) as nsqd:
        with little_memory():
            error = await complaint(use, nsqd.address, options)
    assert isinstance(error, nsq.ConnectionFailed)
    cause = error.__cause__
    assert isinstance(cause, nsq.ProtocolError)
    assert isinstance(cause, nsq.errors.FrameTooLarge) == (name != "frames of no size")


@pytest.mark.parametrize("use", USES)
async def test_a_snappy_chunk_that_claims_4_gib(use: Use) -> None:
    codec = make_codec("snappy")
    lie = b"\x00\x0a\x00\x00" + bytes(4) + b"\xff\xff\xff\xff\x0f" + b"x"
    options = nsq.ConnectionOptions(snappy=True)
    async with fake_nsqd(exploding("snappy", codec.compress(OK) + lie)) as nsqd:
        with little_memory():
            error = await complaint(use, nsqd.address, options)
    assert isinstance(error.__cause__, nsq.ProtocolError)
