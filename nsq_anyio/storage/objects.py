"""The storage in an object store. A conditional put gives an object its name in one step.

An object store has no directories. Here a directory exists while it contains an object named `MARKER`. The
driver makes the markers before Spark logs a batch. Without them, a partition that lost its chunks and its
record would look like one that has not begun. A late attempt can reuse a number once its object is deleted.
But a marker is deleted before the other objects of its directory, and the attempt looks for the marker after
its put. So the attempt finds that it is late, and does not finish its messages.

obstore retries only requests that it considers harmless. This module also retries conditional puts and
deletions: otherwise a server that closes a connection just when it is reused would end a query. It also
retries a put that conflicted with another request, and so was neither accepted nor refused.

It uses obstore, not pyarrow, whose file systems replace existing files and have no conditional put.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError, PreconditionError

from .interface import MARKER, Entry, Status
from .object_stores import Client, is_answer_lost, is_undecided, object_store
from .remote import GIVE_UP, RemotePlace, RemoteStorage, tried

if TYPE_CHECKING:
    from obstore import ObjectMeta

_AT_ONCE = 16
"""The most requests that run at once."""

LARGE = 16 * 1024 * 1024
"""The size in bytes up to which an object's request has `TIMEOUT` seconds; larger objects have more."""

TIMEOUT = 30.0
"""Seconds for a request; obstore's default."""

SLOWEST = 1_000_000.0
"""The lowest speed to expect for a large object, in bytes per second."""

R = TypeVar("R")


class ObjectStorage(RemoteStorage):
    """A bucket or container. Its address and credentials come from the environment, as obstore reads it."""

    takes_out_at_once = False

    def __init__(self, root: str) -> None:
        super().__init__()
        self._root = root
        self._store = object_store(root)
        self._client = self._store.connect(root, GIVE_UP)

    def create(self, target: RemotePlace, content: bytes) -> bool:
        """Put an object on the condition that its name is free."""
        with self._store.as_os_error():
            try:
                _put(self._client_for(content), target, content, "create")
            except (AlreadyExistsError, PreconditionError) as error:
                if is_undecided(error):
                    raise
                return False
        return True

    def _client_for(self, content: bytes) -> Client:
        """Return a client with time for a large object: a conditional put must be a single request."""
        if len(content) <= LARGE:
            return self._client
        return self._store.connect(self._root, GIVE_UP, TIMEOUT + len(content) / SLOWEST)

    def put(
        self, target: RemotePlace, *content: bytes | memoryview, record: RemotePlace | None = None
    ) -> bool:
        """Put an object and its record, if their directory exists before and afterwards."""
        self._check_directory(target)
        is_new = super().put(target, *content, record=record)
        if is_new:
            self._check_directory(target)
        return is_new

    def put_empty(self, target: RemotePlace) -> None:
        self._check_directory(target)
        super().put_empty(target)

    def _check_directory(self, target: RemotePlace) -> None:
        if not self.is_directory(target.parent):
            raise FileNotFoundError(errno.ENOENT, "No such directory", str(target.parent))

    def replace(self, target: RemotePlace, content: bytes) -> None:
        with self._store.as_os_error():
            _put(self._client, target, content, "overwrite")

    def get(self, target: RemotePlace) -> bytes:
        with self._store.as_os_error():
            return obstore.get(self._client, target.key).bytes().to_bytes()

    def entries(self, directory: RemotePlace) -> list[Entry]:
        """Return the names under a prefix, even if the directory has lost its marker."""
        objects, directories = self._listed(directory)
        names = [_name(each["path"]) for each in objects]
        files = [Entry(name, is_directory=False) for name in names if name != MARKER]
        return [*files, *(Entry(place.name, is_directory=True) for place in directories)]

    def files(self, directory: RemotePlace) -> Iterator[RemotePlace]:
        """Yield all objects under a prefix, except for markers."""
        return (place for place in self._below(directory) if place.name != MARKER)

    def status(self, target: RemotePlace) -> Status:
        with self._store.as_os_error():
            found: ObjectMeta = obstore.head(self._client, target.key)
        return _status(found)

    def statuses(self, directory: RemotePlace) -> dict[str, Status]:
        objects, _ = self._listed(directory)
        return {_name(each["path"]): _status(each) for each in objects}

    def exists(self, place: RemotePlace) -> bool:
        """Return whether there is an object of this name, or any below it."""
        return self._is_object(place) or self._has_objects(place)

    def is_directory(self, place: RemotePlace) -> bool:
        """Return whether a directory has its marker."""
        return self._is_object(self.marker_of(place))

    def missing(self, directories: Iterable[RemotePlace]) -> list[RemotePlace]:
        places = list(directories)
        found = _each(self.is_directory, places)
        return [place for place, is_there in zip(places, found, strict=True) if not is_there]

    def marker_of(self, directory: RemotePlace) -> RemotePlace:
        return directory / MARKER

    def make(self, *directories: RemotePlace, parents: bool = False) -> None:
        """Put the markers of directories, and with ``parents`` those of their parents."""
        around = {each.parent for each in directories if each.parent.parts} if parents else set[RemotePlace]()
        _each(lambda place: self.create(self.marker_of(place), b""), [*around, *directories])

    def remove(self, *files: RemotePlace) -> None:
        if not files:
            return
        try:
            self._remove(files)
        except FileNotFoundError:
            # S3 ignores objects that are gone. Other stores fail, and may have stopped at the first.
            _each(self._remove_one, files)

    def _remove_one(self, file: RemotePlace) -> None:
        with suppress(FileNotFoundError):
            self._remove([file])

    def _remove(self, files: Iterable[RemotePlace]) -> None:
        with self._store.as_os_error():
            keys = [file.key for file in files]
            _until_answered(lambda: obstore.delete(self._client, keys))

    def remove_directory(self, directory: RemotePlace) -> None:
        """Delete the marker of a directory."""
        self.remove(self.marker_of(directory))
        self._forget([directory])

    def _forget(self, directories: Iterable[RemotePlace]) -> None:
        """Delete empty directories, which a hierarchical namespace keeps, the inner ones first.

        `entries` does not show a directory that remains, but needs a request for it.
        """
        if not self._store.keeps_directories:
            return
        by_depth: dict[int, list[RemotePlace]] = {}
        for place in directories:
            by_depth.setdefault(len(place.parts), []).append(place)
        for _, places in sorted(by_depth.items(), reverse=True):
            _each(self._forget_one, places)

    def _forget_one(self, directory: RemotePlace) -> None:
        # A flat namespace has no directories, and a directory with objects cannot be deleted.
        with suppress(OSError):
            self._remove([directory])

    def take_out(self, directory: RemotePlace) -> RemotePlace:
        """Delete the markers of a directory and of the directories in it."""
        if not self._without_markers(directory):
            raise FileNotFoundError(errno.ENOENT, "No such directory", str(directory))
        return directory

    def _without_markers(self, directory: RemotePlace) -> list[RemotePlace]:
        """Delete the markers under a prefix; return all objects that were there."""
        found = list(self._below(directory))
        self.remove(*(place for place in found if place.name == MARKER))
        self._forget({place.parent for place in found})
        return found

    def taken_out(self, parent: RemotePlace) -> list[RemotePlace]:  # noqa: ARG002 - the interface
        """Return nothing: the rest of a directory is still found under its name."""
        return []

    def delete(self, directory: RemotePlace) -> None:
        """Delete all objects under a prefix, those directly in it last: the directory is found until then."""
        self._without_markers(directory)
        found = list(self._below(directory))
        for is_last in (False, True):
            self.remove(*(place for place in found if (place.parent == directory) is is_last))
        self._forget({directory, *(place.parent for place in found)})

    def _below(self, directory: RemotePlace) -> Iterator[RemotePlace]:
        with self._store.as_os_error():
            found = _until_answered(lambda: obstore.list(self._client, directory.key).collect())  # pyright: ignore[reportUnknownMemberType] - its Arrow variant
        return (RemotePlace(self._root, tuple(each["path"].split("/"))) for each in found)

    def _listed(self, directory: RemotePlace) -> tuple[Sequence[ObjectMeta], list[RemotePlace]]:
        """Return the objects under a prefix, and the directories that have objects."""
        with self._store.as_os_error():
            found = _until_answered(lambda: obstore.list_with_delimiter(self._client, directory.key))  # pyright: ignore[reportUnknownMemberType] - its Arrow variant
        objects = found["objects"]
        directories = [directory / _name(prefix) for prefix in found["common_prefixes"]]
        if self._store.keeps_directories:
            in_use = _each(self._has_objects, directories)
            directories = [
                place for place, has_objects in zip(directories, in_use, strict=True) if has_objects
            ]
        if not objects and not directories:
            raise FileNotFoundError(errno.ENOENT, "No such directory", str(directory))
        return objects, directories

    def _has_objects(self, directory: RemotePlace) -> bool:
        with self._store.as_os_error():
            first = _until_answered(lambda: next(obstore.list(self._client, directory.key), None))  # pyright: ignore[reportUnknownMemberType] - its Arrow variant
        return bool(first)

    def _is_object(self, place: RemotePlace) -> bool:
        try:
            self.status(place)
        except FileNotFoundError:
            return False
        return True


def _until_answered(send: Callable[[], R]) -> R:
    """Send a request again if its answer was lost.

    obstore itself does so only for requests that it considers harmless: not for conditional puts, deletions,
    or answers that have begun.
    """
    return tried(send, is_answer_lost, GIVE_UP)


def _put(client: Client, target: RemotePlace, content: bytes, mode: Literal["create", "overwrite"]) -> None:
    """Put an object; retry if the answer was lost, or the put conflicted with another request."""
    tried(
        lambda: obstore.put(client, target.key, content, mode=mode),
        lambda error: is_answer_lost(error) or is_undecided(error),
        GIVE_UP,
    )


def _status(found: ObjectMeta) -> Status:
    return Status(found["size"], found["last_modified"].timestamp())


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _each(action: Callable[[RemotePlace], R], places: Sequence[RemotePlace]) -> list[R]:
    """Call a function for many places, several at a time, because each waits for an answer."""
    if len(places) < 2:
        return [action(place) for place in places]
    with ThreadPoolExecutor(min(_AT_ONCE, len(places))) as threads:
        return list(threads.map(action, places))
