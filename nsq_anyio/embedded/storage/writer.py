"""Writes the messages of a queue to the end of its files."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...files import sync_directory, sync_file
from .queue_files import BINARY, QueueFiles
from .records import Place, Storable, encode_record

_logger = logging.getLogger(__name__)


class Written(NamedTuple):
    """What was written.

    :ivar places: where the messages are; after an error there are fewer places than messages
    """

    places: list[Place]
    error: OSError | None


class QueueWriter:
    """The end of a queue.

    :param max_bytes: a file that would grow beyond it is followed by a new one
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
        self._max_record = max_size + 4
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
        """After an error, leave no part of a record behind; if that fails too, the next write replaces it."""
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
        """Return once everything that was written survives a crash of the machine.

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
