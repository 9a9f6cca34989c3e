"""The producer that FastStream calls."""

from __future__ import annotations

from typing import Any

from fast_depends.library.serializer import SerializerProto
from faststream._internal.endpoint.utils import ParserComposition
from faststream._internal.parser import CodecProto, DefaultCodec
from faststream._internal.producer import ProducerProto
from faststream._internal.types import CustomCallable
from faststream.exceptions import IncorrectState

import nsq_anyio as nsq

from . import parser as default
from .errors import RequestsUnsupported
from .parser import CONTENT_TYPE, CORRELATION_ID, REPLY_TO
from .response import NsqPublishCommand

__all__ = ["NsqProducer"]


class NsqProducer(ProducerProto[NsqPublishCommand]):
    """Encodes bodies, and publishes them with a producer of nsq_anyio.

    :param parser: the broker's own parser
    :param decoder: the broker's own decoder
    :param envelope: whether messages are published with headers, unless a command says otherwise
    """

    codec: CodecProto  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(
        self,
        *,
        parser: CustomCallable | None = None,
        decoder: CustomCallable | None = None,
        envelope: bool = True,
    ) -> None:
        self._parser = ParserComposition(parser, default.parse)
        self._decoder = ParserComposition(decoder, default.decode)
        self._envelope = envelope
        self._producer: nsq.Producer | None = None
        self._serializer: SerializerProto | None = None
        self.codec = DefaultCodec()

    def connect(
        self, producer: nsq.Producer, serializer: SerializerProto | None, codec: CodecProto | None
    ) -> None:
        """Publish with ``producer`` from now on."""
        self._producer = producer
        self._set_codec(serializer, codec)

    def disconnect(self) -> None:
        """Publish nothing more."""
        self._producer = None

    async def publish(self, cmd: NsqPublishCommand) -> None:
        """Publish one message, and return once nsqd has stored it.

        A handler that returns nothing publishes nothing: nsqd refuses an empty message.

        :raises PublishError: see `nsq_anyio.Producer.publish`
        """
        body = await self.encode(cmd.body, cmd)
        if cmd.is_result and not body:
            return
        await self._connected().publish(cmd.destination, body, defer=cmd.defer)

    async def publish_batch(self, cmd: NsqPublishCommand) -> None:
        """Publish several messages, all or none (MPUB), and return once nsqd has stored them.

        :raises PublishError: see `nsq_anyio.Producer.publish_many`
        """
        bodies = [await self.encode(body, cmd) for body in cmd.batch_bodies]
        if cmd.is_result:
            bodies = [body for body in bodies if body]
            if not bodies:
                return
        await self._connected().publish_many(cmd.destination, bodies)

    async def request(self, cmd: NsqPublishCommand) -> Any:
        """Refuse.

        :raises RequestsUnsupported: always
        """
        raise RequestsUnsupported(cmd.destination)

    async def encode(self, body: Any, cmd: NsqPublishCommand) -> bytes:
        """Return the bytes to publish for one body of a command.

        :raises InvalidOption: if an envelope cannot hold the headers
        """
        payload, content_type = await self.codec.encode(body, self._serializer)
        if not (self._envelope if cmd.envelope is None else cmd.envelope):
            return payload
        own = {CONTENT_TYPE: content_type, CORRELATION_ID: cmd.correlation_id, REPLY_TO: cmd.reply_to}
        headers = {name: value for name, value in own.items() if value}
        headers |= {str(name).lower(): value for name, value in cmd.headers.items()}
        return nsq.envelope.encode(payload, headers)

    def _set_codec(self, serializer: SerializerProto | None, codec: CodecProto | None) -> None:
        self._serializer = serializer
        self.codec = codec or DefaultCodec()

    def _connected(self) -> nsq.Producer:
        if self._producer is None:
            raise IncorrectState("the broker is not connected: call `await broker.connect()` first")
        return self._producer
