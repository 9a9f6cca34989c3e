"""The interface of storages for spools and archives, and their errors.

No file is appended to, and no file with rows is replaced. A file is put as a whole, and the put fails if its
name is taken. Files are listed, read and deleted. The directories of a spool are made before its rows are
written, and show what it should contain. A storage without directories has an empty object for each.

Error texts of servers and client libraries are not shown: they repeat keys, tokens and signed URLs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, TypeVar

DELETED = ".deleted-"
"""The prefix of directories that `Storage.take_out` has renamed, and that are still to be deleted."""

MARKER = ".directory"
"""The empty object that stands for a directory where a storage has no directories."""

P = TypeVar("P")

NOT_ALLOWED = "let the credentials read, write, list and delete there"


@dataclass(frozen=True, slots=True)
class Entry:
    """A name in a directory."""

    name: str
    is_directory: bool


@dataclass(frozen=True, slots=True)
class Status:
    """A file's size and modification time, the latter by its storage's clock in seconds since 1970."""

    size: int
    modified: float


class Storage(ABC, Generic[P]):
    """A storage; ``P`` is the type of its places.

    All methods raise `OSError`: `FileNotFoundError` if something does not exist, else an error with a text.
    """

    takes_out_at_once: bool = True
    """Whether `take_out` is one step. Otherwise, readers may see a part of the directory for a while."""

    poll_interval: float = 0.4
    """The longest interval between polls for files of other processes, in seconds."""

    @abstractmethod
    def put(self, target: P, *content: bytes | memoryview, record: P | None = None) -> bool:
        """Put a whole file durably, unless its name is taken; return whether the name was free.

        It is an error if its directory does not exist, or is taken out before this returns.

        :param record: the place of a record, which is put after the file; only its name matters
        :raises OSError: if the put fails; then no part of the file remains, unless only the record failed
        """

    @abstractmethod
    def put_empty(self, target: P) -> None:
        """Put an empty file, unless it exists; its name is the information."""

    @abstractmethod
    def replace(self, target: P, content: bytes) -> None:
        """Write a file, or replace an existing one. It need not be durable, and holds no rows."""

    @abstractmethod
    def renew(self, target: P, content: bytes) -> None:
        """Set the modification time of a file to now; write the file if it is gone."""

    @abstractmethod
    def get(self, target: P) -> bytes:
        """Return the content of a file."""

    @abstractmethod
    def entries(self, directory: P) -> list[Entry]:
        """Return the names in a directory, in any order.

        :raises FileNotFoundError: if it does not exist
        """

    @abstractmethod
    def files(self, directory: P) -> Iterator[P]:
        """Yield all files in a directory and below it; none if it does not exist."""

    @abstractmethod
    def status(self, target: P) -> Status:
        """Return the size and the modification time of a file."""

    @abstractmethod
    def statuses(self, directory: P) -> dict[str, Status]:
        """Return the sizes and times of the files in a directory, by their names.

        :raises FileNotFoundError: if it does not exist
        """

    @abstractmethod
    def exists(self, place: P) -> bool:
        """Return whether there is a file or directory of this name, or anything below it."""

    @abstractmethod
    def is_directory(self, place: P) -> bool:
        """Return whether there is a directory of this name."""

    def missing(self, directories: Iterable[P]) -> list[P]:
        """Return the directories that do not exist."""
        return [each for each in directories if not self.is_directory(each)]

    def marker_of(self, directory: P) -> P:
        """Return the place that shows whether a directory exists: itself, or its `MARKER`."""
        return directory

    @abstractmethod
    def make(self, *directories: P, parents: bool = False) -> None:
        """Make directories, unless they exist.

        :param parents: whether to make their parents, too
        """

    @abstractmethod
    def remove(self, *files: P) -> None:
        """Delete the files that exist; ignore the others."""

    @abstractmethod
    def remove_directory(self, directory: P) -> None:
        """Delete an empty directory."""

    @abstractmethod
    def take_out(self, directory: P) -> P:
        """Make a directory unusable, so that nothing can be put there; return where its contents are now.

        :raises FileNotFoundError: if it does not exist
        """

    @abstractmethod
    def taken_out(self, parent: P) -> list[P]:
        """Return the directories that were taken out of this one and are still to be deleted."""

    @abstractmethod
    def delete(self, directory: P) -> None:
        """Delete a directory that was taken out, with all of its contents."""

    def sync(self, directory: P) -> None:
        """Return once the names in a directory are durable; where they always are, this does nothing."""

    @abstractmethod
    def time(self, directory: P) -> float:
        """Return the time of the storage's clock; this machine's if nothing can be written there."""

    def verify_exclusive_put(self, directory: P) -> None:
        """Check that a second put of a name fails, on storages where it might not.

        :raises OSError: if a second put of a name succeeds
        """


class StorageFailure(OSError):
    """A storage's server refused a request, or did not answer.

    :ivar remedy: advice to the user; empty if unknown
    """

    def __init__(self, code: int, text: str, remedy: str = "") -> None:
        super().__init__(code, text)
        self.remedy = remedy


def explained(error: OSError, remedies: Mapping[int, str] = MappingProxyType({})) -> str:
    """Return the text of an error, with its remedy if that is known.

    :param remedies: by errno
    """
    text = error.strerror or str(error)
    remedy = getattr(error, "remedy", "") or remedies.get(error.errno or 0)
    return f"{text}: {remedy}" if remedy else text
