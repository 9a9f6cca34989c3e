"""Spools in an object store. A put that must not replace anything gives an object its name in one step.

An object store has no directories. Here a directory exists while it has an object of the name `MARKER`: the
driver makes these before Spark logs a batch. They are deleted before anything else of the directory. So a
late attempt, which can take a number again once its object is deleted, does not find the marker after its
put, and does not finish its messages.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import S3Store

from .failure import NOT_ALLOWED, StorageFailure
from .interface import MARKER, Entry, Status
from .remote import RemotePlace, RemoteStorage

if TYPE_CHECKING:
    from obstore import ListResult, ObjectMeta

__all__ = ["GIVE_UP", "ObjectStorage"]

_AT_ONCE = 16
"""Requests for many markers under way at once."""

GIVE_UP = 60.0
"""Seconds for which failed requests are tried again."""

_STATUS = re.compile(r"status code: (\d+ [A-Za-z ]+)")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_KIND = re.compile(r"\b(?:kind: (\w+),|source: (\w+Response) {)")

R = TypeVar("R")


class ObjectStorage(RemoteStorage):
    """A bucket. Its endpoint, region and credentials come from the environment, as obstore reads it."""

    takes_out_at_once = False

    def __init__(self, root: str) -> None:
        super().__init__()
        self._root = root
        with _as_os_error():
            self._store = S3Store.from_url(root, retry_config={"retry_timeout": timedelta(seconds=GIVE_UP)})

    def create(self, target: RemotePlace, content: bytes) -> bool:
        """Put an object by If-None-Match."""
        with _as_os_error():
            try:
                obstore.put(self._store, target.key, content, mode="create")
            except AlreadyExistsError:
                return False
        return True

    def put(
        self, target: RemotePlace, *content: bytes | memoryview, record: RemotePlace | None = None
    ) -> bool:
        """Put an object and its record, if their directory exists before and afterwards."""
        self._check_directory(target)
        is_new = super().put(target, *content, record=record)
        if is_new:
            self._check_directory(target)
        return is_new

    def mark(self, target: RemotePlace) -> None:
        """Put an empty object, if its directory exists."""
        self._check_directory(target)
        super().mark(target)

    def _check_directory(self, target: RemotePlace) -> None:
        if not self.is_directory(target.parent):
            raise FileNotFoundError(errno.ENOENT, "No such directory", str(target.parent))

    def replace(self, target: RemotePlace, content: bytes) -> None:
        """Put an object over another one."""
        with _as_os_error():
            obstore.put(self._store, target.key, content, mode="overwrite")

    def get(self, target: RemotePlace) -> bytes:
        """Return the content of an object."""
        with _as_os_error():
            return obstore.get(self._store, target.key).bytes().to_bytes()

    def entries(self, directory: RemotePlace) -> list[Entry]:
        """Return the names under a prefix; also those in a directory that has lost its marker."""
        found = self._listed(directory)
        names = [_name(each["path"]) for each in found["objects"]]
        files = [Entry(name, is_directory=False) for name in names if name != MARKER]
        return [*files, *(Entry(_name(prefix), is_directory=True) for prefix in found["common_prefixes"])]

    def files(self, directory: RemotePlace) -> Iterator[RemotePlace]:
        """Yield all objects under a prefix, except for markers."""
        return (place for place in self._below(directory) if place.name != MARKER)

    def status(self, target: RemotePlace) -> Status:
        """Return the size and the time of an object."""
        with _as_os_error():
            found: ObjectMeta = obstore.head(self._store, target.key)
        return _status(found)

    def statuses(self, directory: RemotePlace) -> dict[str, Status]:
        """Return the sizes and times of the objects under a prefix."""
        return {_name(each["path"]): _status(each) for each in self._listed(directory)["objects"]}

    def exists(self, place: RemotePlace) -> bool:
        """Return whether there is an object of this name, or any below it."""
        return self._is_object(place) or next(self._below(place), None) is not None

    def is_directory(self, place: RemotePlace) -> bool:
        """Return whether a directory has its marker."""
        return self._is_object(self.proof(place))

    def missing(self, directories: Iterable[RemotePlace]) -> list[RemotePlace]:
        """Return those directories that have no marker."""
        places = list(directories)
        found = _each(self.is_directory, places)
        return [place for place, is_there in zip(places, found, strict=True) if not is_there]

    def proof(self, directory: RemotePlace) -> RemotePlace:
        """Return the marker of a directory."""
        return directory / MARKER

    def make(self, *directories: RemotePlace, parents: bool = False) -> None:
        """Put the markers of directories, and of the one around a single directory."""
        around = {each.parent for each in directories if each.parent.parts} if parents else set[RemotePlace]()
        _each(lambda place: self.create(self.proof(place), b""), [*around, *directories])

    def remove(self, *files: RemotePlace) -> None:
        """Delete objects, as far as they exist."""
        if files:
            with _as_os_error():
                obstore.delete(self._store, [file.key for file in files])

    def remove_directory(self, directory: RemotePlace) -> None:
        """Delete the marker of a directory."""
        self.remove(self.proof(directory))

    def take_out(self, directory: RemotePlace) -> RemotePlace:
        """Delete the markers of a directory and of those in it."""
        found = list(self._below(directory))
        if not found:
            raise FileNotFoundError(errno.ENOENT, "No such directory", str(directory))
        self.remove(*(place for place in found if place.name == MARKER))
        return directory

    def taken_out(self, parent: RemotePlace) -> list[RemotePlace]:  # noqa: ARG002 - the interface
        """Return nothing: what is left of a directory is still found under its name."""
        return []

    def delete(self, directory: RemotePlace) -> None:
        """Delete all objects under a prefix; those directly in it last, so that it is found until then."""
        self.take_out(directory)
        found = list(self._below(directory))
        for is_last in (False, True):
            self.remove(*(place for place in found if (place.parent == directory) is is_last))

    def _below(self, directory: RemotePlace) -> Iterator[RemotePlace]:
        with _as_os_error():
            for page in obstore.list(self._store, directory.key):  # pyright: ignore[reportUnknownMemberType] - its Arrow variant
                for found in page:
                    yield RemotePlace(self._root, tuple(found["path"].split("/")))

    def _listed(self, directory: RemotePlace) -> ListResult[Sequence[ObjectMeta]]:
        with _as_os_error():
            found = obstore.list_with_delimiter(self._store, directory.key)  # pyright: ignore[reportUnknownMemberType] - its Arrow variant
        if not found["objects"] and not found["common_prefixes"]:
            raise FileNotFoundError(errno.ENOENT, "No such directory", str(directory))
        return found

    def _is_object(self, place: RemotePlace) -> bool:
        try:
            self.status(place)
        except FileNotFoundError:
            return False
        return True


def _status(found: ObjectMeta) -> Status:
    return Status(found["size"], found["last_modified"].timestamp())


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _each(action: Callable[[RemotePlace], R], places: list[RemotePlace]) -> list[R]:
    """Do something for many places, several at a time, because each waits for an answer."""
    if len(places) < 2:
        return [action(place) for place in places]
    with ThreadPoolExecutor(min(_AT_ONCE, len(places))) as threads:
        return list(threads.map(action, places))


@contextmanager
def _as_os_error() -> Generator[None]:
    """Raise what obstore raises as an `OSError`. Its texts repeat what the server says, and are not shown."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, "No such object") from None
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise StorageFailure(errno.EACCES, _told(error), NOT_ALLOWED) from None
    except BaseError as error:
        raise StorageFailure(errno.EIO, _told(error)) from None


def _told(error: Exception) -> str:
    """Return what kind of failure it was: the HTTP status with S3's code, or the kind of network failure."""
    text = str(error)
    status = _STATUS.search(text)
    if status is None:
        kind = _KIND.search(text)
        told = kind[1] or kind[2] if kind else type(error).__name__
        return f"the object store cannot be used: {told}"
    code = _CODE.search(text)
    return f"the object store answered {status[1].strip()}{f', {code[1]}' if code else ''}"
