"""The envelope: whole, byte by byte, cut off, damaged, and against arbitrary bytes."""

from __future__ import annotations

import copy
import gzip
import io
import json
import pickle
import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest
import snappy  # type: ignore[import-untyped]
from hypothesis import example, given
from hypothesis import strategies as st

from nsq_anyio.envelope import MAGIC, MAX_HEADERS, MAX_SIZE, Envelope, decode, encode
from nsq_anyio.errors import InvalidEnvelope, InvalidOption

SAMPLE = bytes.fromhex("f7 dd de ff 9d 01 0007 01 61 0003 c3a92d") + b"body"

tokens = st.text("abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+.^_`|~-", min_size=1, max_size=20)
values = st.text(st.characters(codec="utf-8"), max_size=40)
headers = st.dictionaries(tokens, values, max_size=8)
payloads = st.binary(max_size=60) | st.binary(max_size=20).map(MAGIC.__add__)


def test_the_bytes_of_one() -> None:
    assert encode(b"body", {"a": "é-"}) == SAMPLE
    envelope = decode(SAMPLE)
    assert dict(envelope.headers) == {"a": "é-"}
    assert envelope.payload == b"body"
    assert encode(b"", {}) == bytes.fromhex("f7dddeff9d01 0000")


@given(payloads, headers)
def test_round_trip(payload: bytes, given_headers: dict[str, str]) -> None:
    body = encode(payload, given_headers)
    envelope = decode(body)
    assert list(envelope.headers.items()) == list(given_headers.items())
    assert envelope.payload == payload
    assert encode(envelope.payload, envelope.headers) == body


@pytest.mark.parametrize("body", [b"", b"x", MAGIC[:-1], b" " + MAGIC, MAGIC[:-1] + b"\x9c rest"])
def test_a_body_without_the_magic_is_the_payload(body: bytes) -> None:
    envelope = decode(body)
    assert envelope.headers == {}
    assert envelope.payload is body


def test_headers_of_an_envelope_cannot_be_changed() -> None:
    for body in (b"raw", SAMPLE):
        found: Any = decode(body).headers
        with pytest.raises(TypeError):
            found["b"] = "c"


def pickled(envelope: Envelope) -> Envelope:
    copied: Envelope = pickle.loads(pickle.dumps(envelope))
    return copied


def deeply_copied(envelope: Envelope) -> Envelope:
    return copy.deepcopy(envelope)


@pytest.mark.parametrize("copied", [pickled, deeply_copied])
def test_an_envelope_can_be_sent_to_another_process(copied: Callable[[Envelope], Envelope]) -> None:
    for body in (b"raw", SAMPLE):
        found = copied(decode(body))
        assert found == decode(body)
        headers: Any = found.headers
        with pytest.raises(TypeError):
            headers["b"] = "c"


def test_names_become_lower_case() -> None:
    assert list(decode(encode(b"", {"Content-Type": "a", "X_1": "B"})).headers) == ["content-type", "x_1"]


def test_the_largest() -> None:
    many = {f"name-{number}": "" for number in range(MAX_HEADERS)}
    assert decode(encode(b"", many)).headers == many
    one = {"a" * 255: "v" * (MAX_SIZE - 3 - 255)}
    assert decode(encode(b"p", one)) == Envelope(one, b"p")


@pytest.mark.parametrize(
    ("refused", "says"),
    [
        ({"": "v"}, r"header name '' is not valid: use 1 to 255 characters of \[a-z0-9"),
        ({"a b": "v"}, "header name 'a b'"),
        ({"a:": "v"}, "header name 'a:'"),
        ({"a\n": "v"}, "header name"),
        ({"é": "v"}, "header name 'é'"),
        ({"\u212a": "v"}, "header name"),  # the Kelvin sign, whose lower case is an ASCII k
        ({"a" * 256: "v"}, "header name"),
        ({5: "v"}, "header name 5"),
        ({"a": b"v"}, r"header a=b'v' is not valid: use text \(str\)"),
        ({"a": None}, "header a=None is not valid"),
        ({"a": "\ud800"}, "header a='.ud800' is not valid: surrogates not allowed at 0"),
        ({"a": "1", "A": "2"}, "header 'a' is given twice"),
        ({"a": "v" * (MAX_SIZE + 1)}, "header a of 65536 bytes exceeds 65535: put it into the payload"),
        ({"a": "v" * (MAX_SIZE - 3)}, "headers of 65536 bytes exceed the 65535 bytes"),
        ({str(number): "" for number in range(129)}, "129 headers exceed the 128"),
        ([("a", "b")], "is not valid: use a mapping"),
        ("ab", "headers='ab' is not valid"),
    ],
)
def test_headers_that_are_refused(refused: Any, says: str) -> None:
    with pytest.raises(InvalidOption, match=says):
        encode(b"body", refused)


def block(*parts: bytes) -> bytes:
    joined = b"".join(parts)
    return MAGIC + b"\x01" + struct.pack(">H", len(joined)) + joined


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (MAGIC, "cut off after its magic"),
        (
            MAGIC + b"\x02\0\0",
            "version 2; this release reads version 1: update nsq-anyio here, or have the producer write that",
        ),
        (MAGIC + b"\x00\0\0", "version 0;"),
        (MAGIC + b"\x01\0", "an envelope of 7 bytes is cut off: it needs at least 8"),
        (MAGIC + b"\x01\0\x05abcd", "an envelope of 12 bytes is cut off: its headers end at byte 13"),
        (
            block(b"\x01a\0\x05xx") + b"yyyy",
            "the header at byte 8 does not end within the headers, at byte 14",
        ),
        (block(b"\x01a\0"), "the header at byte 8 does not end"),
        (block(b"\xff"), "the header at byte 8 does not end"),
        (block(b"\x01a\0\0", b"\x01b"), "the header at byte 12 does not end"),
        (block(b"\0\0\0"), "has the name ''"),
        (block(b"\x01A\0\0"), "the header at byte 8 has the name 'A': it is not a lower-case token"),
        (block(b"\x01\xe9\0\0"), "has the name 'é'"),
        (block(b"\x01a\0\0", b"\x01a\0\0"), "header 'a' occurs twice, the second time at byte 12"),
        (block(b"\x01a\0\x02x\xff"), "header 'a' is not UTF-8: invalid start byte at byte 13"),
        (block(*(b"\x03%03d\0\0" % number for number in range(129))), "more than 128 headers"),
    ],
)
def test_envelopes_that_are_refused(body: bytes, says: str) -> None:
    with pytest.raises(InvalidEnvelope, match=says) as caught:
        decode(body)
    assert isinstance(caught.value, ValueError)


def decoded(body: bytes) -> Envelope | None:
    """What is in the body, which has only one encoding; None for a malformed one."""
    try:
        envelope = decode(body)
    except InvalidEnvelope:
        return None
    if body.startswith(MAGIC):
        assert encode(envelope.payload, envelope.headers) == body
    else:
        assert (dict(envelope.headers), envelope.payload) == ({}, body)
    return envelope


@given(st.binary(max_size=300))
@example(b"")
@example(b"\x01\xff\xff")
def test_any_bytes_after_the_magic(rest: bytes) -> None:
    decoded(MAGIC + rest)
    decoded(MAGIC + b"\x01" + rest)
    decoded(block(rest))


@given(payloads, headers, st.data())
def test_cut_off_anywhere(payload: bytes, given_headers: dict[str, str], data: st.DataObject) -> None:
    body = encode(payload, given_headers)
    cut = data.draw(st.integers(0, len(body) - 1))
    envelope = decoded(body[:cut])
    if envelope is not None and cut > len(MAGIC):  # only the payload was cut
        assert dict(envelope.headers) == given_headers
        assert payload.startswith(envelope.payload)
        assert len(envelope.payload) == len(payload) - (len(body) - cut)


def test_every_damage_of_one_byte_is_refused_or_is_another_envelope() -> None:
    body = encode(b"payload", {"traceparent": "00-0af7", "content-type": "text/plain; ümlaut"})
    original = decode(body)
    for place in range(len(body)):
        for value in range(256):
            if value != body[place]:
                envelope = decoded(body[:place] + bytes([value]) + body[place + 1 :])
                assert envelope is None or (dict(envelope.headers), envelope.payload) != (
                    dict(original.headers),
                    original.payload,
                )


# What no other format begins with


@given(st.text(st.characters(codec="utf-8"), max_size=10))
def test_no_text_has_the_first_byte(text: str) -> None:
    assert MAGIC[0] not in text.encode()


def varint(data: bytes) -> tuple[int, int]:
    """The value and the size of the variable-length integer that Protocol Buffers, snappy and Avro share."""
    value = size = 0
    for size, byte in enumerate(data, 1):
        value |= (byte & 0x7F) << 7 * (size - 1)
        if byte < 0x80:
            break
    return value, size


@given(st.binary(min_size=1, max_size=20))
def test_as_a_length_or_tag_it_exceeds_32_bits(rest: bytes) -> None:
    value, size = varint(MAGIC + rest)
    assert size > 5
    assert value >= 2**32


def test_no_decoder_of_another_format_takes_it() -> None:
    body = encode(b"\0" * 40, {"a": "b"})
    with pytest.raises(snappy.UncompressError):
        snappy.decompress(body)  # pyright: ignore[reportUnknownMemberType]
    assert not body.startswith(b"\xff\x06\0\0sNaPpY")  # which each snappy stream of frames begins with
    for window_bits in (zlib.MAX_WBITS, -zlib.MAX_WBITS):  # zlib, raw DEFLATE
        with pytest.raises(zlib.error):
            zlib.decompress(body, window_bits)
    with pytest.raises(gzip.BadGzipFile):
        gzip.GzipFile(fileobj=io.BytesIO(body)).read()
    for encoding in (
        "utf-8",
        "utf-16",
        "utf-16-le",
        "utf-16-be",
        "utf-32-le",
        "utf-32-be",
        "cp1252",
        "gb18030",
    ):
        with pytest.raises(UnicodeDecodeError):
            body.decode(encoding)
    with pytest.raises(UnicodeDecodeError):
        json.loads(body)
    assert MAGIC[0] & 0x07 == 7  # Protocol Buffers have the wire types 0 to 5
    assert MAGIC[0] >= 0xE0  # in msgpack: the integer -9, and not a map or an array
