"""Recovery of a queue: the places where reading and writing continue when its files are opened.

After an orderly end, the metadata name these places. After a crash, the metadata are older than the files: as
in nsqd, writing then begins a new file, and everything in the old files after the known place is read.
Damaged metadata would make nsqd overwrite or skip messages. Here all messages that still exist are read
instead: some may be delivered twice, none is lost.
"""

from __future__ import annotations

import logging
import mmap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .queue_files import MIN_SIZE, SIZE_BYTES, Place, QueueFiles, QueueMetadata, bad_path

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Opened:
    """The state of a queue whose files were opened.

    :ivar read: the place of the next message
    :ivar write: the place where the next message is written
    :ivar depth: the number of messages
    :ivar oldest: the number of the first file, whether or not it exists yet
    :ivar is_counted: whether the depth was counted. The depth in nsqd's metadata is wrong after a crash, and
        stays wrong through orderly ends until nsqd has read everything
    """

    read: Place
    write: Place
    depth: int
    oldest: int
    is_counted: bool = True


def recover(files: QueueFiles, numbers: list[int], max_size: int) -> Opened:
    """Return the state from which a queue continues.

    :param numbers: the numbers of its files, in order
    :param max_size: the largest size of a record
    :raises OSError: if the metadata cannot be read
    """
    metadata = _metadata(files)
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
    if read > write or write[0] > numbers[-1] + 1:
        return _everything(files, numbers, max_size, "the metadata do not agree with the files")
    if numbers[0] < read[0]:
        # An nsqd first removes a file that it has read, and only then names a later one in its metadata.
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
    read = (numbers[0], 0)
    return Opened(read, write, count_from(files, read, numbers, max_size), numbers[0])


def _checked(files: QueueFiles, metadata: QueueMetadata, numbers: list[int], max_size: int) -> Opened:
    depth, read, write = metadata
    oldest = numbers[0]
    first, last = files.data(read[0]), files.data(write[0])
    is_counted = False
    size = _size(last)
    if write[0] < numbers[-1] or size not in (None, write[1]) or (size is None and write[1]):
        # Probably a crash. The file may end in a partial record, so nothing is appended to it.
        _logger.warning(
            "queue %s: the metadata say that %s has %d bytes, it has %d; writing goes on in a new file",
            files.name,
            last,
            write[1],
            size or 0,
        )
        write = (max(numbers[-1], write[0]) + 1, 0)
        is_counted = True
    if not _may_begin_at(first, read[1]):
        _logger.warning(
            "queue %s: no message begins at %d of %s; the file is read again from its start",
            files.name,
            read[1],
            first,
        )
        read, is_counted = (read[0], 0), True
    if not is_counted:
        is_one = read[0] == write[0]
        count, end = _walk(last, read[1] if is_one else 0, write[1], max_size)
        if end != write[1]:
            _logger.warning(
                "queue %s: damaged at %d of %s; writing goes on in a new file", files.name, end, last
            )
            write, is_counted = (write[0] + 1, 0), True
        elif is_one and count != depth:
            if _walk(first, 0, read[1], max_size)[1] == read[1]:
                read = (read[0], 0)
            _logger.warning(
                "queue %s: the metadata count %d messages, %d are there; %s is read from %d",
                files.name,
                depth,
                count,
                first,
                read[1],
            )
            is_counted = True
    if depth <= 0 and read < write and not is_counted:
        _logger.warning("queue %s: the metadata count %d messages, but there are some", files.name, depth)
        is_counted = True
    if is_counted:
        depth = count_from(files, read, numbers, max_size)
    return Opened(read, write, depth, oldest, is_counted or read[0] == write[0])


def count_from(files: QueueFiles, place: Place, numbers: Iterable[int], max_size: int) -> int:
    """Return the number of messages from ``place`` to the end, except messages after damage in a file.

    :param numbers: the numbers of the files that exist
    """
    return sum(
        _walk(files.data(number), place[1] if number == place[0] else 0, None, max_size)[0]
        for number in numbers
        if number >= place[0]
    )


def _may_begin_at(path: Path, position: int) -> bool:
    """Return whether the next record may begin at ``position``, as the metadata say.

    It may if a walk from there gets as far as a walk from the start of the file. Neither damage before that
    place nor records above the present size limit may cost the messages after it.
    """
    size = _size(path)
    if not position or size is None:
        return True
    return position <= size and _walk(path, position, None)[1] >= _walk(path, 0, None)[1]


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _walk(path: Path, start: int, end: int | None, max_size: int = 2**32) -> tuple[int, int]:
    """Return how many records a file has from ``start`` on, and where the last one ends.

    The walk stops at the first record that ends at ``end`` or later, or at damage.

    :param end: None for the end of the file
    """
    count = 0
    position = start
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            size = len(data)
            end = size if end is None else min(end, size)
            while position < end and position + SIZE_BYTES <= size:
                length = int.from_bytes(data[position : position + SIZE_BYTES], "big")
                if not MIN_SIZE <= length <= max_size or position + SIZE_BYTES + length > size:
                    break
                position += SIZE_BYTES + length
                count += 1
    except (OSError, ValueError):  # it is missing, empty, or no file
        return 0, start
    return count, position
