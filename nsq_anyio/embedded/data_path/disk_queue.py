"""A queue in files, in the format of nsqd's diskqueue. Its calls block, and one thread uses it at a time.

Messages that were read stay on disk as long as the caller needs them: the *floor* is the first message that
is still needed. The metadata name the floor as the place to read, and files before it are removed. So a
message that is in flight when the process is killed is delivered again after the next start, which is more
than nsqd promises.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ...files import sync_directory, sync_file
from .queue_files import (
    BINARY,
    HEADER_SIZE,
    MIN_SIZE,
    SIZE_BYTES,
    Place,
    QueueFiles,
    QueueMetadata,
    Record,
    Storable,
    bad_path,
    decode_records,
    encode_record,
)
from .recovery import count_from, recover

_BLOCK = 256 * 1024
_SHORTAGES = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}

_logger = logging.getLogger(__name__)
_FAR = 100


class QueueReader:
    """A reader at one place in the files of a queue.

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

        :param end: where writing continues
        :raises OSError: if file descriptors or memory run out
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
            wanted = int.from_bytes(data[:SIZE_BYTES], "big")
            data = _read_at(descriptor, min(left, wanted + SIZE_BYTES), position)
            records, size, is_bad = decode_records(data, self.place, max_count=1, max_size=self._max_size)
        self.is_damaged = not records
        self.place = (file, position + size)
        return records, size

    def read_at(self, place: Place, end: Place) -> Record | None:
        """Return the message at ``place``, without moving the reader; None if there is none."""
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
        """Continue at the start of a file."""
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


class Written(NamedTuple):
    """The result of `QueueWriter.append`.

    :ivar places: where the messages are; after an error there are fewer places than messages
    """

    places: list[Place]
    error: OSError | None


class QueueWriter:
    """A writer at the end of a queue.

    :param max_bytes: a record that would make a file larger than this begins a new file
    :param max_size: the largest size of a record
    :param before_file: called before a new file is made
    :ivar place: where the next message is written
    """

    def __init__(
        self, files: QueueFiles, max_bytes: int, max_size: int, before_file: Callable[[], None]
    ) -> None:
        self.place: Place = (0, 0)
        self._files = files
        self._max_bytes = max_bytes
        self._max_record = max_size + SIZE_BYTES
        self._before_file = before_file
        self._descriptor: int | None = None
        self._is_unsynced = False
        self._is_new_file = False

    def append(self, messages: Sequence[Storable]) -> Written:
        """Write messages. They are not synced, unless a new file begins."""
        places: list[Place] = []
        records: list[bytes] = []
        position = self.place[1]
        try:
            for message in messages:
                record = encode_record(message)
                if len(record) > self._max_record:
                    raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE), self._path)
                if position and position + len(record) > self._max_bytes:
                    self._put(records, places)
                    records = []
                    self._sync_and_go_on()
                    position = 0
                records.append(record)
                position += len(record)
            self._put(records, places)
        except OSError as error:
            return Written(places, error)
        return Written(places, None)

    @property
    def _path(self) -> str:
        return str(self._files.data(self.place[0]))

    def _put(self, records: list[bytes], places: list[Place]) -> None:
        if not records:
            return
        try:
            descriptor = self._opened()
            data = memoryview(b"".join(records))
            while data:
                data = data[os.write(descriptor, data) :]
        except OSError as error:
            self._undo()
            raise OSError(error.errno, error.strerror, self._path) from error
        file, position = self.place
        for record in records:
            places.append((file, position))
            position += len(record)
        self.place = (file, position)
        self._is_unsynced = True

    def _opened(self) -> int:
        if self._descriptor is None:
            file, position = self.place
            path = self._files.data(file)
            if not position:
                self._before_file()
                self._is_new_file = True
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | BINARY, 0o600)
            os.lseek(self._descriptor, position, os.SEEK_SET)
        return self._descriptor

    def _undo(self) -> None:
        """Remove partly written records after an error; if that fails too, the next write replaces them."""
        if self._descriptor is None:
            return
        try:
            os.ftruncate(self._descriptor, self.place[1])
        except OSError as error:
            _logger.debug("queue %s: a part of a message stays at the end: %s", self._files.name, error)
        self.close()

    def _sync_and_go_on(self) -> None:
        self.sync()
        self.begin_file()

    def begin_file(self) -> None:
        """Write to a new file from now on."""
        self.close()
        self.place = (self.place[0] + 1, 0)
        self._is_unsynced = False

    def sync(self) -> None:
        """Return once everything written survives a crash of the machine.

        :raises OSError: if that fails
        """
        if self._descriptor is None or not self._is_unsynced:
            return
        sync_file(self._descriptor)
        if self._is_new_file:
            sync_directory(self._files.directory)
            self._is_new_file = False
        self._is_unsynced = False

    def close(self) -> None:
        """Close the file; it is opened again for the next message."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """The limits of a queue.

    :ivar max_bytes_per_file: a record that would make a file larger than this begins a new file
    :ivar max_size: the largest size of a record, without the four bytes of the size itself
    :ivar sync_every: the number of messages, written or read, after which a sync is due
    """

    max_bytes_per_file: int = 100 * 1024 * 1024
    max_size: int = MIN_SIZE + 1024 * 1024
    sync_every: int = 2500


class Floor(NamedTuple):
    """The first message that is still needed: its number among all that were read, and its place."""

    number: int
    place: Place


class Appended(NamedTuple):
    """The result of `DiskQueue.append`.

    :ivar places: where the messages are; after an error there are fewer places than messages
    :ivar taken: whether the messages count as read, in the order in which they were given
    """

    places: list[Place]
    taken: bool
    error: OSError | None


class DiskQueue:
    """The queue ``name`` in ``directory``; its files are opened on first use.

    :ivar read_count: the number of messages read since the queue was opened; also the number of the next one
    """

    def __init__(self, directory: Path, name: str, limits: QueueLimits) -> None:
        self.name = name
        self.read_count: int = 0
        self._limits = limits
        self._files = QueueFiles(directory, name)
        self._reader = QueueReader(self._files, limits.max_size)
        self._writer = QueueWriter(
            self._files, limits.max_bytes_per_file, limits.max_size, before_file=self._write_metadata
        )
        self._is_open = False
        self._total = 0  # messages that were there at the start or were written since, read or not
        self._is_counted = True
        self._oldest = 0
        self._bad: set[int] = set()
        self._floor: Floor | None = None
        self._used = 0  # messages written and read since the last sync

    def open(self, numbers: list[int] | None = None) -> None:
        """Find the places to read and to write, unless they are known.

        :param numbers: the numbers of the files, in order; by default the directory is read
        :raises OSError: if the files cannot be read
        """
        if self._is_open:
            return
        numbers = self._files.numbers() if numbers is None else numbers
        opened = recover(self._files, numbers, self._limits.max_size)
        self._reader.place = opened.read
        self._writer.place = opened.write
        self._total = opened.depth
        self._is_counted = opened.is_counted
        self._oldest = opened.oldest
        self._is_open = True

    @property
    def depth(self) -> int:
        """The number of messages that were not read."""
        return max(0, self._total - self.read_count)

    def check_depth(self, held: int = 0) -> None:
        """Count the messages if the files hold more than the metadata say.

        :param held: how many unread messages will be skipped when they are read
        :raises OSError: if the directory cannot be read
        """
        if not self._is_counted and self.depth <= held and self._reader.place < self._writer.place:
            numbers = self._files.numbers()
            left = count_from(self._files, self._reader.place, numbers, self._limits.max_size)
            _logger.warning(
                "queue %s: the metadata are wrong by %d messages",
                self.name,
                self.read_count + left - self._total,
            )
            self._total = self.read_count + left
            self._is_counted = True

    @property
    def read_place(self) -> Place:
        """The place of the next message to read."""
        return self._reader.place

    @property
    def is_sync_due(self) -> bool:
        """Whether ``sync_every`` messages were written and read since the last sync."""
        return self._used >= self._limits.sync_every

    def begin(self, floor: Floor | None) -> None:
        """Set the floor; None if no message that was read is still needed.

        :raises OSError: if the files have to be opened, and cannot be read
        """
        self.open()
        self._floor = floor or self._end_of_read

    @property
    def _end_of_read(self) -> Floor:
        return Floor(self.read_count, self._reader.place)

    # Writing.

    def append(self, messages: Sequence[Storable], *, take: bool = False) -> Appended:
        """Write messages at the end. They are not synced, unless a new file begins.

        :param take: count them as read, if everything before them was read
        :raises OSError: if the files have to be opened, and cannot be read
        """
        self.open()
        taken = take and self._reader.place == self._writer.place
        places, error = self._writer.append(messages)
        self._total += len(places)
        self._used += len(places)
        if taken:
            self._reader.place = self._writer.place
            self.read_count += len(places)
        return Appended(places, taken, error)

    # Reading.

    def read(self, max_count: int, max_bytes: int) -> list[Record]:
        """Return the next messages: at most ``max_count``, and none after the first ``max_bytes`` bytes.

        A damaged file is renamed to ``.bad`` once the messages before the damage are no longer needed.

        :raises OSError: if file descriptors or memory run out; nothing is lost then
        """
        self.open()
        records: list[Record] = []
        while len(records) < max_count and max_bytes > 0 and self._reader.place < self._writer.place:
            found, size = self._reader.read(self._writer.place, max_count - len(records), max_bytes)
            records += found
            max_bytes -= size
            self.read_count += len(found)
            if self._reader.is_damaged:
                self._skip_damaged()
        self._used += len(records)
        if self._reader.place >= self._writer.place and self.read_count != self._total:
            _logger.error(
                "queue %s: at its end, the metadata are wrong by %d messages",
                self.name,
                self._total - self.read_count,
            )
            self._total = self.read_count
            self._is_counted = True
        return records

    def read_at(self, place: Place) -> Record | None:
        """Return an unread message without counting it as read; None if there is none.

        :raises OSError: if file descriptors or memory run out
        """
        self.open()
        return self._reader.read_at(place, self._writer.place)

    def _skip_damaged(self) -> None:
        file, position = self._reader.place
        path = self._files.data(file)
        if file == self._writer.place[0]:
            self._writer.begin_file()
        if path.exists():
            _logger.warning(
                "queue %s: damaged at %d of %s; the rest of the file is skipped, and the file saved as %s",
                self.name,
                position,
                path,
                bad_path(path).name,
            )
        else:
            _logger.error("queue %s: %s is missing, and skipped", self.name, path)
        self._bad.add(file)
        following = [number for number in self._files.numbers() if number > file]
        self._reader.go_to(following[0] if following else self._writer.place[0])
        self._total = self.read_count + count_from(
            self._files, self._reader.place, following, self._limits.max_size
        )

    # Syncing, and removing files.

    def sync(self) -> None:
        """Return once all messages that were appended survive a crash of the machine.

        :raises OSError: if that fails
        """
        self._used = 0
        self._writer.sync()

    def persist(self, *, sync: bool) -> None:
        """Remove the files that are no longer needed, and write the metadata.

        :param sync: whether the metadata have to survive a crash of the machine; without them, messages may
            come twice
        :raises OSError: if that fails
        """
        self._remove_old_files()
        self._write_metadata(sync=sync)

    def _write_metadata(self, *, sync: bool = False) -> None:
        floor = self._floor or self._end_of_read
        depth = max(0, self._total - floor.number)
        self._files.write_metadata(QueueMetadata(depth, floor.place, self._writer.place), sync=sync)

    @property
    def has_old_files(self) -> bool:
        """Whether `persist` would remove files."""
        return self._oldest < (self._floor or self._end_of_read).place[0]

    def _remove_old_files(self) -> None:
        """Remove the files before the floor, and set damaged ones aside."""
        end = (self._floor or self._end_of_read).place[0]
        # Where files are missing, numbers may be far apart.
        is_far = end - self._oldest > _FAR
        numbers = self._files.numbers() if is_far else range(self._oldest, end)
        for number in numbers:
            if not self._oldest <= number < end:
                continue
            path = self._files.data(number)
            if number not in self._bad:
                path.unlink(missing_ok=True)
            elif path.exists():
                path.replace(bad_path(path))
            self._bad.discard(number)
            self._oldest = number + 1
        self._oldest = max(self._oldest, end)

    def clear(self) -> None:
        """Close and remove all files, with all messages, read or not.

        :raises OSError: if that fails
        """
        self.open()
        self._reader.close()
        self._writer.begin_file()
        self._reader.place = self._writer.place
        self.read_count = self._total
        self._floor = None
        self._used = 0
        self._remove_old_files()
        self._files.metadata.unlink(missing_ok=True)

    def close(self, floor: Floor | None = None) -> None:
        """Sync everything, and close the files.

        :param floor: the first message to read after the next opening; None for the first unread one
        :raises OSError: if the files cannot be written
        """
        try:
            self.begin(floor)
            self.sync()
            self.persist(sync=True)
        finally:
            self._writer.close()
            self._reader.close()
