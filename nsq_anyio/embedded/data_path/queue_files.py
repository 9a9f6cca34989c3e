"""The format of nsqd's diskqueue: the names of a queue's files, its metadata, and the records of messages.

The messages are in ``<name>.diskqueue.000000.dat`` and so on. ``<name>.diskqueue.meta.dat`` holds the number
of messages, the place of the next one to read, and the place where the next one is written.

A record is the size of the rest (4 bytes), the time of publication in Unix nanoseconds (8 bytes), the
attempts (2 bytes), the id (16 bytes) and the body; numbers are big-endian.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Protocol, TypeAlias

from ...files import sync_file

Place: TypeAlias = tuple[int, int]
"""Where a record begins: the number of its file, and the position there. Places grow in a queue's order."""

_SIZE = struct.Struct(">I")
_HEADER = struct.Struct(">IqH16s")
SIZE_BYTES = _SIZE.size
"""The length of a record's size field, which does not count itself."""

HEADER_SIZE = _HEADER.size
"""The length of a record before its body."""

MIN_SIZE = HEADER_SIZE - SIZE_BYTES
"""The smallest size that a record may claim: that of a message with an empty body."""

BINARY: int = getattr(os, "O_BINARY", 0)
"""The flag that opens a file of messages in binary mode; only Windows has it."""

_DATA = re.compile(r"(?P<name>.+)\.diskqueue\.(?P<number>[0-9]{6,})\.dat", re.ASCII | re.DOTALL)
_METADATA = re.compile(r"(?P<name>.+)\.diskqueue\.meta\.dat", re.ASCII | re.DOTALL)
_NUMBERS = re.compile(rb"(-?[0-9]{1,19})\n([0-9]{1,19}),([0-9]{1,19})\n([0-9]{1,19}),([0-9]{1,19})\s*")


class Storable(Protocol):
    """The part of a message that is stored."""

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
    """Return the complete records in ``data``, their size, and whether the bytes after them are damaged.

    :param place: where ``data`` begins
    :param max_count: the most records to return
    :param max_size: the largest size that a record may claim
    """
    records: list[Record] = []
    file, start = place
    offset = 0
    end = len(data)
    while len(records) < max_count and offset + SIZE_BYTES <= end:
        (size,) = _SIZE.unpack_from(data, offset)
        if not MIN_SIZE <= size <= max_size:
            return records, offset, True
        stop = offset + SIZE_BYTES + size
        if stop > end:
            break
        _, timestamp, attempts, message_id = _HEADER.unpack_from(data, offset)
        body = data[offset + HEADER_SIZE : stop]
        records.append(Record((file, start + offset), timestamp, attempts, message_id, body))
        offset = stop
    return records, offset, False


class QueueMetadata(NamedTuple):
    """The numbers in a queue's metadata."""

    depth: int
    read: Place
    write: Place


class QueueFiles:
    """The files of the queue ``name`` in ``directory``."""

    def __init__(self, directory: Path, name: str) -> None:
        self.directory = directory
        self.name = name
        self.metadata: Path = directory / f"{name}.diskqueue.meta.dat"

    def data(self, number: int) -> Path:
        """Return the path of a file with messages."""
        return self.directory / f"{self.name}.diskqueue.{number:06d}.dat"

    def numbers(self) -> list[int]:
        """Return the numbers of the files with messages that exist, in order.

        :raises OSError: if the directory cannot be read
        """
        return file_numbers(self.directory).get(self.name, [])

    def read_metadata(self) -> QueueMetadata | None:
        """Return the metadata; None if there is none.

        :raises ValueError: if the file is damaged
        :raises OSError: if it cannot be read
        """
        try:
            data = self.metadata.read_bytes()
        except FileNotFoundError:
            return None
        match = _NUMBERS.match(data)
        if match is None:
            raise ValueError(f"{data[:100]!r} is no metadata of a queue")
        depth, *places = map(int, match.groups())
        return QueueMetadata(depth, (places[0], places[1]), (places[2], places[3]))

    def write_metadata(self, metadata: QueueMetadata, *, sync: bool) -> None:
        """Replace the metadata.

        :param sync: whether the new metadata have to survive a crash of the machine
        :raises OSError: if that fails; then the old metadata are still there
        """
        depth, read, write = metadata
        text = f"{depth}\n{read[0]},{read[1]}\n{write[0]},{write[1]}\n"
        replace_file(self.metadata, text.encode(), sync=sync)


def replace_file(path: Path, data: bytes, *, sync: bool) -> None:
    """Write a temporary file, and rename it to ``path``, so that no reader sees a partial file.

    :raises OSError: if that fails; then the old file is still there
    """
    # One name suffices, because the directory is locked. The next write replaces a leftover of a crash.
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        with open(temporary, "wb", opener=_private) as file:
            file.write(data)
            file.flush()
            if sync:
                sync_file(file.fileno())
        temporary.replace(path)
    except OSError as error:
        error.filename = os.fspath(path)
        raise


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def bad_path(path: Path) -> Path:
    """Return the name under which a damaged file is set aside."""
    return path.with_name(f"{path.name}.bad")


def file_numbers(directory: Path) -> dict[str, list[int]]:
    """Return the numbers of the files with messages that exist, in order, by the names of their queues.

    :raises OSError: if the directory cannot be read
    """
    numbers: dict[str, list[int]] = {}
    for entry in os.listdir(directory):  # noqa: PTH208
        if match := _DATA.fullmatch(entry):
            numbers.setdefault(match["name"], []).append(int(match["number"]))
    return {name: sorted(each) for name, each in numbers.items()}


def queue_names(entries: Iterable[str]) -> list[str]:
    """Return the names of the queues to which the files ``entries`` belong, in order."""
    matches = (_METADATA.fullmatch(entry) or _DATA.fullmatch(entry) for entry in entries)
    return sorted({match["name"] for match in matches if match})
