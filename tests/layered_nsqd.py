"""The layers that a scripted nsqd puts on its end of a connection; see `fake_nsqd`."""

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

from anyio.abc import ByteStream, SocketStream

from nsq_anyio.protocol.compression import Deflate, Snappy, StreamCodec
from nsq_anyio.protocol.frames import FRAME_RESPONSE, encode_frame
from nsq_anyio.transport.compressed import CompressedStream
from nsq_anyio.transport.tls import start_tls

from .fake_nsqd import FakeConnection
from .tls_files import TLSFiles

OK = encode_frame(FRAME_RESPONSE, b"OK")

Compression = Literal["snappy", "deflate"]


def make_codec(compression: Compression) -> StreamCodec:
    return Snappy() if compression == "snappy" else Deflate()


def server_context(files: TLSFiles) -> ssl.SSLContext:
    """What a server shows to its clients."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate_file, files.private_key_file)
    return context


@dataclass(frozen=True, slots=True)
class Layers:
    """What is negotiated; ``tls`` is the server's context."""

    tls: ssl.SSLContext | None = None
    compression: Compression | None = None

    def answer(self, **others: object) -> bytes:
        """The frame that answers IDENTIFY."""
        reply: Mapping[str, object] = {
            "tls_v1": self.tls is not None,
            "snappy": self.compression == "snappy",
            "deflate": self.compression == "deflate",
            "deflate_level": 6,
            **others,
        }
        return encode_frame(FRAME_RESPONSE, json.dumps(reply).encode())

    async def negotiate(self, connection: FakeConnection, *, behind: bytes = b"", **others: object) -> None:
        """Answer the next IDENTIFY, and start the layers, all in as few segments as there can be.

        :param behind: frames that follow the last layer's OK at once
        :param others: more fields of the answer
        """
        await connection.introduction()
        await self.start(connection, self.answer(**others), behind=behind)

    async def start(
        self,
        connection: FakeConnection,
        answer: bytes = b"",
        *,
        before: bytes = b"",
        ok: bytes = OK,
        behind: bytes = b"",
    ) -> None:
        """Start the layers.

        :param answer: sent with what the first of them begins with, if nsqd is the one to begin
        :param before: frames that come in each layer before its OK
        :param ok: what comes in place of the last layer's OK
        :param behind: frames that follow it
        """
        data, last = answer, ok + behind
        if self.tls is not None:
            if answer:
                await connection.send(answer)
            put_on(connection, await start_tls(connection.stream, self.tls, server_side=True))
            data = before + (last if self.compression is None else OK)
        if self.compression is None:
            await connection.send(data)
            return
        codec = make_codec(self.compression)
        data += codec.compress(before + last)
        async with connection.sending:
            below = connection.stream
            # The client may answer, and the test's block read that, before all is sent.
            put_on(connection, CompressedStream(below, codec))
            await below.send(data)


def put_on(connection: FakeConnection, layer: ByteStream) -> None:
    """Let the connection read and write through ``layer``."""
    connection.stream = cast("SocketStream", layer)  # it uses no more of it than any byte stream has
