"""Snappy and deflate for a connection, in bounded memory even if the peer is hostile."""

from __future__ import annotations

import struct
import zlib
from typing import Protocol

import snappy  # type: ignore[import-untyped]  # it ships no types; the parts that are used are typed below

from ..errors import ProtocolError
from .receive_buffer import ReceiveBuffer


class StreamCodec(Protocol):
    """Both directions of one connection. They share no state, so each may have its own task."""

    def compress(self, data: bytes) -> bytes:
        """Compress and flush ``data``: the peer can decompress all of it. Send all results in order."""
        ...

    def finish(self) -> bytes:
        """Return the end of the stream; b"" if the format has no end marker."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the peer has ended its stream, and everything before the end was taken."""
        ...

    def feed(self, data: bytes) -> None:
        """Add compressed bytes, split anywhere.

        Call it only when `decompress` returns nothing, so that no backlog grows.
        """
        ...

    def decompress(self, max_size: int) -> bytes:
        """Take decompressed bytes; b"" when more input is needed.

        :param max_size: the most bytes to return, 1 or more
        :raises ProtocolError: if the input is damaged; so does every later call
        """
        ...


# Snappy's framing format, https://github.com/google/snappy/blob/main/framing_format.txt: a stream is made of
# chunks: a type, a 3-byte little-endian length, and that many bytes. Data chunks start with a checksum.
_COMPRESSED, _UNCOMPRESSED, _IDENTIFIER = 0x00, 0x01, 0xFF
_FIRST_SKIPPABLE = 0x80
_HEADER_SIZE = 4
_CHECKSUM_SIZE = 4
_STREAM_IDENTIFIER = b"\xff\x06\x00\x00sNaPpY"
_MAX_BLOCK = 65536
# The longest chunk of each type: for a compressed block, as snappy and the library bound it; for an
# uncompressed one, a block and its checksum.
_MAX_CHUNK = (32 + _MAX_BLOCK + _MAX_BLOCK // 6, _CHECKSUM_SIZE + _MAX_BLOCK)
_MAX_VARINT = 5

_unpack_header = struct.Struct("<I").unpack_from


class _SnappyCompressor(Protocol):
    def add_chunk(self, data: bytes) -> bytes: ...


class _SnappyDecompressor(Protocol):
    def decompress(self, data: bytes) -> bytes: ...


class Snappy:
    """Snappy in its framing format.

    This class finds and checks the chunks, since the library decompresses without bounds. The library gets
    them joined in runs of up to one block's size: nsqd may flush small chunks, and a call for each would cost
    more than their decompression. Larger runs are no faster.

    If damaged bytes arrive together with good ones before them, not all of the good ones are returned.
    """

    __slots__ = ("_compressor", "_decompressor", "_identified", "_input", "_needed", "_rest", "_to_skip")

    def __init__(self) -> None:
        self._compressor: _SnappyCompressor = snappy.StreamCompressor()
        self._decompressor: _SnappyDecompressor = snappy.StreamDecompressor()
        self._input = ReceiveBuffer()
        self._needed = _HEADER_SIZE  # the bytes of input that the next step needs
        self._to_skip = 0  # the bytes of a skippable chunk that have not arrived
        self._identified = False
        self._rest = memoryview(b"")  # decompressed, but not taken yet

    def compress(self, data: bytes) -> bytes:
        """Compress ``data`` to whole chunks; the first call puts the stream identifier before them."""
        return self._compressor.add_chunk(data)

    def finish(self) -> bytes:
        """Return nothing: a snappy stream may end after any chunk."""
        return b""

    @property
    def ended(self) -> bool:
        """Always False: the format has no end marker."""
        return False

    def feed(self, data: bytes) -> None:
        if self._to_skip:
            skipped = min(self._to_skip, len(data))
            self._to_skip -= skipped
            data = data[skipped:]
        self._input.feed(data)

    def decompress(self, max_size: int) -> bytes:
        """Take the next decompressed bytes, ``max_size`` at most; b"" when no chunk is complete.

        :raises ProtocolError: if this is not a snappy stream, or is damaged
        """
        if not self._rest:
            output = self._next_run(min(max_size, _MAX_BLOCK))
            if len(output) <= max_size:
                return output
            self._rest = memoryview(output)
        taken = bytes(self._rest[:max_size])
        self._rest = self._rest[max_size:]
        return taken

    def _next_run(self, max_size: int) -> bytes:
        """Decompress the next data chunks: up to ``max_size`` bytes, or one chunk that holds more."""
        source = self._input
        while source.available >= self._needed:
            source.join()
            kind, length = _chunk_header(source.data, source.position)
            if kind == _IDENTIFIER:
                self._take_identifier(length)
            elif not self._identified:
                raise ProtocolError(
                    f"the snappy stream starts with a chunk of type {kind:#04x} instead of its identifier"
                )
            elif kind <= _UNCOMPRESSED:
                if output := self._take_run(max_size):
                    return output
            elif kind >= _FIRST_SKIPPABLE:
                self._skip(length)
            else:
                raise ProtocolError(
                    f"a snappy chunk has the reserved type {kind:#04x}, which cannot be skipped"
                )
        return b""

    def _take_identifier(self, length: int) -> None:
        """Take a stream identifier. It may come again: a stream can be the concatenation of several."""
        source = self._input
        if length != len(_STREAM_IDENTIFIER) - _HEADER_SIZE:
            raise ProtocolError(f"a snappy stream identifier has {length} bytes instead of 6")
        self._needed = len(_STREAM_IDENTIFIER)
        if source.available < self._needed:
            return
        if not source.data.startswith(_STREAM_IDENTIFIER, source.position):
            raise ProtocolError("a snappy stream identifier does not say sNaPpY")
        source.position += self._needed
        self._needed = _HEADER_SIZE
        self._identified = True

    def _skip(self, length: int) -> None:
        """Drop a chunk as its bytes arrive, without holding it: it may have 16 MiB."""
        source = self._input
        size = _HEADER_SIZE + length
        skipped = min(size, source.available)
        source.position += skipped
        self._to_skip = size - skipped

    def _take_run(self, max_size: int) -> bytes:
        data = self._input.data
        start = end = self._input.position
        size = 0
        self._needed = _HEADER_SIZE
        while len(data) - end >= _HEADER_SIZE:
            kind, length = _chunk_header(data, end)
            if kind > _UNCOMPRESSED:
                break
            if not _CHECKSUM_SIZE <= length <= _MAX_CHUNK[kind]:
                raise ProtocolError(
                    f"a snappy chunk of type {kind:#04x} has {length} bytes: "
                    f"{_CHECKSUM_SIZE} to {_MAX_CHUNK[kind]} are allowed"
                )
            block = end + _HEADER_SIZE + _CHECKSUM_SIZE
            following = end + _HEADER_SIZE + length
            if following > len(data):
                self._needed = following - end
                break
            size += _uncompressed_size(data, block, following) if kind == _COMPRESSED else following - block
            if size > max_size and end > start:
                break
            end = following
        if end == start:
            return b""
        try:
            output = self._decompressor.decompress(b"".join((_STREAM_IDENTIFIER, data[start:end])))
        except Exception as error:  # the library's own type or OSError, depending on its version
            raise ProtocolError(f"a damaged snappy chunk: {error}") from error
        self._input.position = end
        return output


def _chunk_header(data: bytes, position: int) -> tuple[int, int]:
    header: int
    (header,) = _unpack_header(data, position)
    return header & 0xFF, header >> 8


def _uncompressed_size(data: bytes, start: int, end: int) -> int:
    """Return the uncompressed size that a block claims, in the varint at its start."""
    size = shift = 0
    for byte in data[start : min(end, start + _MAX_VARINT)]:
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    else:
        raise ProtocolError("a compressed snappy chunk does not state its uncompressed size")
    if size > _MAX_BLOCK:
        raise ProtocolError(f"a snappy chunk claims {size} uncompressed bytes: {_MAX_BLOCK} are allowed")
    return size


class Deflate:
    """Raw deflate (RFC 1951, without header and checksum), as Go's compress/flate writes it.

    :param level: how hard to compress: 1 (fastest) to 9 (smallest); default 6
    """

    __slots__ = ("_compressor", "_decompressor", "_input")

    def __init__(self, level: int = 6) -> None:
        self._compressor = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
        self._decompressor = zlib.decompressobj(-zlib.MAX_WBITS)
        self._input = b""

    def compress(self, data: bytes) -> bytes:
        """Compress ``data`` up to a sync marker, as Go's ``Writer.Flush`` does."""
        return self._compressor.compress(data) + self._compressor.flush(zlib.Z_SYNC_FLUSH)

    def finish(self) -> bytes:
        """Return the final block, after which nsqd closes. Without it, nsqd would log an unexpected end."""
        return self._compressor.flush(zlib.Z_FINISH)

    @property
    def ended(self) -> bool:
        """Whether the final block was reached."""
        return self._decompressor.eof

    def feed(self, data: bytes) -> None:
        self._input += data

    def decompress(self, max_size: int) -> bytes:
        """Take the next decompressed bytes, ``max_size`` at most; b"" when more input is needed.

        A final block ends the stream: after it there is nothing to take.

        :raises ProtocolError: if the input is damaged, or goes on after the final block
        """
        if max_size < 1:
            raise ValueError(f"max_size={max_size} is not valid: use 1 or more")  # 0 is no limit in zlib
        source = self._decompressor
        if not source.eof:
            try:
                # Even without input: zlib may hold output that the last call had no room for.
                output = source.decompress(self._input, max_size)
            except zlib.error as error:
                raise ProtocolError(f"a damaged deflate stream: {error}") from error
            self._input = source.unused_data if source.eof else source.unconsumed_tail
            if output:
                return output
        if source.eof and self._input:
            raise ProtocolError(f"{len(self._input)} bytes follow the end of the deflate stream")
        return b""
