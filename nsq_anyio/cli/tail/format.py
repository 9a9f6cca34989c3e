"""How ``nsq-anyio tail`` writes messages: as they are, safe for a terminal, or as JSON."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import TypeAlias

import click

from ...consumer import Message

__all__ = ["Format", "as_json", "plain", "safe"]

Format: TypeAlias = Callable[[Sequence[Message]], bytes]
"""Makes one piece of several messages of one topic, each with what ends it."""

# C0 and C1 control characters but tab and line feed, DEL, and what is no UTF-8: a message must not be able to
# move the cursor, or to name the window.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\udc80-\udcff]")


def plain(delimiter: bytes, *, with_topic: bool) -> Format:
    """Bodies as they are, after ``topic | `` if so wanted, each followed by the delimiter."""

    def bodies(messages: Sequence[Message]) -> bytes:
        return delimiter.join([*[message.body for message in messages], b""])

    def bodies_with_topic(messages: Sequence[Message]) -> bytes:
        start = f"{messages[0].topic} | ".encode()
        return b"".join([part for message in messages for part in (start, message.body, delimiter)])

    return bodies_with_topic if with_topic else bodies


def safe(delimiter: bytes, *, with_topic: bool, with_colour: bool) -> Format:
    """As `plain`, but control characters and what is no UTF-8 are shown as ``\\xNN``."""

    def bodies(messages: Sequence[Message]) -> bytes:
        topic = messages[0].topic
        start = f"{click.style(topic, fg='cyan') if with_colour else topic} | " if with_topic else ""
        return b"".join([f"{start}{_visible(message.body)}".encode() + delimiter for message in messages])

    return bodies


def as_json(messages: Sequence[Message]) -> bytes:
    """A line of JSON for each, with all that nsqd tells of it."""
    return b"".join([json.dumps(_record(message)).encode() + b"\n" for message in messages])


def _visible(body: bytes) -> str:
    return _UNSAFE.sub(_escape, body.decode("utf-8", "surrogateescape"))


def _escape(match: re.Match[str]) -> str:
    return "".join(f"\\x{byte:02x}" for byte in match[0].encode("utf-8", "surrogateescape"))


def _record(message: Message) -> dict[str, object]:
    record: dict[str, object] = {
        "topic": message.topic,
        "channel": message.channel,
        "nsqd": message.nsqd,
        "id": message.id,
        "timestamp": message.timestamp,
        "attempts": message.attempts,
    }
    try:
        return {**record, "body": message.body.decode()}
    except UnicodeDecodeError:
        return {**record, "body_base64": b64encode(message.body).decode("ascii")}
