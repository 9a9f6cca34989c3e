"""Messages as nsqd's diskqueue stores them.

A record is the size of the rest (4 bytes), the time of publication in Unix nanoseconds (8 bytes), the
attempts (2 bytes), the id (16 bytes) and the body; numbers are big-endian.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, Protocol, TypeAlias

Place: TypeAlias = tuple[int, int]
"""Where a record begins: the number of its file, and the position there. Places grow in a queue's order."""

_SIZE = struct.Struct(">I")
_HEADER = struct.Struct(">IqH16s")
HEADER_SIZE = _HEADER.size
"""The bytes of a record before its body."""

MIN_SIZE = HEADER_SIZE - _SIZE.size
"""The smallest size that a record may claim: that of a message with an empty body."""


class Storable(Protocol):
    """A message, as far as it is stored."""

    id: bytes
    timestamp: int
    attempts: int
    body: bytes


class Record(NamedTuple):
    """A message that was read."""

    place: Place
    timestamp: int
    attempts: int
    id: bytes
    body: bytes


def encode_record(message: Storable) -> bytes:
    """Return the record of a message."""
    body = message.body
    header = _HEADER.pack(MIN_SIZE + len(body), message.timestamp, message.attempts, message.id)
    return header + body


def decode_records(
    data: bytes, place: Place, *, max_count: int, max_size: int
) -> tuple[list[Record], int, bool]:
    """Return the whole records in ``data``, how many bytes they take, and whether what follows is damaged.

    :param place: where ``data`` begins
    :param max_count: the most records to return
    :param max_size: the largest size that a record may claim
    """
    records: list[Record] = []
    file, start = place
    offset = 0
    end = len(data)
    while len(records) < max_count and offset + _SIZE.size <= end:
        (size,) = _SIZE.unpack_from(data, offset)
        if not MIN_SIZE <= size <= max_size:
            return records, offset, True
        stop = offset + _SIZE.size + size
        if stop > end:
            break
        _, timestamp, attempts, message_id = _HEADER.unpack_from(data, offset)
        body = data[offset + HEADER_SIZE : stop]
        records.append(Record((file, start + offset), timestamp, attempts, message_id, body))
        offset = stop
    return records, offset, False
