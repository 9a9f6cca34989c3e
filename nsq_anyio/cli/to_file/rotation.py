"""The files of one topic, written one after another, and the limits at which a file ends."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ...options.checks import check_integer, check_seconds
from ...storage.place import Place
from .encodings import Encoding
from .file_names import TopicNames, with_revision
from .finished_files import EndedFile, is_taken, make_parent
from .open_file import OpenFile

_log = logging.getLogger("nsq_anyio.to_file")


@dataclass(frozen=True, slots=True)
class Rotation:
    """The limits of a file. A new name also begins a new file.

    :param size: bytes before compression, beyond which a file takes no further message; 0 for no limit
    :param interval: seconds after which a file is ended; 0 for no limit
    :raises InvalidOption: for a value out of range
    """

    size: int = 0
    interval: float = 0.0

    def __post_init__(self) -> None:
        check_integer("rotate_size", self.size, 0)
        check_seconds("rotate_interval", self.interval, 0)

    def reason(self, *, size: int, age: float) -> str | None:
        """Return the reason to end a file of this size and age; None if there is none."""
        if self.interval and age > self.interval:
            return f"it was opened {age:.0f} s ago"
        if self.is_full(size):
            return f"it has {size} bytes"
        return None

    def is_full(self, size: int) -> bool:
        """Return whether a file of this size takes no further message."""
        return 0 < self.size < size

    def count_fitting(self, size: int, bodies: Sequence[bytes]) -> int:
        """Return how many of the messages fit a file of this size: at least one if it is not full."""
        if not self.size:
            return len(bodies)
        count = 0
        while count < len(bodies) and not self.is_full(size):
            size += len(bodies[count]) + 1
            count += 1
        return count


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """The options that the files of all topics share.

    :param output_dir: the directory of finished files, or its URL
    :param work_dir: the directory of files that are being written; may be the same
    :param encoding: how files are compressed; None for no compression
    :param rotation: the limits of a file
    :param skip_empty_files: whether a file is opened only when its first message arrives
    """

    output_dir: Place
    work_dir: Path
    encoding: Encoding | None
    rotation: Rotation
    skip_empty_files: bool

    @property
    def moves(self) -> bool:
        """Whether finished files are moved."""
        return self.work_dir != self.output_dir

    @property
    def exclusive(self) -> bool:
        """Whether each file must be new; otherwise messages are appended to an existing file.

        With a URL, an existing file may still be uploading.
        """
        return self.is_remote or self.encoding is not None or self.rotation.interval > 0

    @property
    def is_remote(self) -> bool:
        """Whether finished files go to another machine."""
        return not isinstance(self.output_dir, Path)

    @property
    def numbered(self) -> bool:
        """Whether files of one name need numbers."""
        return self.exclusive or self.rotation.size > 0 or self.moves


class RotatingFile:
    """Writes the lines of one topic; its methods block, and must be called one at a time.

    Every method raises `OSError` if the file system fails; after that, only `abandon` may be called. Files
    that go to another machine are not moved here: `take_ended` returns them.

    :param clock: returns the local time, for the names of files
    :param monotonic: returns seconds on a monotonic clock, for the age of files
    """

    def __init__(
        self,
        names: TopicNames,
        options: FileOptions,
        *,
        clock: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self._names = names
        self._options = options
        self._clock = clock
        self._monotonic = monotonic
        self._file: OpenFile | None = None
        self._ended: list[EndedFile] = []
        self._name = ""
        self._revision = 0
        self._opened_at = 0.0

    @property
    def path(self) -> Path | None:
        """The file that is being written; None if there is none."""
        return self._file.path if self._file else None

    def write(self, bodies: Sequence[bytes]) -> None:
        """Write a line for each body, in as many files as necessary."""
        name = self._names.at(self._clock())
        while bodies:
            file = self._file_for(name)
            count = self._options.rotation.count_fitting(file.size, bodies)
            file.write(bodies[:count])
            bodies = bodies[count:]

    def sync(self) -> None:
        """Sync the file: return once everything written survives a crash of the machine."""
        if self._file is not None:
            self._file.sync()

    def tick(self) -> None:
        """End a file whose interval is over, and begin the next one unless empty files are skipped."""
        name = self._names.at(self._clock())
        if self._options.skip_empty_files:
            self._end_if_due(name)
        else:
            self._file_for(name)

    def close(self) -> None:
        """End the file; the next message begins another file, or is appended to a file of the same name."""
        if self._file is not None:
            self._file.close()
            self._finish(self._file)

    def take_ended(self) -> list[EndedFile]:
        """Return the files that have ended and must still be moved, each once."""
        ended, self._ended = self._ended, []
        return ended

    def abandon(self) -> None:
        """End the file after an error; keep only what was synced."""
        if self._file is not None:
            if self._file.abandon():
                self._finish(self._file)
            self._file = None

    # The choice of the file

    def _file_for(self, name: str) -> OpenFile:
        self._end_if_due(name)
        if self._file is None:
            self._file = self._open(name)
        return self._file

    def _end_if_due(self, name: str) -> None:
        if self._file is None:
            return
        if name != self._name:
            reason: str | None = f"its name is {name!r} now"
        else:
            age = self._monotonic() - self._opened_at
            reason = self._options.rotation.reason(size=self._file.size, age=age)
        if reason is not None:
            _log.info("ending %s: %s", self._file.path, reason)
            self.close()

    def _open(self, name: str) -> OpenFile:
        options = self._options
        self._revision = self._revision + 1 if name == self._name else 0
        self._name = name
        self._opened_at = self._monotonic()
        while True:
            relative = with_revision(name, self._revision)
            for directory in dict.fromkeys((options.work_dir, options.output_dir)):
                make_parent(directory / relative)
            path = options.work_dir / relative
            if not (options.moves and is_taken(options.output_dir / relative)):
                try:
                    file = OpenFile(
                        path, options.encoding, exclusive=options.exclusive, shared=not options.moves
                    )
                except FileExistsError:
                    pass
                else:
                    if not options.rotation.is_full(file.size):
                        _log.info("writing to %s", path)
                        return file
                    file.close()
            self._revision += 1

    def _finish(self, file: OpenFile) -> None:
        self._file = None
        if not self._options.moves:
            return
        ended = EndedFile(file.path, self._options.output_dir, self._name, self._revision)
        if self._options.is_remote:
            self._ended.append(ended)
        else:
            self._revision = ended.move()
