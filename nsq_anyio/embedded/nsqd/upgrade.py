"""The upgrade of a connection to TLS and compression, as negotiated by IDENTIFY."""

from __future__ import annotations

import ssl
from dataclasses import replace

import anyio
from anyio.abc import ByteStream

from ...errors import ServerError
from ...protocol.compression import Deflate, Snappy, StreamCodec
from ...protocol.frames import FRAME_RESPONSE, encode_frame
from ...transport.compressed import CompressedStream
from ...transport.tls import start_tls
from .negotiation import Layers, Upgrade
from .server_tls import HANDSHAKE_TIMEOUT, TLSInfo

_OK = encode_frame(FRAME_RESPONSE, b"OK")


async def upgrade(
    layers: Layers,
    wanted: Upgrade,
    *,
    context: ssl.SSLContext | None,
    received: bytes,
    write_timeout: float | None,
) -> Layers:
    """Add the layers that IDENTIFY promised; as nsqd does, send an OK through each.

    :param received: the bytes received after IDENTIFY, which belong to the first new layer
    :param write_timeout: the seconds that the client may take to read an OK; None is no limit
    :raises ServerError: if the TLS handshake fails, or layers were added before
    :raises TimeoutError: if the client is too slow
    """
    if layers.tls or layers.snappy or layers.deflate:
        # nsqd would wrap the bare connection once more, which cannot work.
        raise ServerError("E_IDENTIFY_FAILED", "IDENTIFY failed the connection was upgraded before")
    if wanted.tls:
        if context is None:
            raise AssertionError("TLS was promised to a client, but there is no certificate")
        try:
            with anyio.fail_after(HANDSHAKE_TIMEOUT):
                stream = await start_tls(layers.stream, context, server_side=True, received=received)
        except ssl.SSLError as error:
            raise ServerError("E_IDENTIFY_FAILED", f"IDENTIFY failed tls: {error.reason or error}") from error
        layers = replace(layers, stream=stream, tls=TLSInfo.of(stream))
        received = b""
        await _send_ok(layers.stream, write_timeout)
    codec: StreamCodec | None = None
    if wanted.snappy:
        codec = Snappy()
    elif wanted.deflate_level is not None:
        codec = Deflate(wanted.deflate_level)
    if codec is not None:
        layers = replace(
            layers,
            stream=CompressedStream(layers.stream, codec, received),
            snappy=wanted.snappy,
            deflate=not wanted.snappy,
        )
        await _send_ok(layers.stream, write_timeout)
    return layers


async def _send_ok(stream: ByteStream, timeout: float | None) -> None:
    with anyio.fail_after(timeout):
        await stream.send(_OK)
