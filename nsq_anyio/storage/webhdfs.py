"""The storage in HDFS, over HTTP: a rename that replaces nothing gives a file its name in one step.

HDFS renames directories in one step, and creates no file in a directory that is gone. So everything works as
on a file system with hard links, except that a record is an empty file.

It uses WebHDFS, not pyarrow. pyarrow needs libhdfs from a Hadoop distribution and a JVM in each Python
worker, because workers cannot use Spark's own JVM; and its `open_output_stream` replaces existing files. The
price is that Kerberos is not supported.
"""

from __future__ import annotations

import errno
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

from .interface import DELETED, Entry, Status
from .remote import GIVE_UP, RemotePlace, RemoteStorage, tried
from .webhdfs_client import DatanodeFailed, WebHdfsClient

_ONLY_IF_FREE = "NONE"
"""The option of a rename that replaces nothing; without any option, HDFS only returns false."""

T = TypeVar("T")


class WebHdfs(RemoteStorage):
    """An HDFS file system."""

    def __init__(self, root: str) -> None:
        super().__init__()
        self.client: WebHdfsClient = WebHdfsClient(root)

    def make_around(self, target: RemotePlace) -> None:
        """Make the parent directory, and the directories above it."""
        self.make(target.parent)

    def create(self, target: RemotePlace, content: bytes) -> bool:
        """Write a temporary file, and rename it."""
        return _tried(lambda: self._create(target, content))

    def _create(self, target: RemotePlace, content: bytes) -> bool:
        # A new name for each try: a datanode that was given up may still begin the file of an earlier try.
        temporary = target.with_name(f".{target.name}-{uuid.uuid4().hex}")
        try:
            self.client.write(_path(temporary), content, overwrite=False)
            is_new = self._rename(temporary, target)
        except BaseException:
            with suppress(OSError):  # the first error is the one to report
                self.remove(temporary)
            raise
        if not is_new:
            self.remove(temporary)
        return is_new

    def _rename(self, source: RemotePlace, target: RemotePlace) -> bool:
        try:
            self._ask("PUT", source, "RENAME", destination=_path(target), renameoptions=_ONLY_IF_FREE)
        except FileExistsError:
            return False
        except FileNotFoundError:
            # The answer to a rename was lost, or the directory is gone.
            if self.exists(source) or not self.exists(target):
                raise
            return False
        return True

    def put_empty(self, target: RemotePlace) -> None:
        """Write an empty file: a file that it replaces is empty, too."""
        self.replace(target, b"")

    def replace(self, target: RemotePlace, content: bytes) -> None:
        """Write a file under its final name, without a rename."""
        _tried(lambda: self.client.write(_path(target), content, overwrite=True))

    def get(self, target: RemotePlace) -> bytes:
        return _tried(lambda: self.client.read(_path(target)))

    def entries(self, directory: RemotePlace) -> list[Entry]:
        return [Entry(each["pathSuffix"], each["type"] == "DIRECTORY") for each in self._listed(directory)]

    def files(self, directory: RemotePlace) -> Iterator[RemotePlace]:
        try:
            entries = self.entries(directory)
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in entries:
            place = directory / entry.name
            if entry.is_directory:
                yield from self.files(place)
            else:
                yield place

    def status(self, target: RemotePlace) -> Status:
        return _status_of(self._status(target))

    def statuses(self, directory: RemotePlace) -> dict[str, Status]:
        return {
            each["pathSuffix"]: _status_of(each)
            for each in self._listed(directory)
            if each["type"] != "DIRECTORY"
        }

    def exists(self, place: RemotePlace) -> bool:
        try:
            self._status(place)
        except FileNotFoundError:
            return False
        return True

    def is_directory(self, place: RemotePlace) -> bool:
        try:
            return bool(self._status(place)["type"] == "DIRECTORY")
        except (FileNotFoundError, NotADirectoryError):
            return False

    def make(self, *directories: RemotePlace, parents: bool = False) -> None:  # noqa: ARG002 - HDFS always makes them
        for directory in directories:
            self._ask("PUT", directory, "MKDIRS")

    def remove(self, *files: RemotePlace) -> None:
        for file in files:
            self._ask("DELETE", file, "DELETE", recursive="false")

    def remove_directory(self, directory: RemotePlace) -> None:
        self._ask("DELETE", directory, "DELETE", recursive="false")

    def take_out(self, directory: RemotePlace) -> RemotePlace:
        """Rename a directory, so that no reader sees a part of it."""
        target = directory.with_name(f"{DELETED}{directory.name}-{uuid.uuid4().hex}")
        if not self._rename(directory, target) and not self.is_directory(target):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(directory))
        return target

    def taken_out(self, parent: RemotePlace) -> list[RemotePlace]:
        return [parent / entry.name for entry in self.entries(parent) if entry.name.startswith(DELETED)]

    def delete(self, directory: RemotePlace) -> None:
        self._ask("DELETE", directory, "DELETE", recursive="true")

    def _listed(self, directory: RemotePlace) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._ask("GET", directory, "LISTSTATUS")["FileStatuses"]["FileStatus"]
        if len(found) == 1 and not found[0]["pathSuffix"]:
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(directory))
        return found

    def _status(self, place: RemotePlace) -> dict[str, Any]:
        found: dict[str, Any] = self._ask("GET", place, "GETFILESTATUS")["FileStatus"]
        return found

    def _ask(self, method: str, place: RemotePlace, operation: str, **parameters: str) -> Any:
        return self.client.ask(method, _path(place), operation, **parameters)


def _tried(action: Callable[[], T]) -> T:
    """Call a function that uses a datanode; call it again if the datanode fails."""
    return tried(action, lambda error: isinstance(error, DatanodeFailed), GIVE_UP)


def _status_of(found: dict[str, Any]) -> Status:
    return Status(found["length"], found["modificationTime"] / 1000)


def _path(place: RemotePlace) -> str:
    return f"/{place.key}"
