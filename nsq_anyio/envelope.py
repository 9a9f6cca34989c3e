"""Headers for messages: NSQ has none, so an envelope in the body carries them in front of the payload.

::

    magic    5 bytes    F7 DD DE FF 9D
    version  1 byte     01
    size     2 bytes    of all headers together, big-endian
    headers             each: 1 byte size of the name, the name; 2 bytes size of the value, the value
    payload             the rest

A body without the magic has no headers, and is itself the payload. So producers that send headers and
producers that do not can share a topic. ``docs/envelope.md`` describes the format in full.

Every envelope has exactly one encoding: `encode` of what `decode` returns gives the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from .errors import InvalidEnvelope, InvalidOption

__all__ = [
    "ID_HEADER",
    "MAGIC",
    "MAX_HEADERS",
    "MAX_NAME_SIZE",
    "MAX_SIZE",
    "VERSION",
    "Envelope",
    "decode",
    "encode",
    "encode_headers",
    "without_id",
]

MAGIC: Final = b"\xf7\xdd\xde\xff\x9d"
"""The first bytes of an envelope. UTF-8 text, and so JSON, never contains the byte F7. Its low bits would be
a type that Protocol Buffers, DEFLATE and zlib do not have. As the length of a raw snappy block, the five
bytes would exceed 32 bits."""

ID_HEADER: Final = "nsq-id"
"""The name of the header by which consumers recognise the copies of one message."""
VERSION: Final = 1
"""The version of the format that this release writes and reads."""
MAX_HEADERS: Final = 128
"""The most headers that an envelope can have."""
MAX_NAME_SIZE: Final = 255
"""The most bytes in the name of a header."""
MAX_SIZE: Final = 65_535
"""The most bytes of all headers together, including 3 bytes more for each header."""

_START = MAGIC + bytes([VERSION])
_HEADERS_AT = len(_START) + 2
_NAME = re.compile(rf"[a-z0-9!#$%&'*+.^_`|~-]{{1,{MAX_NAME_SIZE}}}", re.ASCII)  # RFC 9110's token, lower-case
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Envelope:
    """The content of a message's body.

    :ivar headers: the values by their lower-case names, in the order in which they were published
    :ivar payload: the body without the headers
    """

    headers: Mapping[str, str]
    payload: bytes

    def __reduce__(self) -> tuple[Callable[[dict[str, str], bytes], Envelope], tuple[dict[str, str], bytes]]:
        return _envelope, (dict(self.headers), self.payload)  # a read-only view cannot be pickled


def _envelope(headers: dict[str, str], payload: bytes) -> Envelope:
    return Envelope(MappingProxyType(headers), payload)


def encode(payload: bytes, headers: Mapping[str, str]) -> bytes:
    """Return a body with the payload and the headers, in an envelope.

    The body is an envelope even without headers: a payload that itself begins with the magic needs one.

    :param payload: any bytes
    :param headers: at most `MAX_HEADERS`. Names are ASCII tokens, as in HTTP, of 1 to `MAX_NAME_SIZE`
        characters, and are converted to lower case. Values are text. Together they take at most `MAX_SIZE`
        bytes
    :raises InvalidOption: if a name or value is not valid, if two names differ only in case, or if the
        headers are too many or too large
    """
    return encode_headers(headers) + payload


def encode_headers(headers: Mapping[str, str]) -> bytes:
    """Return the part of an envelope in front of the payload.

    :raises InvalidOption: as `encode` does
    """
    if not isinstance(headers, Mapping):
        raise InvalidOption(f"headers={headers!r} is not valid: use a mapping of names to text")
    if len(headers) > MAX_HEADERS:
        raise InvalidOption(f"{len(headers)} headers exceed the {MAX_HEADERS} that an envelope can have")
    parts: list[bytes] = []
    names: set[str] = set()
    for given, value in headers.items():
        name = _checked_name(given)
        if name in names:
            raise InvalidOption(
                f"header {name!r} is given twice: names must not differ only in upper and lower case"
            )
        names.add(name)
        text = _encoded_value(name, value)
        parts += [bytes([len(name)]), name.encode("ascii"), len(text).to_bytes(2, "big"), text]
    block = b"".join(parts)
    if len(block) > MAX_SIZE:
        raise InvalidOption(
            f"headers of {len(block)} bytes exceed the {MAX_SIZE} bytes that an envelope can have: "
            "put large values into the payload"
        )
    return _START + len(block).to_bytes(2, "big") + block


def _checked_name(name: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(lower := name.lower()) or not name.isascii():
        raise InvalidOption(
            f"header name {name!r} is not valid: use 1 to {MAX_NAME_SIZE} characters of "
            "[a-z0-9!#$%&'*+.^_`|~-]"
        )
    return lower


def _encoded_value(name: str, value: str) -> bytes:
    if not isinstance(value, str):
        raise InvalidOption(f"header {name}={value!r} is not valid: use text (str)")
    try:
        text = value.encode()
    except UnicodeEncodeError as error:
        raise InvalidOption(
            f"header {name}={value[:40]!r} is not valid: {error.reason} at {error.start}"
        ) from error
    if len(text) > MAX_SIZE:
        raise InvalidOption(f"header {name} of {len(text)} bytes exceeds {MAX_SIZE}: put it into the payload")
    return text


def decode(body: bytes) -> Envelope:
    """Return the headers and the payload of a body. A body without the magic has no headers.

    :raises InvalidEnvelope: if the body begins with the magic, but is not a valid envelope of this version
    """
    if not body.startswith(MAGIC):
        return Envelope(_NO_HEADERS, body)
    if not body.startswith(_START):
        raise InvalidEnvelope(_wrong_version(body[len(MAGIC) :]))
    if len(body) < _HEADERS_AT:
        raise InvalidEnvelope(f"an envelope of {len(body)} bytes is cut off: it needs at least {_HEADERS_AT}")
    end = _HEADERS_AT + int.from_bytes(body[len(_START) : _HEADERS_AT], "big")
    if end > len(body):
        raise InvalidEnvelope(f"an envelope of {len(body)} bytes is cut off: its headers end at byte {end}")
    return _envelope(_decode_headers(body, end), body[end:])


def without_id(body: bytes) -> bytes:
    """Return a body without its `ID_HEADER`, so that consumers that deduplicate take it for a new message.

    A body that is no envelope, or has no id, is returned unchanged.
    """
    try:
        envelope = decode(body)
    except InvalidEnvelope:
        return body
    if ID_HEADER not in envelope.headers:
        return body
    others = {name: value for name, value in envelope.headers.items() if name != ID_HEADER}
    # Without an envelope, a payload that looks like one would be read as one, and an empty one be refused.
    is_plain = not others and envelope.payload and not envelope.payload.startswith(MAGIC)
    return envelope.payload if is_plain else encode(envelope.payload, others)


def _decode_headers(body: bytes, end: int) -> dict[str, str]:
    headers: dict[str, str] = {}
    at = _HEADERS_AT
    while at < end:
        value_size_at = at + 1 + body[at]
        value_at = value_size_at + 2
        following = value_at + int.from_bytes(body[value_size_at:value_at], "big")
        if value_at > end or following > end:
            raise InvalidEnvelope(f"the header at byte {at} does not end within the headers, at byte {end}")
        name = body[at + 1 : value_size_at].decode("latin-1")
        if not _NAME.fullmatch(name):
            raise InvalidEnvelope(
                f"the header at byte {at} has the name {name!r}: it is not a lower-case token"
            )
        if name in headers:
            raise InvalidEnvelope(f"header {name!r} occurs twice, the second time at byte {at}")
        if len(headers) == MAX_HEADERS:
            raise InvalidEnvelope(f"the envelope has more than {MAX_HEADERS} headers")
        try:
            headers[name] = body[value_at:following].decode()
        except UnicodeDecodeError as error:
            raise InvalidEnvelope(
                f"header {name!r} is not UTF-8: {error.reason} at byte {value_at + error.start}"
            ) from error
        at = following
    return headers


def _wrong_version(rest: bytes) -> str:
    if not rest:
        return "an envelope is cut off after its magic"
    return (
        f"an envelope of version {rest[0]}; this release reads version {VERSION}: "
        "update nsq-anyio here, or have the producer write that version"
    )
