"""The storage on a local or mounted file system. A hard link gives a file its name in one step."""

from __future__ import annotations

import io
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from ..files import link_exclusively, sync_directory, sync_file
from .interface import DELETED, Entry, Status, Storage


class PosixStorage(Storage[Path]):
    """A file system with hard links."""

    def put(self, target: Path, *content: bytes | memoryview, record: Path | None = None) -> bool:
        """Put a file whole: its content is on disk before it gets its name, the name only after `sync`."""
        temporary = target.with_name(f".{target.name}-{uuid.uuid4().hex}")
        try:
            with temporary.open("xb", buffering=0) as file:
                for part in content:
                    _write(file, part)
                sync_file(file.fileno())
            if not link_exclusively(temporary, target):
                return False
            if record is not None:
                # Another name costs a filesystem little; another file would cost as much as all the rest.
                temporary.rename(record)
        finally:
            temporary.unlink(missing_ok=True)
        return True

    def mark(self, target: Path) -> None:
        """Put an empty file, unless it exists."""
        target.touch()

    def replace(self, target: Path, content: bytes) -> None:
        """Write a file that may exist."""
        target.write_bytes(content)

    def renew(self, target: Path, content: bytes) -> None:
        """Set the time of a file; write it, if it is gone."""
        try:
            os.utime(target)
        except FileNotFoundError:
            target.write_bytes(content)

    def get(self, target: Path) -> bytes:
        """Return the content of a file."""
        return target.read_bytes()

    def entries(self, directory: Path) -> list[Entry]:
        """Return the names in a directory."""
        with os.scandir(directory) as found:
            return [Entry(entry.name, entry.is_dir()) for entry in found]

    def files(self, directory: Path) -> Iterator[Path]:
        """Yield all files below a directory."""
        for where, _, names in os.walk(directory):
            for name in names:
                yield Path(where, name)

    def status(self, target: Path) -> Status:
        """Return the size and the time of a file."""
        found = target.stat()
        return Status(found.st_size, found.st_mtime)

    def statuses(self, directory: Path) -> dict[str, Status]:
        """Return the sizes and times of the files in a directory."""
        statuses: dict[str, Status] = {}
        with os.scandir(directory) as found:
            for entry in found:
                with suppress(FileNotFoundError):  # deleted meanwhile
                    status = entry.stat()
                    statuses[entry.name] = Status(status.st_size, status.st_mtime)
        return statuses

    def exists(self, place: Path) -> bool:
        """Return whether there is anything of this name, also a link to nowhere."""
        return os.path.lexists(place)

    def is_directory(self, place: Path) -> bool:
        """Return whether there is a directory of this name."""
        return place.is_dir()

    def make(self, *directories: Path, parents: bool = False) -> None:
        """Make directories, unless they exist."""
        for directory in directories:
            directory.mkdir(parents=parents, exist_ok=True)

    def remove(self, *files: Path) -> None:
        """Delete files, as far as they exist."""
        for file in files:
            file.unlink(missing_ok=True)

    def remove_directory(self, directory: Path) -> None:
        """Delete an empty directory."""
        directory.rmdir()

    def take_out(self, directory: Path) -> Path:
        """Rename a directory, so that nobody finds a half of it."""
        return directory.rename(directory.with_name(f"{DELETED}{directory.name}-{uuid.uuid4().hex}"))

    def taken_out(self, parent: Path) -> list[Path]:
        """Return the directories that `take_out` has renamed."""
        return sorted(path for path in parent.iterdir() if path.name.startswith(DELETED))

    def delete(self, directory: Path) -> None:
        """Delete a directory with all of its contents."""
        shutil.rmtree(directory)

    def sync(self, directory: Path) -> None:
        """Return once the names in a directory survive a crash of the machine."""
        sync_directory(directory)

    def time(self, directory: Path) -> float:
        """Return the file system's time; this machine's time if nothing can be written there."""
        probe = directory / f".clock-{uuid.uuid4().hex}"
        try:
            probe.touch()
        except OSError:
            return time.time()
        try:
            return probe.stat().st_mtime
        finally:
            probe.unlink(missing_ok=True)


def _write(file: io.FileIO, content: bytes | memoryview) -> None:
    """Write all of it: when the disk gets full, a write may be partial, and the next one raises."""
    left = memoryview(content)
    while left:
        left = left[file.write(left) :]
