"""The oracle of ``fuzz_frames.py``, with streams that are mostly valid, as atheris would find them."""

import struct
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nsq_anyio.errors import ProtocolError
from nsq_anyio.protocol.codec import MakeDecoder
from nsq_anyio.protocol.frames import FrameDecoder, encode_frame, encode_message_frame
from nsq_anyio.protocol.session import Answer, ClientSession, Command

from .fuzz_frames import LIMIT, check, expected

texts = st.sampled_from(
    [
        b"OK",
        b"CLOSE_WAIT",
        b"_heartbeat_",
        b"E_INVALID",
        b"E_BAD_TOPIC PUB topic name",
        b"E_FIN_FAILED FIN 0123456789abcdef failed ID not in flight",
        b"E_REQ_FAILED",
    ]
)
good = st.one_of(
    st.builds(encode_frame, st.sampled_from([0, 1]), texts | st.binary(max_size=60)),
    st.builds(
        encode_message_frame,
        st.integers(-(2**63), 2**63 - 1),
        st.integers(0, 65535),
        st.binary(min_size=16, max_size=16),
        st.binary(max_size=60),
    ),
)
headers = st.builds(
    struct.Struct(">ii").pack,
    st.sampled_from([-(2**31), -1, 0, 3, 4, 29, 30, LIMIT, LIMIT + 1, 2**31 - 1]),
    st.integers(-1, 3),
)
odd = st.tuples(headers, st.binary(max_size=60)).map(b"".join)
heads = st.lists(good, max_size=8).map(b"".join)
streams = st.tuples(heads, st.one_of(st.just(b""), good, odd, st.binary(max_size=60))).map(b"".join)


@given(st.integers(0, 255), st.integers(0, 255), streams)
@example(0, 1, encode_frame(0, b"OK"))
@example(1, 0, b"HTTP/1.1 400 Bad Request")
def test_mostly_valid_streams(frame_decoder: MakeDecoder, step: int, publishes: int, stream: bytes) -> None:
    check(bytes([step, publishes]) + stream, frame_decoder)


@given(st.binary(max_size=300))
def test_any_bytes(frame_decoder: MakeDecoder, data: bytes) -> None:
    check(data, frame_decoder)


def test_the_slow_decoder_agrees_with_bytes_written_by_hand() -> None:
    stream = b"\0\0\0\x06\0\0\0\0OK" + b"\0\0\0\x1f\0\0\0\x02" + b"\xff" * 8 + b"\x9c\x400123456789abcdefx"
    assert expected(stream) == ([(0, b"OK"), (-1, 40000, b"0123456789abcdef", b"x")], 0)
    assert expected(stream + b"\0\0\0") == (expected(stream)[0], 3)
    assert expected(stream + b"\0\0\0\x03\0\0\0\0") == (expected(stream)[0], None)


# The oracle must see a fault: each of these breaks one promise.


def test_it_sees_lost_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(*_: object) -> tuple[list[object], list[object]]:
        return [], []

    monkeypatch.setattr(FrameDecoder, "feed", lose)
    with pytest.raises(AssertionError):
        check(b"\0\0" + encode_frame(0, b"OK"), FrameDecoder)


@pytest.mark.parametrize(
    ("error", "seen"), [(struct.error(), struct.error), (ProtocolError("no"), AssertionError)], ids=repr
)
def test_it_sees_errors(error: Exception, seen: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(FrameDecoder, "feed", fail)
    with pytest.raises(seen):
        check(b"\0\0" + encode_frame(0, b"OK"), FrameDecoder)


def test_it_sees_bad_streams_that_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = FrameDecoder[None, object].feed

    def lenient(self: FrameDecoder[None, object], data: bytes, source: None) -> Any:
        try:
            return feed(self, data, source)
        except ProtocolError:
            return [], []

    stream = encode_frame(0, b"OK") + encode_frame(7, b"what")
    check(b"\0\0" + stream, FrameDecoder)
    monkeypatch.setattr(FrameDecoder, "feed", lenient)
    with pytest.raises(AssertionError, match="were not refused"):
        check(b"\0\0" + stream, FrameDecoder)


def test_it_sees_answers_that_pair_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    def newest_first(self: ClientSession[int], frame: tuple[int, bytes]) -> Answer[int]:
        *others, newest = self.abandon()
        for request in others:
            self.sending(Command.PUB, request)
        return Answer(newest, frame[1])

    stream = encode_frame(0, b"OK") * 2
    check(b"\0\x02" + stream, FrameDecoder)
    monkeypatch.setattr(ClientSession, "received", newest_first)
    with pytest.raises(AssertionError):
        check(b"\0\x02" + stream, FrameDecoder)
