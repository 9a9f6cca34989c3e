"""Runs of message frames: found as the decoder of messages finds messages, whichever codec does it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nsq_anyio.errors import FrameTooLarge, ProtocolError
from nsq_anyio.protocol import run_decoder
from nsq_anyio.protocol.codec import Codec
from nsq_anyio.protocol.frames import (
    Frame,
    FrameDecoder,
    encode_frame,
    encode_message_frame,
    message_offsets,
)
from nsq_anyio.protocol.run_decoder import RunDecoder

from ..fuzz.fuzz_frames import LIMIT
from ..fuzz.test_fuzz_frames import streams

ID = b"0123456789abcdef"
MESSAGE = encode_message_frame(1_700_000_000_123_456_789, 3, ID, b"hello")

Found = tuple[list[bytes], list[Frame], int]


@pytest.fixture(autouse=True)
def chosen_codec(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_decoder, "message_offsets", codec.message_offsets)


def cut(_: None, data: bytes, offsets: memoryview) -> list[bytes]:
    return [data[start:stop] for start, stop in pairwise(offsets)]


def decoded(stream: bytes, step: int) -> Found | type[Exception]:
    decoder = RunDecoder(cut, max_frame_size=LIMIT)
    messages: list[bytes] = []
    frames: list[Frame] = []
    try:
        for first in range(0, len(stream), step):
            runs, more = decoder.feed(stream[first : first + step], None)
            messages += [message for run in runs for message in run]
            frames += more
    except ProtocolError as error:
        return type(error)
    return messages, frames, decoder.buffered


def reference(stream: bytes, step: int) -> Found | type[Exception]:
    decoder = FrameDecoder[None, bytes](
        lambda _, timestamp, attempts, id_, body: encode_message_frame(timestamp, attempts, id_, body),
        max_frame_size=LIMIT,
    )
    messages: list[bytes] = []
    frames: list[Frame] = []
    try:
        for first in range(0, len(stream), step):
            more_messages, more = decoder.feed(stream[first : first + step], None)
            messages += more_messages
            frames += more
    except ProtocolError as error:
        return type(error)
    return messages, frames, decoder.buffered


@given(streams, st.integers(1, 200))
@example(MESSAGE * 3 + encode_frame(0, b"OK") + MESSAGE, 1000)
@example(MESSAGE + b"HTTP/1.1 400", 1000)
def test_the_frames_are_those_of_the_other_decoder(stream: bytes, step: int) -> None:
    assert decoded(stream, step) == reference(stream, step)


@given(streams, st.integers(0, 40), st.integers(-1, LIMIT + 1))
def test_both_codecs_find_the_same_offsets(codec: Codec, stream: bytes, position: int, limit: int) -> None:
    position = min(position, len(stream))
    found = codec.message_offsets(stream, position, limit)
    assert found == message_offsets(stream, position, limit)
    assert memoryview(found).cast("i")[0] == position


def test_a_frame_over_many_pieces_is_joined_once() -> None:
    body = b"x" * 100_000
    decoder = RunDecoder(cut, max_frame_size=200_000)
    stream = encode_message_frame(1, 1, ID, body)
    assert decoder.missing == 8
    for first in range(0, len(stream) - 1, 1000):
        assert decoder.feed(stream[first : min(first + 1000, len(stream) - 1)], None) == ([], [])
    assert decoder.missing == 1
    assert decoder.feed(stream[-1:], None) == ([[stream]], [])
    assert decoder.buffered == 0


def test_a_few_messages_do_not_keep_what_came_with_them() -> None:
    kept: list[bytes] = []
    decoder = RunDecoder[None, None](lambda _, data, __: kept.append(data), max_frame_size=LIMIT)
    decoder.feed(encode_frame(0, b"OK") * 1000 + MESSAGE, None)
    decoder.feed(MESSAGE * 10 + encode_frame(0, b"OK"), None)
    assert kept == [MESSAGE, MESSAGE * 10 + encode_frame(0, b"OK")]


def test_no_frame_is_larger_than_offsets_can_tell() -> None:
    decoder = RunDecoder(cut, max_frame_size=2**31 - 1)
    with pytest.raises(FrameTooLarge):
        decoder.feed((2**30 + 1).to_bytes(4, "big") + b"\0\0\0\x02", None)
