"""Reads the messages of a queue from its files, one after the other."""

from __future__ import annotations

import errno
import os

from .queue_files import BINARY, QueueFiles
from .records import HEADER_SIZE, MIN_SIZE, Place, Record, decode_records

_SIZE_BYTES = HEADER_SIZE - MIN_SIZE
_BLOCK = 256 * 1024
_SHORTAGES = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}


class QueueReader:
    """A place in the files of a queue.

    :param max_size: the largest size of a record
    :ivar place: the place of the next message
    :ivar is_damaged: whether the file is damaged there
    """

    def __init__(self, files: QueueFiles, max_size: int) -> None:
        self.place: Place = (0, 0)
        self.is_damaged: bool = False
        self._files = files
        self._max_size = max_size
        self._descriptor: int | None = None
        self._number = -1

    def read(self, end: Place, max_count: int, max_bytes: int) -> tuple[list[Record], int]:
        """Return messages of one file, and their size; none at the end of a file, or if it is damaged.

        :param end: where writing goes on
        :raises OSError: if there are too few resources
        """
        self.is_damaged = False
        file, position = self.place
        try:
            descriptor = self._opened(file)
            limit = end[1] if file == end[0] else os.fstat(descriptor).st_size
            if position >= limit:
                self.is_damaged = file == end[0]
                if file < end[0]:
                    self.go_to(file + 1)
                return [], 0
            return self._records(descriptor, limit - position, max_count, max_bytes)
        except OSError as error:
            if error.errno in _SHORTAGES:
                raise
            self.is_damaged = True
            return [], 0

    def _records(
        self, descriptor: int, left: int, max_count: int, max_bytes: int
    ) -> tuple[list[Record], int]:
        file, position = self.place
        data = _read_at(descriptor, min(left, max(max_bytes, HEADER_SIZE), _BLOCK), position)
        records, size, is_bad = decode_records(data, self.place, max_count=max_count, max_size=self._max_size)
        if not records and not is_bad and len(data) < left:
            # The first message is larger than the block.
            wanted = int.from_bytes(data[:_SIZE_BYTES], "big")
            data = _read_at(descriptor, min(left, wanted + _SIZE_BYTES), position)
            records, size, is_bad = decode_records(data, self.place, max_count=1, max_size=self._max_size)
        self.is_damaged = not records
        self.place = (file, position + size)
        return records, size

    def read_at(self, place: Place, end: Place) -> Record | None:
        """Return the message at ``place``, which does not move; None if there is none."""
        if not self.place <= place < end:
            return None
        before, self.place = self.place, place
        try:
            records, _ = self.read(end, 1, HEADER_SIZE)
        finally:
            self.place = before
        return records[0] if records else None

    def _opened(self, number: int) -> int:
        if self._number != number or self._descriptor is None:
            self.close()
            self._descriptor = os.open(self._files.data(number), os.O_RDONLY | BINARY)
            self._number = number
        return self._descriptor

    def go_to(self, file: int) -> None:
        """Go on at the start of a file."""
        self.close()
        self.place = (file, 0)

    def close(self) -> None:
        """Close the file."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _read_at(descriptor: int, count: int, position: int) -> bytes:
    os.lseek(descriptor, position, os.SEEK_SET)
    return os.read(descriptor, count)
