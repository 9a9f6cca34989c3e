"""TLS, compression and AUTH after IDENTIFY: each byte belongs to the right layer, however bytes are cut."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.connection import Connection, open_connection
from nsq_anyio.options import ConnectionOptions
from nsq_anyio.protocol.frames import (
    FRAME_ERROR,
    FRAME_RESPONSE,
    HEARTBEAT,
    encode_frame,
    encode_message_frame,
)

from ..fake_nsqd import FakeConnection, Script, client_tasks, fake_nsqd, hold, message_id, until
from ..layered_nsqd import OK, Compression, Layers, make_codec, server_context
from ..tls_files import TLSFiles
from .opened import Kept

pytestmark = pytest.mark.anyio

HEARTBEAT_FRAME = encode_frame(FRAME_RESPONSE, HEARTBEAT)
SECRET = "s3cret"

COMPRESSIONS: tuple[Compression, ...] = ("snappy", "deflate")
WAYS: dict[str, tuple[bool, Compression | None]] = {
    "tls": (True, None),
    "snappy": (False, "snappy"),
    "deflate": (False, "deflate"),
    "tls-snappy": (True, "snappy"),
    "tls-deflate": (True, "deflate"),
}


@pytest.fixture(params=list(WAYS.values()), ids=list(WAYS))
def layers(request: pytest.FixtureRequest, tls_files: TLSFiles) -> Layers:
    """Every combination of layers, but for none."""
    has_tls, compression = request.param
    return Layers(server_context(tls_files) if has_tls else None, compression)


def options_for(layers: Layers, files: TLSFiles, **others: Any) -> ConnectionOptions:
    """What asks for these layers."""
    return ConnectionOptions(
        tls=nsq.TLSOptions(ca_file=files.ca_file) if layers.tls else False,
        snappy=layers.compression == "snappy",
        deflate=layers.compression == "deflate",
        **others,
    )


def compressing(compression: Compression) -> ConnectionOptions:
    """What asks for it, without TLS."""
    return ConnectionOptions(snappy=compression == "snappy", deflate=compression == "deflate")


@asynccontextmanager
async def connected(
    script: Script, options: ConnectionOptions, receiver: Kept | None = None
) -> AsyncGenerator[tuple[Connection[None, bytes], FakeConnection]]:
    """Both ends of a connection."""
    async with (
        fake_nsqd(script) as nsqd,
        open_connection(nsqd.parsed, options, receiver or Kept()) as client,
    ):
        yield client, nsqd.connections[0]


async def failure(script: Script, options: ConnectionOptions) -> nsq.NSQError:
    """Why no connection comes about, or why it ends; nothing is left of it."""
    async with fake_nsqd(script) as nsqd:
        with anyio.fail_after(5), pytest.raises(nsq.NSQError) as caught:
            async with open_connection(nsqd.parsed, options, Kept()):
                await anyio.sleep_forever()
        assert client_tasks() == []
    return caught.value


def negotiating(layers: Layers, **arguments: Any) -> Script:
    """The script that negotiates, and leaves the rest to the test's block."""

    async def script(connection: FakeConnection) -> None:
        await layers.negotiate(connection, **arguments)
        await hold(connection)

    return script


# Bytes that come together, and bytes that come apart


async def test_the_ok_of_a_layer_may_come_with_what_it_was_agreed_by(
    layers: Layers, tls_files: TLSFiles
) -> None:
    async with connected(negotiating(layers), options_for(layers, tls_files)) as (client, peer):
        assert client.identity.tls_v1 == (layers.tls is not None)
        assert client.identity.snappy == (layers.compression == "snappy")
        assert client.identity.deflate == (layers.compression == "deflate")
        await peer.heartbeat()
        await peer.expect(b"NOP")  # both directions work


async def test_frames_behind_the_ok_are_not_lost(layers: Layers, tls_files: TLSFiles) -> None:
    """A heartbeat, and the beginning of a second one, come with the OK."""
    script = negotiating(layers, behind=HEARTBEAT_FRAME + HEARTBEAT_FRAME[:7])
    async with connected(script, options_for(layers, tls_files)) as (_, peer):
        await peer.expect(b"NOP")
        assert await peer.quiet(0.02)
        await peer.send(HEARTBEAT_FRAME[7:])
        await peer.expect(b"NOP")


async def test_large_bodies_travel_both_ways(layers: Layers, tls_files: TLSFiles) -> None:
    bodies = [os.urandom(300_000), bytes(300_000)]
    kept = Kept()
    frames = b"".join(
        encode_message_frame(1, 1, message_id(number), body) for number, body in enumerate(bodies)
    )
    script = negotiating(layers, behind=frames)
    async with connected(script, options_for(layers, tls_files), kept) as (client, peer):
        for body in bodies:
            client.outbox.put(b"PUB t\n" + len(body).to_bytes(4, "big") + body)
            await peer.expect(b"PUB t")
            assert peer.body == body
        await until(lambda: len(kept.bodies) == len(bodies))
        assert kept.bodies == bodies


@pytest.mark.parametrize("compression", COMPRESSIONS)
async def test_the_ok_may_be_cut_anywhere(compression: Compression) -> None:
    layers = Layers(compression=compression)
    answer = layers.answer()
    data = answer + make_codec(compression).compress(OK)
    places = iter(range(len(answer) - 1, len(data)))

    async def script(connection: FakeConnection) -> None:
        await connection.introduction()
        place = next(places)
        await connection.send(data[:place])
        assert await connection.quiet(0.005)  # so that the rest is a chunk of its own for the client
        await connection.send(data[place:])
        await hold(connection)

    for _ in range(len(data) - len(answer) + 1):
        async with connected(script, compressing(compression)) as (client, _):
            assert getattr(client.identity, compression)
    assert not list(places)


async def test_heartbeats_may_come_at_every_stage(layers: Layers, tls_files: TLSFiles) -> None:
    async def script(connection: FakeConnection) -> None:
        await connection.introduction()
        await connection.send(HEARTBEAT_FRAME + layers.answer(auth_required=True))
        await layers.start(connection, before=HEARTBEAT_FRAME)
        await connection.heartbeat()
        await connection.expect(b"AUTH")
        await connection.heartbeat()
        await connection.response(b"{}")
        await hold(connection)

    options = options_for(layers, tls_files, auth_secret=SECRET)
    async with connected(script, options) as (client, peer):
        assert client.authorization == nsq.AuthReply()
        await peer.heartbeat()
        await peer.expect(b"NOP")
        assert await peer.quiet(0.02)


async def test_a_connection_closes_in_order(layers: Layers, tls_files: TLSFiles) -> None:
    """What was queued last gets there, then the end; nsqd's own end confirms it."""

    async def script(connection: FakeConnection) -> None:
        await layers.negotiate(connection)
        await connection.expect(b"FIN 0123456789abcdef")
        await connection.eof()

    async with connected(script, options_for(layers, tls_files)) as (client, _):
        client.outbox.put(b"FIN 0123456789abcdef\n")
        with anyio.fail_after(5):
            await client.close()
        assert client.ended


# A peer that does something else


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize(
    "garbage",
    [b"\xff" * 40, OK, b"HTTP/1.1 400 Bad Request\r\n\r\n" * 3, bytes(40)],
    ids=lambda data: data[:4].hex(),
)
async def test_what_is_not_compressed_is_a_failed_handshake(compression: Compression, garbage: bytes) -> None:
    async def script(connection: FakeConnection) -> None:
        await connection.introduction()
        await connection.send(Layers(compression=compression).answer() + garbage)
        await connection.close()

    error = await failure(script, compressing(compression))
    assert type(error) is nsq.HandshakeFailed


@pytest.mark.parametrize("garbage", [OK, HEARTBEAT_FRAME, b"\xff" * 40, b"HTTP/1.1 400 Bad Request\r\n\r\n"])
async def test_clear_text_in_place_of_tls_ends_the_attempt(tls_files: TLSFiles, garbage: bytes) -> None:
    layers = Layers(server_context(tls_files))

    sent = bytearray()

    async def script(connection: FakeConnection) -> None:
        await connection.introduction()
        await connection.send(layers.answer(auth_required=True) + garbage)
        async for data in connection.stream:
            sent.extend(data)

    error = await failure(script, options_for(layers, tls_files, auth_secret=SECRET))
    assert type(error) is nsq.TLSFailed
    assert "TLS failed" in str(error)
    assert b"AUTH" not in sent
    assert SECRET.encode() not in sent


async def test_hanging_up_in_the_tls_handshake_may_pass(tls_files: TLSFiles) -> None:
    layers = Layers(server_context(tls_files))

    async def script(connection: FakeConnection) -> None:
        await connection.introduction()
        await connection.send(layers.answer())
        await connection.stream.receive()

    error = await failure(script, options_for(layers, tls_files))
    assert type(error) is nsq.HandshakeFailed
    assert "TLS handshake" in str(error)


FIRST_FRAMES: dict[str, tuple[bytes, type[nsq.NSQError], str]] = {
    "other response": (encode_frame(FRAME_RESPONSE, b"NO"), nsq.HandshakeFailed, "instead of OK"),
    "JSON": (encode_frame(FRAME_RESPONSE, b"{}"), nsq.HandshakeFailed, "instead of OK"),
    "passing error": (encode_frame(FRAME_ERROR, b"E_SUB_FAILED x"), nsq.HandshakeFailed, "E_SUB_FAILED x"),
    "error": (encode_frame(FRAME_ERROR, b"E_IDENTIFY_FAILED x"), nsq.PermanentRefusal, "E_IDENTIFY_FAILED x"),
    "message": (encode_message_frame(1, 1, message_id(1), b"x"), nsq.HandshakeFailed, "message"),
    "too large": (b"\x7f\xff\xff\xff\x00\x00\x00\x00", nsq.HandshakeFailed, "max_frame_size"),
}


@pytest.mark.parametrize(("data", "kind", "text"), FIRST_FRAMES.values(), ids=FIRST_FRAMES)
async def test_a_layer_begins_with_ok(
    layers: Layers, tls_files: TLSFiles, data: bytes, kind: type[nsq.NSQError], text: str
) -> None:
    async def script(connection: FakeConnection) -> None:
        await connection.introduction()
        await connection.send(layers.answer())
        await layers.start(connection, ok=data)
        await hold(connection)

    error = await failure(script, options_for(layers, tls_files))
    assert type(error) is kind
    assert text in str(error)


async def test_an_ok_too_many_ends_the_connection(layers: Layers, tls_files: TLSFiles) -> None:
    error = await failure(negotiating(layers, behind=OK), options_for(layers, tls_files))
    assert type(error) is nsq.ConnectionLost
    assert "no request was waiting" in str(error)


# AUTH


async def test_auth_and_what_comes_with_its_answer(layers: Layers, tls_files: TLSFiles) -> None:
    reply = {"identity": "me", "identity_url": "http://id.example", "permission_count": 2}

    async def script(connection: FakeConnection) -> None:
        await layers.negotiate(connection, auth_required=True)
        await connection.expect(b"AUTH")
        assert connection.body == SECRET.encode()
        await connection.send(encode_frame(FRAME_RESPONSE, json.dumps(reply).encode()) + HEARTBEAT_FRAME)
        await hold(connection)

    options = options_for(layers, tls_files, auth_secret=SECRET)
    async with connected(script, options) as (client, peer):
        assert client.authorization == nsq.AuthReply("me", "http://id.example", 2)
        await peer.expect(b"NOP")


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        (encode_frame(FRAME_ERROR, b"E_AUTH_FAILED AUTH failed"), nsq.PermanentRefusal, "E_AUTH_FAILED"),
        (encode_frame(FRAME_ERROR, b"E_UNAUTHORIZED none found"), nsq.PermanentRefusal, "E_UNAUTHORIZED"),
        (
            encode_frame(FRAME_ERROR, b"E_UNHEARD_OF today"),
            nsq.HandshakeFailed,
            "AUTH was refused: E_UNHEARD",
        ),
        (encode_frame(FRAME_RESPONSE, b"OK"), nsq.HandshakeFailed, "AUTH"),
        (encode_frame(FRAME_RESPONSE, b"[]"), nsq.HandshakeFailed, "AUTH"),
        (encode_frame(FRAME_RESPONSE, b'{"identity": 1}'), nsq.HandshakeFailed, "identity=1"),
        (encode_message_frame(1, 1, message_id(1), b"x"), nsq.HandshakeFailed, "message"),
        (b"", nsq.HandshakeFailed, "closed the connection before the answer to AUTH"),
    ],
)
async def test_an_answer_to_auth_that_does_not_permit(
    data: bytes, kind: type[nsq.NSQError], text: str
) -> None:
    async def script(connection: FakeConnection) -> None:
        await Layers().negotiate(connection, auth_required=True)
        await connection.expect(b"AUTH")
        await connection.send(data)

    error = await failure(script, ConnectionOptions(auth_secret=SECRET))
    assert type(error) is kind
    assert text in str(error)
    assert SECRET not in repr(error)


async def test_a_function_is_asked_for_the_secret_of_each_connection() -> None:
    given: Iterator[str | bytes] = iter(["first", b"second"])
    bodies: list[bytes] = []

    async def secret() -> str | bytes:
        await anyio.lowlevel.checkpoint()
        return next(given)

    async def script(connection: FakeConnection) -> None:
        await Layers().negotiate(connection, auth_required=True)
        await connection.expect(b"AUTH")
        await connection.response(b"{}")
        await hold(connection)

    for ask in (secret, secret, lambda: "third"):
        async with connected(script, ConnectionOptions(auth_secret=ask)) as (_, peer):
            bodies.append(peer.body)
    assert bodies == [b"first", b"second", b"third"]
