"""The encoders of protocol V2's commands. The API has already checked names and numbers."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from .codec import encode_bodies
from .mpub_encoding import EncodedBodies

__all__ = [
    "CLS",
    "NOP",
    "auth",
    "dpub",
    "fin",
    "fins",
    "identify",
    "mpub",
    "pub",
    "rdy",
    "req",
    "sub",
    "touch",
]

NOP = b"NOP\n"
CLS = b"CLS\n"

_pack_size = struct.Struct(">I").pack


def identify(payload: bytes) -> bytes:
    """``IDENTIFY``, with its JSON as ``payload``."""
    return b"IDENTIFY\n" + _pack_size(len(payload)) + payload


def auth(secret: bytes) -> bytes:
    """``AUTH``, with the secret."""
    return b"AUTH\n" + _pack_size(len(secret)) + secret


def sub(topic: str, channel: str) -> bytes:
    """``SUB``: subscribe this connection, once, to a channel of a topic."""
    return f"SUB {topic} {channel}\n".encode("ascii")


def pub(topic: str, body: bytes) -> bytes:
    """``PUB``: publish one message."""
    return b"PUB %b\n%b%b" % (topic.encode("ascii"), _pack_size(len(body)), body)


def dpub(topic: str, defer_ms: int, body: bytes) -> bytes:
    """``DPUB``: publish one message that nsqd delivers after ``defer_ms`` milliseconds."""
    return b"DPUB %b %d\n%b%b" % (topic.encode("ascii"), defer_ms, _pack_size(len(body)), body)


def mpub(topic: str, bodies: Sequence[bytes] | EncodedBodies) -> bytes:
    """``MPUB``: publish several messages, all or none."""
    payload = bodies.encode() if isinstance(bodies, EncodedBodies) else encode_bodies(bodies)
    return b"MPUB %b\n%b%b" % (topic.encode("ascii"), _pack_size(len(payload)), payload)


def rdy(count: int) -> bytes:
    """``RDY``: let nsqd have at most ``count`` unanswered messages on this connection."""
    return b"RDY %d\n" % count


fin: Callable[[bytes], bytes] = b"FIN %b\n".__mod__
"""``FIN``: the message with this id was processed. Called for every message, so it runs in C alone."""


def fins(message_ids: Sequence[bytes]) -> bytes:
    """A ``FIN`` for each of one or more messages."""
    return b"FIN " + b"\nFIN ".join(message_ids) + b"\n"


def req(message_id: bytes, delay_ms: int) -> bytes:
    """``REQ``: deliver the message again after ``delay_ms`` milliseconds."""
    return b"REQ %b %d\n" % (message_id, delay_ms)


def touch(message_id: bytes) -> bytes:
    """``TOUCH``: restart the message's timeout."""
    return b"TOUCH %b\n" % message_id
