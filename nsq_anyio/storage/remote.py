"""The base of storages that are reached over a network, where answers may get lost.

A failed request is sent again, for up to a minute. If only the answer to a put was lost, the repeated put
finds its name taken, as if by another attempt. So the bytes are compared.
"""

from __future__ import annotations

import errno
import time
import uuid
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from .interface import Storage, StorageFailure

_TRIES = 5

GIVE_UP = 60.0
"""Seconds for which failed requests are tried again."""

_PAUSES = (0.1, 0.3, 1.0, 3.0)
"""Seconds before the next try; the last one is repeated."""

R = TypeVar("R")


@dataclass(frozen=True, slots=True, order=True)
class RemotePlace:
    """A file or directory of a remote storage, with the part of `pathlib.Path` that is used here.

    :ivar root: the URL of the bucket or file system, without a slash at the end
    :ivar parts: the names below it
    """

    root: str
    parts: tuple[str, ...]

    def __str__(self) -> str:
        return "/".join((self.root, *self.parts))

    def __truediv__(self, name: str) -> RemotePlace:
        return RemotePlace(self.root, (*self.parts, *name.split("/")))

    @property
    def name(self) -> str:
        """The last name."""
        return self.parts[-1] if self.parts else ""

    @property
    def parent(self) -> RemotePlace:
        """The directory around it."""
        return RemotePlace(self.root, self.parts[:-1])

    @property
    def key(self) -> str:
        """The names below the root, with slashes between them."""
        return "/".join(self.parts)

    def with_name(self, name: str) -> RemotePlace:
        """Return the place of this name in the same directory."""
        return self.parent / name


class RemoteStorage(Storage[RemotePlace]):
    """A storage whose answers may get lost, and whose exclusive put has to be verified."""

    poll_interval: float = 2.0  # each poll is two requests

    def __init__(self) -> None:
        self._verified: set[RemotePlace] = set()

    def make_around(self, target: RemotePlace) -> None:
        """Make the parent directories of a file, on storages with real directories."""

    @abstractmethod
    def create(self, target: RemotePlace, content: bytes) -> bool:
        """Put a whole file, unless its name is taken; return False if it is.

        If an answer was lost and the request was sent again, the file that has the name may be this one.
        """

    def put(
        self, target: RemotePlace, *content: bytes | memoryview, record: RemotePlace | None = None
    ) -> bool:
        """Put a file, then the empty file that is its record."""
        if not self._create_or_find(target, b"".join(content)):
            return False
        if record is not None:
            self.replace(record, b"")
        return True

    def _create_or_find(self, target: RemotePlace, content: bytes) -> bool:
        for _ in range(_TRIES):
            if self.create(target, content):
                return True
            try:
                # Only the same attempt can have written the same bytes: the messages of another attempt
                # differ in their attempts or ids. End chunks are all alike.
                return self.get(target) == content
            except FileNotFoundError:
                continue  # it was deleted meanwhile
        raise StorageFailure(errno.EAGAIN, "the name is taken, and then it is not")

    def put_empty(self, target: RemotePlace) -> None:
        self.create(target, b"")

    def renew(self, target: RemotePlace, content: bytes) -> None:
        """Write the file again: the server sets its time."""
        self.replace(target, content)

    def time(self, directory: RemotePlace) -> float:
        probe = directory / f".clock-{uuid.uuid4().hex}"
        try:
            self.replace(probe, b"")
        except OSError:
            return time.time()
        try:
            return self.status(probe).modified
        finally:
            self.remove(probe)

    def verify_exclusive_put(self, directory: RemotePlace) -> None:
        """Put a file twice, once per process and directory; the second put must fail."""
        if directory in self._verified:
            return
        probe = directory / f".probe-{uuid.uuid4().hex}"
        self._is_new(probe, b"first")
        if self._is_new(probe, b"second") or self.get(probe) != b"first":
            with suppress(OSError):  # a leftover probe is harmless
                self.remove(probe)
            raise StorageFailure(
                errno.EOPNOTSUPP,
                "this store ignores the condition of a put, so that one task could replace rows of another",
                "use a store that honours it (If-None-Match: * of S3 and Azure, x-goog-if-generation-match: "
                "0 of Cloud Storage), or a directory that is mounted",
            )
        self.remove(probe)
        self._verified.add(directory)

    def _is_new(self, probe: RemotePlace, content: bytes) -> bool:
        try:
            return self._create_or_find(probe, content)
        except FileNotFoundError:
            raise StorageFailure(
                errno.ENOENT, "no such bucket or directory", "make it, or correct the URL"
            ) from None


class Patience:
    """The pauses between the tries of one request.

    :param seconds: how long to try again
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._pauses = list(_PAUSES)

    def pause(self) -> bool:
        """Sleep until the next try; return False at once if there is none."""
        if time.monotonic() > self._end:
            return False
        time.sleep(self._pauses.pop(0) if len(self._pauses) > 1 else self._pauses[0])
        return True


def tried(action: Callable[[], R], is_worth_it: Callable[[Exception], bool], seconds: float) -> R:
    """Call a function until it succeeds, and return its result.

    :param is_worth_it: whether to try again after an error
    :param seconds: how long to try again
    """
    patience = Patience(seconds)
    while True:
        try:
            return action()
        except Exception as error:
            if not is_worth_it(error) or not patience.pause():
                raise
