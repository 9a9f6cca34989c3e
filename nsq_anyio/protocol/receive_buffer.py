"""A buffer of received bytes, for decoders written as generators that wait for more."""

from __future__ import annotations

import struct
from collections.abc import Generator
from typing import TypeAlias, TypeVar

ResultT = TypeVar("ResultT")

Reading: TypeAlias = Generator[int, None, ResultT]
"""A decoder. Each int that it yields is the number of bytes that it needs to continue."""

_unpack_size = struct.Struct(">i").unpack_from


class EndOfInput(Exception):
    """The input ended before the requested bytes."""


class ReceiveBuffer:
    """Bytes that arrive in pieces of any size.

    Pieces are joined once all bytes that a decoder waits for have arrived, so a large body in small pieces is
    copied once.

    :ivar data: the joined bytes
    :ivar position: the index in ``data`` of the first byte that was not taken
    """

    __slots__ = ("_ended", "_pieces", "_waiting", "data", "position")

    def __init__(self, data: bytes = b"") -> None:
        self.data: bytes = data
        self.position: int = 0
        self._pieces: list[bytes] = []
        self._waiting = 0
        self._ended = False

    @property
    def available(self) -> int:
        """The number of bytes that were not taken yet."""
        return len(self.data) - self.position + self._waiting

    @property
    def ended(self) -> bool:
        """Whether no more bytes will come."""
        return self._ended

    def feed(self, data: bytes) -> None:
        """Add bytes."""
        self._pieces.append(data)
        self._waiting += len(data)

    def end(self) -> None:
        """Note that no more bytes will come."""
        self._ended = True

    def join(self) -> None:
        """Move all received bytes into ``data``."""
        if self._pieces:
            self.data = b"".join([self.data[self.position :], *self._pieces])
            self.position = 0
            self._pieces.clear()
            self._waiting = 0

    def line(self, limit: int) -> Reading[bytes | None]:
        """Take one line without its line feed; None if it has more than ``limit`` bytes, line feed included.

        :raises EndOfInput: if the input ends before the line feed
        """
        while (end := self.data.find(b"\n", self.position, self.position + limit)) < 0:
            length = len(self.data) - self.position
            if length >= limit:
                return None
            if self._ended:
                raise EndOfInput
            yield length + 1
        line = self.data[self.position : end]
        self.position = end + 1
        return line

    def exactly(self, count: int) -> Reading[bytes]:
        """Take ``count`` bytes.

        :raises EndOfInput: if the input ends first
        """
        while len(self.data) - self.position < count:
            if self._ended:
                raise EndOfInput
            yield count
        start = self.position
        self.position += count
        return self.data[start : self.position]

    def size(self) -> Reading[int]:
        """Take a 4-byte size; nsqd reads it as a signed integer.

        :raises EndOfInput: if the input ends first
        """
        size: int
        (size,) = _unpack_size((yield from self.exactly(4)))
        return size
