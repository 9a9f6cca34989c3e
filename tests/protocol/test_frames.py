import struct
from collections.abc import Iterable
from typing import NamedTuple, Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsq_anyio.errors import FrameTooLarge, ProtocolError
from nsq_anyio.protocol.codec import MakeDecoder
from nsq_anyio.protocol.frames import (
    FRAME_ERROR,
    FRAME_MESSAGE,
    FRAME_RESPONSE,
    HEARTBEAT,
    MAGIC_V2,
    MESSAGE_ID_LENGTH,
    Frame,
    encode_frame,
    encode_message_frame,
)

LIMIT = 1000
ID = b"0123456789abcdef"


class Received(NamedTuple):
    """What the decoder passes for a message."""

    source: str
    timestamp: int
    attempts: int
    id: bytes
    body: bytes


class FeedAll(Protocol):
    """Feeds a new decoder; returns all messages, all frames and the number of bytes that remain held."""

    def __call__(
        self, chunks: Iterable[bytes], limit: int = LIMIT
    ) -> tuple[list[Received], list[Frame], int]: ...


@pytest.fixture(scope="module")
def feed_all(frame_decoder: MakeDecoder) -> FeedAll:
    def feed_all(chunks: Iterable[bytes], limit: int = LIMIT) -> tuple[list[Received], list[Frame], int]:
        decoder = frame_decoder(Received, max_frame_size=limit)
        messages: list[Received] = []
        frames: list[Frame] = []
        for chunk in chunks:
            more_messages, more_frames = decoder.feed(chunk, "nsqd")
            messages += more_messages
            frames += more_frames
        return messages, frames, decoder.buffered

    return feed_all


# Written by hand from the specification: size, frame type, data.
OK = b"\x00\x00\x00\x06\x00\x00\x00\x00OK"
BEAT = b"\x00\x00\x00\x0f\x00\x00\x00\x00_heartbeat_"
ERROR = b"\x00\x00\x00\x0d\x00\x00\x00\x01E_INVALID"
EMPTY = b"\x00\x00\x00\x04\x00\x00\x00\x00"
MESSAGE = (
    b"\x00\x00\x00\x23"  # 35 = 4 (type) + 8 + 2 + 16 + 5
    b"\x00\x00\x00\x02"
    b"\x14\xb5\xa1\x2a\x7e\x2d\x68\x15"
    b"\x00\x03"
    b"0123456789abcdef"
    b"hello"
)
BODILESS = (
    b"\x00\x00\x00\x1e"
    b"\x00\x00\x00\x02"
    b"\x00\x00\x00\x00\x00\x00\x00\x01"
    b"\x9c\x40"  # 40000: attempts are unsigned
    b"ffffffffffffffff"
)
HELLO = Received("nsqd", 0x14B5A12A7E2D6815, 3, ID, b"hello")
NOTHING = Received("nsqd", 1, 40000, b"f" * 16, b"")

EXAMPLES: list[tuple[bytes, list[Received], list[Frame]]] = [
    (OK, [], [(FRAME_RESPONSE, b"OK")]),
    (BEAT, [], [(FRAME_RESPONSE, HEARTBEAT)]),
    (ERROR, [], [(FRAME_ERROR, b"E_INVALID")]),
    (EMPTY, [], [(FRAME_RESPONSE, b"")]),
    (MESSAGE, [HELLO], []),
    (BODILESS, [NOTHING], []),
    (OK + OK, [], [(0, b"OK"), (0, b"OK")]),
    (MESSAGE + BODILESS, [HELLO, NOTHING], []),
    (
        BEAT + MESSAGE + ERROR + BODILESS + MESSAGE + EMPTY,
        [HELLO, NOTHING, HELLO],
        [(0, HEARTBEAT), (1, b"E_INVALID"), (0, b"")],
    ),
]

examples = pytest.mark.parametrize(("data", "messages", "frames"), EXAMPLES)


def header(size: int, frame_type: int) -> bytes:
    return struct.pack(">ii", size, frame_type)


def test_the_constants_are_those_of_the_specification() -> None:
    assert MAGIC_V2 == b"  V2"
    assert HEARTBEAT == b"_heartbeat_"
    assert MESSAGE_ID_LENGTH == 16
    assert (FRAME_RESPONSE, FRAME_ERROR, FRAME_MESSAGE) == (0, 1, 2)


def test_encoding_writes_the_bytes_of_the_specification() -> None:
    assert encode_frame(FRAME_RESPONSE, b"OK") == OK
    assert encode_frame(FRAME_ERROR, b"E_INVALID") == ERROR
    assert encode_frame(FRAME_RESPONSE, b"") == EMPTY
    assert encode_message_frame(HELLO.timestamp, 3, ID, b"hello") == MESSAGE
    assert encode_message_frame(1, 40000, b"f" * 16, b"") == BODILESS


@examples
def test_whole(feed_all: FeedAll, data: bytes, messages: list[Received], frames: list[Frame]) -> None:
    assert feed_all([data]) == (messages, frames, 0)


@examples
def test_byte_by_byte(feed_all: FeedAll, data: bytes, messages: list[Received], frames: list[Frame]) -> None:
    assert feed_all(data[i : i + 1] for i in range(len(data))) == (messages, frames, 0)


@examples
def test_every_split(feed_all: FeedAll, data: bytes, messages: list[Received], frames: list[Frame]) -> None:
    for cut in range(len(data) + 1):
        assert feed_all([data[:cut], data[cut:]]) == (messages, frames, 0)


@pytest.mark.parametrize("data", [OK, BEAT, ERROR, EMPTY, MESSAGE, BODILESS])
def test_every_truncation_is_held_and_decodes_to_nothing(feed_all: FeedAll, data: bytes) -> None:
    for length in range(len(data)):
        assert feed_all([data[:length]]) == ([], [], length)
        assert feed_all([MESSAGE, OK, data[:length]]) == ([HELLO], [(0, b"OK")], length)
        assert feed_all([MESSAGE + OK + data[:length]]) == ([HELLO], [(0, b"OK")], length)


def test_what_follows_a_frame_waits_for_its_rest(frame_decoder: MakeDecoder) -> None:
    one = frame_decoder(Received, max_frame_size=LIMIT)
    assert one.feed(OK + MESSAGE[:20], "a") == ([], [(0, b"OK")])
    assert one.buffered == 20
    assert one.feed(b"", "a") == ([], [])
    assert one.buffered == 20
    # The source is the one of the chunk that completes the message.
    assert one.feed(MESSAGE[20:] + b"\x00", "b") == ([HELLO._replace(source="b")], [])
    assert one.buffered == 1


def test_nothing_from_nothing(feed_all: FeedAll) -> None:
    assert feed_all([b"", b""]) == ([], [], 0)


@pytest.mark.parametrize("attempts", [0, 1, 255, 256, 32767, 32768, 40000, 65535])
def test_attempts_are_unsigned(feed_all: FeedAll, attempts: int) -> None:
    assert feed_all([encode_message_frame(1, attempts, ID, b"x")])[0][0].attempts == attempts


@pytest.mark.parametrize("timestamp", [-(2**63), -1, 0, 1, 2**32, 1_700_000_000_123_456_789, 2**63 - 1])
def test_timestamps_are_signed_64_bit(feed_all: FeedAll, timestamp: int) -> None:
    assert feed_all([encode_message_frame(timestamp, 1, ID, b"x")])[0][0].timestamp == timestamp


@pytest.mark.parametrize("body", [b"\x00", b"\n", OK, MESSAGE, b"HTTP/1.1 400", bytes(range(256))])
def test_a_body_is_opaque(feed_all: FeedAll, body: bytes) -> None:
    messages, frames, held = feed_all([encode_message_frame(1, 1, ID, body) + OK])
    assert ([message.body for message in messages], frames, held) == ([body], [(0, b"OK")], 0)


def test_a_big_frame_over_many_chunks_is_joined_once(frame_decoder: MakeDecoder) -> None:
    # Joining each chunk to what is held would copy 512 GiB here, which no time limit allows.
    body = bytes(32 * 1024 * 1024)
    data = encode_message_frame(1, 1, ID, body) + OK
    chunks = [data[i : i + 1024] for i in range(0, len(data), 1024)]
    one = frame_decoder(Received, max_frame_size=len(data))
    for chunk in chunks[:-1]:
        assert one.feed(chunk, "nsqd") == ([], [])
    assert one.buffered == len(data) - len(chunks[-1])
    messages, frames = one.feed(chunks[-1], "nsqd")
    assert messages == [Received("nsqd", 1, 1, ID, body)]
    assert frames == [(0, b"OK")]
    assert one.buffered == 0


def test_many_frames_in_one_chunk(feed_all: FeedAll) -> None:
    messages, frames, held = feed_all([MESSAGE * 5000 + BEAT + BODILESS * 5000])
    assert messages == [HELLO] * 5000 + [NOTHING] * 5000
    assert (frames, held) == ([(0, HEARTBEAT)], 0)


@pytest.mark.parametrize("frame_type", [FRAME_RESPONSE, FRAME_ERROR])
def test_the_limit_for_frames(feed_all: FeedAll, frame_type: int) -> None:
    at_limit = encode_frame(frame_type, b"x" * (LIMIT - 4))
    assert feed_all([at_limit]) == ([], [(frame_type, b"x" * (LIMIT - 4))], 0)
    refuses_size(feed_all, LIMIT + 1, frame_type, b"x" * (LIMIT - 3))


def test_the_limit_for_messages(feed_all: FeedAll) -> None:
    at_limit = encode_message_frame(1, 1, ID, b"x" * (LIMIT - 30))
    assert len(feed_all([at_limit])[0][0].body) == LIMIT - 30
    refuses_size(feed_all, LIMIT + 1, FRAME_MESSAGE, bytes(26) + b"x" * (LIMIT - 29))


def refuses_size(feed_all: FeedAll, size: int, frame_type: int, data: bytes) -> None:
    """The announcement is enough: no byte of the data is waited for."""
    for chunks in ([header(size, frame_type)], [header(size, frame_type) + data]):
        with pytest.raises(FrameTooLarge) as caught:
            feed_all(chunks)
        assert (caught.value.size, caught.value.limit) == (size, LIMIT)


@pytest.mark.parametrize("frame_type", [0, 1, 2, 7])
@pytest.mark.parametrize("size", [2**31 - 1, 2**30, LIMIT + 1])
def test_a_huge_announcement_is_refused_at_once(feed_all: FeedAll, size: int, frame_type: int) -> None:
    refuses_size(feed_all, size, frame_type, b"")


@pytest.mark.parametrize("size", [-(2**31), -30, -5, -4, -1, 0, 1, 2, 3])
@pytest.mark.parametrize("frame_type", [0, 1, 2, 3])
def test_a_frame_has_room_for_its_type(feed_all: FeedAll, size: int, frame_type: int) -> None:
    for data in (header(size, frame_type), header(size, frame_type) + bytes(100)):
        with pytest.raises(ProtocolError, match=f"a frame of type {frame_type} announced {size} bytes"):
            feed_all([data])


@pytest.mark.parametrize("size", [4, 12, 29])
@pytest.mark.parametrize("padding", [0, 25, 100])
def test_a_message_has_room_for_its_header(feed_all: FeedAll, size: int, padding: int) -> None:
    with pytest.raises(ProtocolError, match=f"^a frame of type 2 announced {size} bytes, fewer than 30$"):
        feed_all([header(size, FRAME_MESSAGE) + bytes(padding)])


@pytest.mark.parametrize("frame_type", [-(2**31), -1, 3, 4, 256, 2**31 - 1])
def test_an_unknown_type_is_refused(feed_all: FeedAll, frame_type: int) -> None:
    for data in (b"", b"data" * 20):
        with pytest.raises(ProtocolError, match=f"^unknown frame type {frame_type}: the peer is not nsqd"):
            feed_all([header(84, frame_type) + data])


@pytest.mark.parametrize("limit", [LIMIT, 2**31 - 1])
def test_an_http_answer_says_which_port_it_is(feed_all: FeedAll, limit: int) -> None:
    answer = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\n\r\n400 Bad Request"
    for chunks in ([answer], [answer[:7], answer[7:]]):
        with pytest.raises(ProtocolError, match=r"nsqd's TCP port \(4150\) is not its HTTP port \(4151\)"):
            feed_all(chunks, limit)


def test_a_bad_frame_after_good_ones_is_refused(feed_all: FeedAll) -> None:
    for bad in (header(3, 0), header(LIMIT + 1, 2), header(10, 9)):
        with pytest.raises(ProtocolError):
            feed_all([MESSAGE + OK + bad])


messages_of_any_kind = st.builds(
    Received,
    st.just("nsqd"),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 65535),
    st.binary(min_size=16, max_size=16),
    st.binary(max_size=100),
)
frames_of_any_kind = st.tuples(st.sampled_from([FRAME_RESPONSE, FRAME_ERROR]), st.binary(max_size=100))


def encode(item: Received | Frame) -> bytes:
    return encode_message_frame(*item[1:]) if isinstance(item, Received) else encode_frame(*item)


@given(st.lists(messages_of_any_kind | frames_of_any_kind, max_size=20), st.data())
def test_any_sequence_cut_anywhere_comes_back(
    feed_all: FeedAll, items: list[Received | Frame], data: st.DataObject
) -> None:
    stream = b"".join(map(encode, items))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    chunks = [stream[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert feed_all(chunks) == (
        [item for item in items if isinstance(item, Received)],
        [item for item in items if not isinstance(item, Received)],
        0,
    )


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_any_bytes_are_decoded_or_refused_with_a_documented_error(
    feed_all: FeedAll, chunks: list[bytes]
) -> None:
    try:
        messages, frames, held = feed_all(chunks)
    except ProtocolError:
        return
    stream = b"".join(chunks)
    # Every byte is accounted for: decoded into a frame, or held.
    decoded = sum(34 + len(message.body) for message in messages) + sum(8 + len(data) for _, data in frames)
    assert decoded + held == len(stream)
