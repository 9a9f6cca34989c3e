"""Snappy and deflate: right however the bytes are cut, and bounded whatever a peer sends."""

import os
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import pytest
import snappy  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from nsq_anyio.errors import ProtocolError
from nsq_anyio.protocol.compression import Deflate, Snappy, StreamCodec
from nsq_anyio.protocol.receive_buffer import ReceiveBuffer

CODECS: dict[str, Callable[[], StreamCodec]] = {
    "snappy": Snappy,
    "deflate 1": lambda: Deflate(1),
    "deflate": Deflate,
    "deflate 9": lambda: Deflate(level=9),
}
every_codec = pytest.mark.parametrize("make", CODECS.values(), ids=CODECS)

IDENTIFIER = b"\xff\x06\x00\x00sNaPpY"
BLOCK = 65536
EVERYTHING = 1 << 30


def take_all(codec: StreamCodec, max_size: int = EVERYTHING) -> bytes:
    pieces: list[bytes] = []
    while piece := codec.decompress(max_size):
        assert len(piece) <= max_size
        pieces.append(piece)
    return b"".join(pieces)


def decompress(codec: StreamCodec, *pieces: bytes, max_size: int = EVERYTHING) -> bytes:
    output: list[bytes] = []
    for piece in pieces:
        codec.feed(piece)
        output.append(take_all(codec, max_size))
    return b"".join(output)


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def chunk(kind: int, body: bytes) -> bytes:
    return bytes([kind]) + len(body).to_bytes(3, "little") + body


def library_compressed(data: bytes) -> bytes:
    library: Any = snappy.StreamCompressor()
    return bytes(library.add_chunk(data))


def library_chunks(data: bytes) -> bytes:
    """The chunks that the library makes of ``data``, without the stream identifier."""
    return library_compressed(data).removeprefix(IDENTIFIER)


def checksum(data: bytes) -> bytes:
    """What a chunk with ``data`` has to start with."""
    return library_chunks(data)[4:8]


def stored(data: bytes) -> bytes:
    """An uncompressed chunk."""
    return chunk(0x01, checksum(data) + data)


# Both codecs.


@every_codec
@pytest.mark.parametrize("size", [1, 100, BLOCK - 1, BLOCK, BLOCK + 1, 300_000])
@pytest.mark.parametrize("random", [True, False], ids=["random", "text"])
def test_what_is_compressed_comes_back(make: Callable[[], StreamCodec], size: int, random: bool) -> None:
    data = os.urandom(size) if random else (b"a message like many others, " * size)[:size]
    assert decompress(make(), make().compress(data)) == data


@every_codec
def test_each_piece_can_be_decompressed_when_it_was_compressed(make: Callable[[], StreamCodec]) -> None:
    sender, receiver = make(), make()
    for number in range(50):
        data = b"FIN %016x\n" % number * (number + 1)
        assert decompress(receiver, sender.compress(data)) == data


@every_codec
def test_nothing_is_compressed_to_something_harmless(make: Callable[[], StreamCodec]) -> None:
    sender, receiver = make(), make()
    assert (
        decompress(receiver, sender.compress(b""), sender.compress(b"NOP\n"), sender.compress(b""))
        == b"NOP\n"
    )


@every_codec
def test_there_is_no_output_without_input(make: Callable[[], StreamCodec]) -> None:
    codec = make()
    assert codec.decompress(100) == b""
    codec.feed(b"")
    assert codec.decompress(100) == b""


@every_codec
@given(
    parts=st.lists(
        st.binary(max_size=300) | st.just(b"text " * 5000) | st.just(os.urandom(70_000)), max_size=6
    ),
    cuts=st.lists(st.integers(1, 30_000) | st.integers(1, 12), min_size=1, max_size=20),
    max_size=st.integers(1, 200_000) | st.just(BLOCK),
)
def test_how_the_bytes_are_cut_makes_no_difference(
    make: Callable[[], StreamCodec], parts: list[bytes], cuts: list[int], max_size: int
) -> None:
    max_size = max(max_size, sum(map(len, parts)) // 200)  # a few hundred calls are enough
    sender = make()
    wire = b"".join(map(sender.compress, parts))
    pieces: list[bytes] = []
    while wire:
        size = cuts[len(pieces) % len(cuts)] + len(wire) // 50
        pieces.append(wire[:size])
        wire = wire[size:]
    assert decompress(make(), *pieces, max_size=max_size) == b"".join(parts)


@every_codec
def test_byte_by_byte(make: Callable[[], StreamCodec]) -> None:
    sender = make()
    parts = [b"aaaaaaaaaaaaaaaaaaaaaaaaaa", os.urandom(50), b"b" * 1000]
    wire = b"".join(map(sender.compress, parts))
    assert decompress(make(), *cut(wire, 1), max_size=1) == b"".join(parts)


@every_codec
def test_truncated_input_is_no_damage(make: Callable[[], StreamCodec]) -> None:
    sender = make()
    parts = [b"first " * 10, os.urandom(40), b"last"]
    wire = b"".join(map(sender.compress, parts))
    for size in range(len(wire)):
        codec = make()
        start = decompress(codec, wire[:size])
        assert b"".join(parts).startswith(start)
        assert start + decompress(codec, wire[size:]) == b"".join(parts)


@every_codec
def test_several_pieces_may_be_fed_at_once(make: Callable[[], StreamCodec]) -> None:
    codec, data = make(), os.urandom(1000)
    for piece in cut(make().compress(data), 7):
        codec.feed(piece)
    assert take_all(codec) == data


@every_codec
def test_the_directions_are_independent(make: Callable[[], StreamCodec]) -> None:
    one, other = make(), make()
    for number in range(5):
        question, answer = b"question %d" % number * 50, b"answer %d" % number * 50
        assert decompress(other, one.compress(question)) == question
        assert decompress(one, other.compress(answer)) == answer


# Snappy.


def test_snappy_is_the_librarys() -> None:
    data = os.urandom(100_000) + bytes(100_000)
    assert decompress(Snappy(), library_compressed(data)) == data
    codec, library = Snappy(), snappy.StreamDecompressor()
    assert library.decompress(codec.compress(data)) == data
    assert library.decompress(codec.compress(b"more")) == b"more"


def test_snappy_is_what_the_format_describes() -> None:
    codec = Snappy()
    first, second = codec.compress(b"abc"), codec.compress(b"z" * 1000)
    assert first == IDENTIFIER + stored(b"abc")  # too short to compress
    assert second[0] == 0x00
    assert len(second) < 100
    assert codec.compress(bytes(BLOCK + 1)).endswith(stored(b"\0"))  # a chunk holds 64 KiB


@pytest.mark.parametrize("max_size", [1, 1000, BLOCK, 100_000, EVERYTHING])
def test_small_chunks_are_returned_together(max_size: int) -> None:
    codec = Snappy()
    codec.feed(IDENTIFIER + stored(b"x" * 400) * 500)
    sizes: list[int] = []
    while piece := codec.decompress(max_size):
        sizes.append(len(piece))
    assert sum(sizes) == 200_000
    fitting = max(1, min(max_size, BLOCK) // 400) * 400
    assert max(sizes) == min(fitting, max_size)


def test_the_identifier_may_come_again() -> None:
    wire = IDENTIFIER + stored(b"one") + IDENTIFIER + IDENTIFIER + stored(b" two")
    assert decompress(Snappy(), wire) == b"one two"
    assert decompress(Snappy(), *cut(wire, 1)) == b"one two"


def test_a_chunk_may_hold_nothing() -> None:
    empty = chunk(0x01, bytes.fromhex("d8ea82a2"))  # the masked CRC-32C of nothing
    wire = IDENTIFIER + empty + stored(b"one") + empty + empty
    assert decompress(Snappy(), wire + stored(b" two") + empty) == b"one two"


@pytest.mark.parametrize("kind", [0x80, 0xC3, 0xFD, 0xFE])
@pytest.mark.parametrize("size", [0, 1, 5, 100_000])
@pytest.mark.parametrize("piece_size", [1, 3, 999, EVERYTHING])
def test_padding_and_skippable_chunks_are_skipped(kind: int, size: int, piece_size: int) -> None:
    if size > 10 * 999 and piece_size < 999:
        piece_size = 997
    wire = IDENTIFIER + stored(b"one") + chunk(kind, IDENTIFIER * (size // 10) + bytes(size % 10)) * 2
    assert decompress(Snappy(), *cut(wire + stored(b" two"), piece_size)) == b"one two"


def test_a_skippable_chunk_is_not_stored() -> None:
    codec = Snappy()
    codec.feed(IDENTIFIER + b"\xfe\xff\xff\xff")
    assert codec.decompress(100) == b""
    piece = bytes(BLOCK)
    tracemalloc.start()
    try:
        for _ in range(255):
            codec.feed(piece)
            assert codec.decompress(100) == b""
        assert tracemalloc.get_traced_memory()[1] < 2 * BLOCK
    finally:
        tracemalloc.stop()
    assert decompress(codec, piece[:-1] + stored(b"after")) == b"after"


def literals(*sizes: int) -> bytes:
    """A raw block of zeros, of literals with one byte before each."""
    return b"".join(bytes([(size - 1) << 2]) + bytes(size) for size in sizes)


def varint(number: int) -> bytes:
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def test_the_longest_chunk_that_compressing_can_make() -> None:
    block = varint(BLOCK) + literals(*[6] * 10_900, *[2] * 46, 44)
    assert len(block) == 76_486
    wire = IDENTIFIER + chunk(0x00, checksum(bytes(BLOCK)) + block)
    assert decompress(Snappy(), wire) == bytes(BLOCK)
    assert decompress(Snappy(), *cut(wire, 1000), max_size=999) == bytes(BLOCK)


def test_a_long_chunk_in_small_pieces_is_joined_once(monkeypatch: pytest.MonkeyPatch) -> None:
    codec = Snappy()
    joins = 0
    join = ReceiveBuffer.join

    def counted(buffer: ReceiveBuffer) -> None:
        nonlocal joins
        joins += 1
        join(buffer)

    monkeypatch.setattr(ReceiveBuffer, "join", counted)
    data = os.urandom(BLOCK)
    assert decompress(codec, *cut(codec.compress(data), 16)) == data
    assert joins < 10


DAMAGED = {
    "not snappy": (b"\x00\x00\x00\x06\x00\x00\x00\x00OK", "starts with a chunk of type 0x00 instead of"),
    "no identifier": (stored(b"abc"), "starts with a chunk of type 0x01 instead of its identifier"),
    "padding first": (chunk(0xFE, b"") + IDENTIFIER, "starts with a chunk of type 0xfe instead of"),
    "short identifier": (chunk(0xFF, b"sNaPp"), "identifier has 5 bytes instead of 6"),
    "long identifier": (chunk(0xFF, b"sNaPpYY"), "identifier has 7 bytes instead of 6"),
    "other identifier": (chunk(0xFF, b"snappy"), "does not say sNaPpY"),
    "other identifier later": (IDENTIFIER + stored(b"a") + chunk(0xFF, b"SNAPPY"), "does not say sNaPpY"),
    "first reserved": (IDENTIFIER + chunk(0x02, b"x"), "the reserved type 0x02, which cannot be skipped"),
    "last reserved": (IDENTIFIER + stored(b"a") + b"\x7f\xff\xff\xff", "the reserved type 0x7f, which"),
    "no room for a checksum": (IDENTIFIER + chunk(0x01, b"abc"), "type 0x01 has 3 bytes: 4 to 65540"),
    "no room, compressed": (IDENTIFIER + chunk(0x00, b""), "type 0x00 has 0 bytes: 4 to 76490 are allowed"),
    "too long": (IDENTIFIER + b"\x01\x05\x00\x01", "type 0x01 has 65541 bytes: 4 to 65540 are allowed"),
    "too long, compressed": (IDENTIFIER + b"\x00\xcb\x2a\x01", "type 0x00 has 76491 bytes: 4 to 76490 are"),
    "claims 64 KiB and 1": (
        IDENTIFIER + chunk(0x00, b"csum" + varint(BLOCK + 1) + b"x"),
        "claims 65537 uncompressed bytes: 65536 are allowed",
    ),
    "claims 4 GiB": (
        IDENTIFIER + chunk(0x00, b"csum" + varint(2**32 - 1) + b"x"),
        "claims 4294967295 uncompressed bytes",
    ),
    "claims no end": (
        IDENTIFIER + chunk(0x00, b"csum" + b"\x80" * 50),
        "does not state its uncompressed size",
    ),
    "claims nothing": (IDENTIFIER + chunk(0x00, b"csum"), "does not state its uncompressed size"),
    "claim cut by the chunk": (
        IDENTIFIER + chunk(0x00, b"csum\x80\x80") + stored(b"a"),
        "does not state its uncompressed size",
    ),
    "holds less than it claims": (
        IDENTIFIER + chunk(0x00, checksum(bytes(10)) + varint(11) + literals(10)),
        "a damaged snappy chunk: .",
    ),
    "holds more than it claims": (
        IDENTIFIER + chunk(0x00, checksum(bytes(10)) + varint(9) + literals(10)),
        "a damaged snappy chunk: .",
    ),
    "copies from before the start": (
        IDENTIFIER + chunk(0x00, checksum(bytes(8)) + varint(8) + literals(4) + b"\x01\x09"),
        "a damaged snappy chunk: .",
    ),
    "wrong checksum": (
        IDENTIFIER + chunk(0x01, checksum(b"abc") + b"abd"),
        "a damaged snappy chunk: .*(checksum|crc)",
    ),
    "wrong checksum, compressed": (
        IDENTIFIER + chunk(0x00, checksum(b"abc") + varint(10) + literals(10)),
        "a damaged snappy chunk: .*(checksum|crc)",
    ),
    "a checksum that is not masked": (
        IDENTIFIER + chunk(0x01, (0xE3069283).to_bytes(4, "little") + b"123456789"),
        "a damaged snappy chunk: .*(checksum|crc)",
    ),
}


@pytest.mark.parametrize(("wire", "text"), DAMAGED.values(), ids=DAMAGED)
@pytest.mark.parametrize("piece_size", [1, EVERYTHING])
def test_damage_is_told(wire: bytes, text: str, piece_size: int) -> None:
    codec = Snappy()
    with pytest.raises(ProtocolError, match=text):
        decompress(codec, *cut(wire, piece_size))
    for _ in range(2):
        codec.feed(stored(b"more"))
        with pytest.raises(ProtocolError, match=text):
            codec.decompress(100)


@pytest.mark.parametrize("kind", range(0x02, 0x80))
def test_no_reserved_chunk_is_skipped(kind: int) -> None:
    with pytest.raises(ProtocolError, match="reserved"):
        decompress(Snappy(), IDENTIFIER + chunk(kind, b""))


def test_what_came_before_the_damage_is_returned_if_it_came_alone() -> None:
    codec = Snappy()
    assert decompress(codec, IDENTIFIER + stored(b"good")) == b"good"
    with pytest.raises(ProtocolError):
        decompress(codec, chunk(0x01, b"badsum"))


@pytest.mark.parametrize(
    "data", [os.urandom(300), b"text and text and text " * 10], ids=["stored", "compressed"]
)
def test_no_damaged_byte_gets_through(data: bytes) -> None:
    wire = Snappy().compress(data)
    body = len(IDENTIFIER) + 4
    for position in range(body, len(wire)):
        for bit in (0x01, 0x80):
            damaged = bytearray(wire)
            damaged[position] ^= bit
            with pytest.raises(ProtocolError):
                decompress(Snappy(), bytes(damaged))


@given(data=st.binary(max_size=200), at=st.sampled_from(range(1, 200)))
def test_snappy_takes_garbage_only_as_damage(data: bytes, at: int) -> None:
    for wire in (data, IDENTIFIER + data, IDENTIFIER + chunk(0x00, data), IDENTIFIER + stored(b"x") + data):
        codec = Snappy()
        try:
            decompress(codec, wire[:at], wire[at:])
        except ProtocolError:
            continue


def test_much_in_little_snappy_comes_in_bounded_pieces() -> None:
    codec = Snappy()
    codec.feed(IDENTIFIER + library_chunks(bytes(BLOCK)) * 100)
    sizes: list[int] = []
    while piece := codec.decompress(EVERYTHING):
        sizes.append(len(piece))
    assert sizes == [BLOCK] * 100


# Deflate.


def raw_compressor() -> "zlib._Compress":
    return zlib.compressobj(6, zlib.DEFLATED, -15)


def test_deflate_is_zlibs() -> None:
    data = os.urandom(100_000) + bytes(100_000)
    library = raw_compressor()
    wire = library.compress(data) + library.flush(zlib.Z_SYNC_FLUSH)
    assert decompress(Deflate(), wire) == data
    codec, decompressor = Deflate(), zlib.decompressobj(-15)
    assert decompressor.decompress(codec.compress(data)) == data
    assert decompressor.decompress(codec.compress(b"more")) == b"more"


def test_deflate_ends_each_piece_with_a_sync_marker() -> None:
    codec = Deflate()
    assert codec.compress(b"NOP\n").endswith(b"\x00\x00\xff\xff")
    assert codec.compress(b"NOP\n").endswith(b"\x00\x00\xff\xff")


def test_the_level_is_used() -> None:
    data = b"".join(b"message %d of many " % (number * number) for number in range(5000))
    assert len(Deflate(9).compress(data)) < len(Deflate(1).compress(data))


@pytest.mark.parametrize("level", [-2, 10])
def test_a_level_that_zlib_does_not_have(level: int) -> None:
    with pytest.raises(ValueError, match="Invalid initialization option"):
        Deflate(level)


@pytest.mark.parametrize("max_size", [0, -1])
def test_deflate_without_a_bound_is_refused(max_size: int) -> None:
    codec = Deflate()
    codec.feed(Deflate().compress(bytes(BLOCK)))
    with pytest.raises(ValueError, match=f"max_size={max_size} is not valid"):
        codec.decompress(max_size)


@pytest.mark.parametrize("max_size", [1, 257, 258, 259, 1000, 32768])
def test_output_that_zlib_still_holds_when_the_input_is_used_up(max_size: int) -> None:
    codec = Deflate()
    codec.feed(Deflate().compress(bytes(40_000)))
    assert take_all(codec, max_size) == bytes(40_000)


def test_a_gigabyte_in_a_megabyte_takes_no_memory() -> None:
    library = raw_compressor()
    mebibyte = library.compress(bytes(1 << 20)) + library.flush(zlib.Z_FULL_FLUSH)
    bomb = mebibyte * 1024  # after a full flush nothing depends on what came before
    codec = Deflate()
    codec.feed(bomb)
    tracemalloc.start()
    try:
        for _ in range(200):
            assert codec.decompress(BLOCK) == bytes(BLOCK)
        assert tracemalloc.get_traced_memory()[1] < 2 * len(bomb) + 4 * BLOCK
    finally:
        tracemalloc.stop()


def final(data: bytes) -> bytes:
    library = raw_compressor()
    return library.compress(data) + library.flush()


def test_after_the_final_block_comes_nothing() -> None:
    codec = Deflate()
    assert decompress(codec, final(b"the end")) == b"the end"
    assert codec.decompress(100) == b""
    codec.feed(b"")
    assert codec.decompress(100) == b""
    for total in (1, 2):
        codec.feed(b"x")
        with pytest.raises(ProtocolError, match=f"^{total} bytes follow the end of the deflate stream"):
            codec.decompress(100)


@pytest.mark.parametrize("max_size", [1, 7, 100])
def test_what_stands_before_the_end_is_returned_before_the_rest_is_refused(max_size: int) -> None:
    codec = Deflate()
    codec.feed(final(b"the end") + final(b"again"))
    output = b""
    while len(output) < 7:
        output += codec.decompress(max_size)
    assert output == b"the end"
    for _ in range(2):
        with pytest.raises(ProtocolError, match=r"^\d+ bytes follow the end of the deflate stream"):
            codec.decompress(max_size)


@pytest.mark.parametrize(
    "wire",
    [
        b"\xff" * 10,
        b"\x07 reserved block type",
        b"\x00\x05\x00\x00\x00 wrong length",
        zlib.compress(b"x" * 100),
    ],
    ids=["ones", "block type", "length", "with zlib header"],
)
def test_damaged_deflate_is_told(wire: bytes) -> None:
    codec = Deflate()
    with pytest.raises(ProtocolError, match="a damaged deflate stream: Error -3"):
        decompress(codec, wire)
    for _ in range(2):
        codec.feed(b"more")
        with pytest.raises(ProtocolError, match="a damaged deflate stream: Error -3"):
            codec.decompress(100)


@given(data=st.binary(max_size=200), at=st.integers(0, 200), max_size=st.integers(1, 300))
def test_deflate_takes_garbage_only_as_damage(data: bytes, at: int, max_size: int) -> None:
    codec = Deflate()
    try:
        decompress(codec, data[:at], data[at:], max_size=max_size)
    except ProtocolError:
        return
