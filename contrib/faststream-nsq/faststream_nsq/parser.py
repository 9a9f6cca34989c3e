"""The conversion of NSQ's messages to FastStream's, and of their payloads to values."""

from __future__ import annotations

from typing import Any

from faststream._internal.basic_types import DecodedMessage
from faststream.message import StreamMessage, decode_message

import nsq_anyio as nsq

from .message import NsqBatchMessage, NsqMessage

__all__ = ["CONTENT_TYPE", "CORRELATION_ID", "REPLY_TO", "decode", "decode_batch", "parse", "parse_batch"]

CONTENT_TYPE = "content-type"
CORRELATION_ID = "correlation_id"
REPLY_TO = "reply_to"


async def parse(message: nsq.Message) -> NsqMessage:
    """Return a message for FastStream.

    :raises InvalidEnvelope: if the body begins like an envelope, but cannot be read
    """
    headers = dict(message.headers)
    return NsqMessage(
        message,
        message.payload,
        headers=headers,
        reply_to=headers.get(REPLY_TO, ""),
        content_type=headers.get(CONTENT_TYPE),
        correlation_id=headers.get(CORRELATION_ID),
        message_id=message.id,
    )


async def parse_batch(messages: tuple[nsq.Message, ...]) -> NsqBatchMessage:
    """Return several messages as one for FastStream; its headers and ids are those of the first.

    :raises InvalidEnvelope: as `parse` does
    """
    batch_headers: list[dict[str, Any]] = [dict(each.headers) for each in messages]
    first = batch_headers[0]
    return NsqBatchMessage(
        messages,
        [each.payload for each in messages],
        headers=first,
        batch_headers=batch_headers,
        reply_to=first.get(REPLY_TO, ""),
        content_type=first.get(CONTENT_TYPE),
        correlation_id=first.get(CORRELATION_ID),
        message_id=messages[0].id,
    )


async def decode(message: StreamMessage[Any]) -> DecodedMessage:
    """Return the value of a payload, by its content type; without one, JSON is tried."""
    return decode_message(message)


# FastStream knows a decoder of batches by this name.
async def decode_batch(message: StreamMessage[Any]) -> list[DecodedMessage]:
    """Return the values of a batch, each as `decode` does."""
    return [decode_message(await parse(each)) for each in message.raw_message]
