"""Where reading and writing of a queue go on when its files are opened.

After an orderly end the metadata say it. After a crash they are older than the files: as in nsqd, writing
then begins a new file, and everything in the old ones after the known place is read. Where nsqd would trust
damaged metadata, and overwrite or skip what is there, all messages that still exist are read instead: some
may be delivered twice, none is lost.
"""

from __future__ import annotations

import logging
import mmap
from dataclasses import dataclass
from pathlib import Path

from .queue_files import QueueFiles, QueueMetadata, bad_path
from .records import HEADER_SIZE, MIN_SIZE, Place

__all__ = ["Opened", "count_records", "recover"]

_logger = logging.getLogger(__name__)

_SIZE_BYTES = HEADER_SIZE - MIN_SIZE


@dataclass(frozen=True, slots=True)
class Opened:
    """The state of a queue whose files were opened.

    :ivar read: the place of the next message
    :ivar write: the place where the next message is written
    :ivar depth: the number of messages
    :ivar oldest: the number of the first file that exists, or would
    """

    read: Place
    write: Place
    depth: int
    oldest: int


def recover(files: QueueFiles, max_size: int) -> Opened:
    """Return the state in which a queue goes on.

    :param max_size: the largest size of a record
    :raises OSError: if the directory cannot be read
    """
    metadata = _metadata(files)
    numbers = files.numbers()
    if metadata is None:
        if not numbers:
            return Opened((0, 0), (0, 0), 0, 0)
        return _everything(files, numbers, max_size, "there are no metadata")
    depth, read, write = metadata
    if not numbers:
        if depth > 0:
            _logger.error(
                "queue %s: %d messages are lost, because their files are missing", files.name, depth
            )
        start = (write[0] + 1, 0) if write[1] else write
        return Opened(start, start, 0, start[0])
    if read > write or depth < 0 or write[0] > numbers[-1] + 1:
        return _everything(files, numbers, max_size, "the metadata do not agree with the files")
    if numbers[0] < read[0]:
        # Whoever has read a file removes it before the metadata name a later one.
        return _everything(files, numbers, max_size, "files before the one to read still exist")
    if read[0] not in numbers:
        following = [number for number in numbers if number > read[0]]
        if following or read != write:
            read = (following[0], 0) if following else (write[0], 0)
    return _checked(files, QueueMetadata(depth, read, write), numbers, max_size)


def _metadata(files: QueueFiles) -> QueueMetadata | None:
    try:
        return files.read_metadata()
    except ValueError as error:
        _logger.warning("queue %s: %s; it is set aside as *.bad", files.name, error)
        files.metadata.replace(bad_path(files.metadata))
        return None


def _everything(files: QueueFiles, numbers: list[int], max_size: int, reason: str) -> Opened:
    _logger.warning(
        "queue %s: %s; all its files are read again, so that some messages may come twice", files.name, reason
    )
    write = (numbers[-1] + 1, 0)
    depth = sum(count_records(files.data(number), 0, None, max_size)[0] for number in numbers)
    return Opened((numbers[0], 0), write, depth, numbers[0])


def _checked(files: QueueFiles, metadata: QueueMetadata, numbers: list[int], max_size: int) -> Opened:
    depth, read, write = metadata
    oldest = numbers[0]
    is_exact = write[0] >= numbers[-1]
    size = _size(files.data(write[0]))
    if not is_exact or size not in (None, write[1]) or (size is None and write[1]):
        # As after a crash. The file may end in a part of a record, so nothing is appended to it.
        _logger.warning(
            "queue %s: the metadata say that %s has %d bytes, it has %d; writing goes on in a new file",
            files.name,
            files.data(write[0]),
            write[1],
            size or 0,
        )
        write = (max(numbers[-1], write[0]) + 1, 0)
        is_exact = False
    if read[0] in numbers and read[1]:
        _, is_boundary = count_records(files.data(read[0]), 0, read[1], max_size)
        if not is_boundary:
            _logger.warning(
                "queue %s: no message begins at %d of %s; the file is read again from its start",
                files.name,
                read[1],
                files.data(read[0]),
            )
            read, is_exact = (read[0], 0), False
    if is_exact and read[0] == write[0]:
        count, is_whole = count_records(files.data(read[0]), read[1], write[1], max_size)
        if is_whole and count != depth:
            _logger.warning(
                "queue %s: the metadata count %d messages, %d are there; %s is read again from its start",
                files.name,
                depth,
                count,
                files.data(read[0]),
            )
            read, is_exact = (read[0], 0), False
    if not is_exact:
        depth = sum(
            count_records(files.data(number), read[1] if number == read[0] else 0, None, max_size)[0]
            for number in numbers
            if number >= read[0]
        )
    return Opened(read, write, depth, oldest)


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def count_records(path: Path, start: int, end: int | None, max_size: int) -> tuple[int, bool]:
    """Return how many records a file has from ``start`` to ``end``, and whether one ends exactly there.

    :param end: None for the end of the file
    """
    count = 0
    position = start
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            size = len(data)
            end = size if end is None else end
            while position + _SIZE_BYTES <= min(size, end):
                length = int.from_bytes(data[position : position + _SIZE_BYTES], "big")
                if not MIN_SIZE <= length <= max_size or position + _SIZE_BYTES + length > size:
                    break
                position += _SIZE_BYTES + length
                count += 1
    except (OSError, ValueError):  # it is missing, empty, or no file
        return 0, (end or 0) == start
    return count, position == end
