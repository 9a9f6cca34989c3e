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
        """Put a file: its content is durable before it gets its name, the name is durable after `sync`."""
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

    def put_empty(self, target: Path) -> None:
        target.touch()

    def replace(self, target: Path, content: bytes) -> None:
        target.write_bytes(content)

    def renew(self, target: Path, content: bytes) -> None:
        try:
            os.utime(target)
        except FileNotFoundError:
            target.write_bytes(content)

    def get(self, target: Path) -> bytes:
        return target.read_bytes()

    def entries(self, directory: Path) -> list[Entry]:
        with os.scandir(directory) as found:
            return [Entry(entry.name, entry.is_dir()) for entry in found]

    def files(self, directory: Path) -> Iterator[Path]:
        for where, _, names in os.walk(directory):
            for name in names:
                yield Path(where, name)

    def status(self, target: Path) -> Status:
        found = target.stat()
        return Status(found.st_size, found.st_mtime)

    def statuses(self, directory: Path) -> dict[str, Status]:
        statuses: dict[str, Status] = {}
        with os.scandir(directory) as found:
            for entry in found:
                with suppress(FileNotFoundError):  # deleted meanwhile
                    status = entry.stat()
                    statuses[entry.name] = Status(status.st_size, status.st_mtime)
        return statuses

    def exists(self, place: Path) -> bool:
        return os.path.lexists(place)  # also for a dangling link

    def is_directory(self, place: Path) -> bool:
        return place.is_dir()

    def make(self, *directories: Path, parents: bool = False) -> None:
        for directory in directories:
            directory.mkdir(parents=parents, exist_ok=True)

    def remove(self, *files: Path) -> None:
        for file in files:
            file.unlink(missing_ok=True)

    def remove_directory(self, directory: Path) -> None:
        directory.rmdir()

    def take_out(self, directory: Path) -> Path:
        """Rename a directory, so that no reader sees a part of it."""
        return directory.rename(directory.with_name(f"{DELETED}{directory.name}-{uuid.uuid4().hex}"))

    def taken_out(self, parent: Path) -> list[Path]:
        return sorted(path for path in parent.iterdir() if path.name.startswith(DELETED))

    def delete(self, directory: Path) -> None:
        shutil.rmtree(directory)

    def sync(self, directory: Path) -> None:
        """Return once the names in a directory survive a crash of the machine."""
        sync_directory(directory)

    def time(self, directory: Path) -> float:
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
    """Write all of ``content``: when the disk fills up, a write may be partial, and the next one raises."""
    left = memoryview(content)
    while left:
        left = left[file.write(left) :]
