"""Received bytes, for decoders that are written as if they could wait for more."""

from __future__ import annotations

import struct
from collections.abc import Generator
from typing import TypeAlias, TypeVar

__all__ = ["EndOfInput", "Reading", "ReceiveBuffer"]

ResultT = TypeVar("ResultT")

Reading: TypeAlias = Generator[int, None, ResultT]
"""A suspended decoder; each int it yields is the number of bytes without which it cannot go on."""

_unpack_size = struct.Struct(">i").unpack_from


class EndOfInput(Exception):
    """The bytes end before what was asked for."""


class ReceiveBuffer:
    """Bytes that arrive in pieces of any size.

    Pieces are joined only when the bytes that a decoder waits for are complete, so that a large body in
    small pieces costs one copy.

    :ivar data: what has been joined
    :ivar position: the first byte of ``data`` that has not been taken
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
        """How many bytes have not been taken."""
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
        """Say that no more bytes will come."""
        self._ended = True

    def join(self) -> None:
        """Bring all bytes that arrived into ``data``."""
        if self._pieces:
            self.data = b"".join([self.data[self.position :], *self._pieces])
            self.position = 0
            self._pieces.clear()
            self._waiting = 0

    def line(self, limit: int) -> Reading[bytes | None]:
        """Take one line without its line feed; None if it has more than ``limit`` bytes with it.

        :raises EndOfInput: if the input ends within the line
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

        :raises EndOfInput: if the input ends before
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

        :raises EndOfInput: if the input ends before
        """
        size: int
        (size,) = _unpack_size((yield from self.exactly(4)))
        return size
