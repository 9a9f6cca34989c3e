"""The messages and sizes that traces and metrics show."""

from __future__ import annotations

from faststream.message import StreamMessage

import nsq_anyio as nsq

from .message import RawMessage

__all__ = ["messages_of", "size_of"]


def messages_of(message: StreamMessage[RawMessage]) -> tuple[nsq.Message, ...]:
    """Return the messages of nsq_anyio, at least one."""
    raw = message.raw_message
    return raw if isinstance(raw, tuple) else (raw,)


def size_of(message: StreamMessage[RawMessage]) -> int:
    """Return the bytes of all payloads."""
    return sum(len(each.payload) for each in messages_of(message))
