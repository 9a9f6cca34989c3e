"""The move of finished files to the output directory, or to the storage of a URL, without overwriting any.

If the answer of a storage is lost, the file is stored again, under another name. A spool would recognize its
own bytes by their ids. Here, equal content proves nothing: two files may be equal, and both must be kept.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ...files import link_exclusively, sync_directory
from ...storage.interface import explained
from ...storage.place import Place, remote_storage_of
from ...storage.remote import RemotePlace, RemoteStorage
from .file_names import with_revision

_log = logging.getLogger("nsq_anyio.to_file")


def check_store(directory: RemotePlace) -> None:
    """Check that the storage accepts files, and never overwrites one.

    :raises OSError: if not
    """
    with _explained_errors(directory):
        store = _store_of(directory)
        store.make_around(directory / "file")
        store.verify_exclusive_put(directory)


def is_taken(target: Place) -> bool:
    """Return whether a file of this name exists.

    :raises OSError: if the storage cannot tell
    """
    if isinstance(target, Path):
        return target.exists()
    with _explained_errors(target):
        return _store_of(target).exists(target)


def make_parent(target: Place, kept: str = "") -> None:
    """Make the directory of a file, and its missing parents.

    :param kept: says where the file stays if that fails, for the error
    :raises OSError: if that fails
    """
    if isinstance(target, Path):
        make_directories(target.parent)
        return
    with _explained_errors(target, kept):
        _store_of(target).make_around(target)


def move_exclusively(source: Path, target: Place) -> None:
    """Move a file, unless the new name is taken. A local target must be on the same file system.

    A file that cannot be moved stays where it is.

    :raises FileExistsError: if the new name is taken
    :raises OSError: if moving fails otherwise
    """
    if isinstance(target, Path):
        is_new = link_exclusively(source, target)
        if is_new:
            sync_directory(target.parent)
    else:
        with _explained_errors(target, stays(source)):
            is_new = _store_of(target).create(target, source.read_bytes())
    if not is_new:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    source.unlink()
    sync_directory(source.parent)


@dataclass(frozen=True, slots=True)
class EndedFile:
    """A finished file that is to be moved.

    :ivar path: its path in the work directory
    :ivar output_dir: the directory to move it to
    :ivar name: its name there, before ``<REV>`` is replaced
    :ivar revision: the first number to try
    """

    path: Path
    output_dir: Place
    name: str
    revision: int

    def move(self) -> int:
        """Move the file under the first free number, at or above its own; return that number.

        :raises OSError: if that fails
        """
        revision = self.revision
        while True:
            target = self.output_dir / with_revision(self.name, revision)
            try:
                move_exclusively(self.path, target)
            except FileExistsError:
                revision += 1
                make_parent(self.output_dir / with_revision(self.name, revision), stays(self.path))
            else:
                _log.info("moved %s to %s", self.path, target)
                return revision


def stays(path: Path) -> str:
    """Return the text about a file that cannot be moved, for errors and the log."""
    return f"{path} stays, and is moved when the command begins again"


def _store_of(place: RemotePlace) -> RemoteStorage:
    try:
        return remote_storage_of(place)
    except ImportError as error:
        raise OSError(str(error)) from error


@contextmanager
def _explained_errors(target: RemotePlace, kept: str = "") -> Generator[None]:
    """Add the file, the remedy, and ``kept`` to the errors of a storage."""
    try:
        yield
    except OSError as error:
        text = f"{target}: {explained(error)}"
        # No errno: EEXIST would look like a taken name.
        raise OSError(f"{text}; {kept}" if kept else text) from error


_MODE = 0o770
"""The mode of new directories, as in nsq_to_file."""


def make_directories(path: Path) -> None:
    """Create a directory and its missing parents.

    :raises OSError: if that fails
    """
    missing = [path, *path.parents]
    while missing and missing[-1].is_dir():
        missing.pop()
    for directory in reversed(missing):
        directory.mkdir(_MODE, exist_ok=True)
        sync_directory(directory.parent)
